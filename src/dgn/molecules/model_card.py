"""The model card: targets, training data, scores and limitations of a model."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from dgn.molecules.columns import Target, output_names
from dgn.molecules.conformal import quantile_rank
from dgn.molecules.descriptor_models import NETWORK
from dgn.molecules.model_io import Model
from dgn.molecules.rows import Problem
from dgn.training.tables import Table

SCORES = {
    "regression": ("molecules", "mae", "rmse", "r2", "mae of the training median", "coverage", "width"),
    "classification": ("molecules", "positive", "roc-auc", "average precision", "brier"),
    "multiclass": (
        "molecules", "accuracy", "balanced accuracy", "roc-auc", "log loss", "accuracy of the commonest class",
    ),
}  # fmt: skip

KINDS = ("networks", "forest", "regression")
DESCRIPTOR_NAMES = {"rdkit": "RDKit's descriptors", "morgan": "Morgan fingerprints"}


def write_card(model: Model, name: str, picture: str | None) -> str:
    """The model card as Markdown."""
    facts, targets = model.facts, ", ".join(target.name for target in model.targets)
    lines = [
        f"# {name}: {targets}",
        f"A directional graph network for {task_text(model)}, fitted with dgn on {facts['date']}.",
        "## Scores",
        scored_text(model),
        score_table(model).to_markdown(),
        interval_text(model),
        *([f"![measured and predicted]({picture})"] if picture else []),
        "## Data",
        "\n".join(f"- {line}" for line in data_text(facts)),
        "## Ensemble",
        f"{network_count(model)}, {facts['parameters']:,} parameters each; aggregators "
        f"{', '.join(model.experiment.network.aggregators)}; {facts['seconds']:.0f} s of training on "
        f"{facts['members'][0]['device'].removesuffix(', 1 threads')}. {search_text(model)}"
        f"{start_text(model)}{other_members(model)}All settings are in `model.json`.",
        "## Use",
        "```sh\ndgn predict . new.csv --out predictions.csv\n```",
        "## Limits",
        "\n".join(f"- {line}" for line in (LIMITS[0], calibration_text(model), *LIMITS[1:], features_text(model))),
    ]
    return "\n\n".join(line for line in lines if line) + "\n"


LIMITS = (
    "Predictions for molecules unlike the training data are unreliable, even if the ensemble members agree: see the "
    "columns `similarity` and `outside_training` of `dgn predict`.",
    "The folder holds the SMILES of training molecules.",
    "Salts and mixtures are one graph with several components.",
)


def calibration_text(model: Model) -> str:
    """What intervals or probabilities can be relied on for."""
    if model.task != "regression":
        return "Probabilities are not calibrated; the scores above say how good they are on the test split."
    members = "networks that a molecule did not choose"
    if model.descriptor_models is not None:
        members += " and trees and regressions that did not learn from it"
    return (
        f"Intervals are calibrated on the validation split, by {members}: their coverage holds for molecules of the "
        "same distribution."
    )


def features_text(model: Model) -> str:
    """The features that the networks read; those for rare classes of large tables read no bond features."""
    features = "atoms, bonds and stereochemistry"
    if model.experiment.network.edge_dim is None:
        features = "atoms, R and S, and connectivity, without bond types and cis/trans"
    graph = f"The input is the molecular graph: {features}; no 3D geometry, and formal charges only."
    descriptors = " and ".join(DESCRIPTOR_NAMES[name] for name in model.descriptors)
    beside = f" Beside it, networks read {descriptors}." if descriptors else ""
    columns = f" They also read the numbers in {', '.join(model.features)}, which every table to predict needs."
    if model.partner is not None:
        graph = (
            f"Rows are pairs of molecules, in {model.smiles} and {model.partner}: one graph of two parts, whose atoms "
            f"are marked; scaffolds are those of {model.smiles}. {graph}"
        )
    return graph + beside + columns * bool(model.features)


def search_text(model: Model) -> str:
    trials = len(model.facts.get("search", ()))
    return f"Settings: the best of {trials} trials on the validation split, see `search.csv`. " if trials else ""


def start_text(model: Model) -> str:
    """The network that fine-tuning started from, as a sentence."""
    training = model.experiment.training
    if training.from_ is None:
        return ""
    return f"It started from {training.from_}, {'whose weights were frozen' if training.freeze else 'fine-tuned'}. "


def network_count(model: Model) -> str:
    """The number of networks, as the start of a sentence."""
    count = len(model.ensemble.networks)
    return f"{count} directional graph networks" if count > 1 else "A directional graph network"


def other_members(model: Model) -> str:
    """The members on descriptors, as sentences."""
    models = model.descriptor_models
    if models is None:
        return ""
    trees = models.forest.roots.size(1)
    chosen = " chosen by their errors on the validation split" * (model.task == "regression")
    embedding = f" and an embedding by the pretrained network {NETWORK}" * bool(models.widths[1])
    text = (
        f"Their mean, a random forest ({trees} trees for each target) and a kernel ridge regression have shares of the "
        f"prediction{chosen}: {shares_text(model)}. The latter two read RDKit's descriptors, Morgan "
        f"fingerprints{embedding}, and learned from the validation split too. "
    )
    names = output_names(model.task, model.targets)
    left_out = [name for name, fitted in zip(names, models.is_fitted.tolist(), strict=True) if not fitted]
    return text + f"Of {', '.join(left_out)} there are too few values for them. " * bool(left_out)


def shares_text(model: Model) -> str:
    """The shares of networks, forest and regression, as a phrase: the range over the targets with all three."""
    models = model.descriptor_models
    assert models is not None
    shares = models.shares[:, models.is_fitted]
    if not shares.size(1):
        return "the networks' is 1"
    ranges = [sorted({f"{share:.2f}" for share in each.aminmax()}) for each in shares]
    return ", ".join(f"{name} {' to '.join(each)}" for name, each in zip(KINDS, ranges, strict=True))


def task_text(model: Model) -> str:
    """The targets, as a phrase."""
    if model.task == "regression":
        return f"regression of {', '.join(target.name for target in model.targets)}"
    return ", ".join(class_text(target) for target in model.targets[:6]) + (", ..." if len(model.targets) > 6 else "")


def class_text(target: Target) -> str:
    """The predicted probability, as a phrase.

    >>> class_text(Target("HIV", ("no", "yes")))
    'the probability of HIV = yes'
    >>> class_text(Target("phase", ("gas", "liquid", "solid")))
    'the probabilities of phase = gas, liquid, solid'
    """
    assert target.classes is not None
    if len(target.classes) > 2:
        return f"the probabilities of {target.name} = {', '.join(target.classes)}"
    return f"the probability of {target.name} = {target.classes[1]}"


def interval_text(model: Model) -> str:
    if model.task != "regression":
        return ""
    level = model.facts["interval"]
    text = (
        f"`coverage` is the fraction of measured values in the {100 * level:g} % intervals, `width` their median width."
    )
    counts, least = (~model.scores.isnan()).sum(dim=0).tolist(), level / (1 - level) - 1e-9
    few = [target.name for target, count in zip(model.targets, counts, strict=True) if count < least]
    if few:
        of_targets = "" if len(few) == len(counts) else f" of {', '.join(few)}"
        text += f" Intervals{of_targets} are infinite: {min(counts)} validation molecules are too few."
    return " ".join([text, *coverage_notes(model)])


def coverage_notes(model: Model) -> list[str]:
    """A sentence for each target whose intervals cover far more or less of the test split than promised.

    Far is more than 5 points off, and not chance (p < 0.01). By chance the number of m test molecules covered is
    beta-binomial, with r and n + 1 - r: the half-width is the score of rank r of n validation molecules.
    """
    from scipy.stats import betabinom

    level, notes = model.facts["interval"], []
    sizes = (~model.scores.isnan()).sum(dim=0).tolist()
    counts = {target.name: count for target, count in zip(model.targets, sizes, strict=True)}
    for name, scores in model.facts["metrics"].get("test", {}).get("targets", {}).items():
        coverage, rank = scores["coverage"], quantile_rank(counts[name], level)
        measured = int(scores["molecules"] - scores.get("censored", 0))
        is_infinite = rank > counts[name]
        if is_infinite or not measured or abs(coverage - level) <= 0.05:
            continue
        chance = betabinom(measured, rank, counts[name] + 1 - rank)
        covered = round(coverage * measured)
        start = f"The {100 * level:g} % intervals of {name} cover {100 * coverage:.0f} % of the test split: "
        if chance.cdf(covered) < 0.005:
            notes.append(
                f"{start}its molecules are not distributed like those of the validation split, so do not rely on them "
                "for such molecules."
            )
        elif chance.sf(covered - 1) < 0.005:
            notes.append(f"{start}they are wider than needed for its molecules.")
    return notes


def data_text(facts: Mapping[str, Any]) -> list[str]:
    """The sizes of the splits, and every remark on rows with its lines."""
    splits = ", ".join(f"{count} {name}" for name, count in facts["molecules"].items())
    lines = [f"{facts.get('rows', sum(facts['molecules'].values()))} rows; {splits}"]
    problems = facts.get("problems", ())
    lines += [str(Problem(entry["what"], entry["done"], tuple(entry["lines"]))) for entry in problems]
    return [*lines, *facts.get("notes", ())]


def scored_text(model: Model) -> str:
    """The split that the scores are from, as a sentence."""
    if "test" in model.facts["metrics"]:
        return f"On the test split ({model.facts['split']}):"
    return (
        "There is no test split. The scores are those of the validation split, which was also used for early stopping "
        "and calibration: they are optimistic."
    )


def score_table(model: Model) -> Table:
    """Scores of each target on the test split (else validation), and their mean over several targets.

    A target without values, or with one class only, has no scores.
    """
    names = _score_names(model)
    metrics = model.facts["metrics"].get("test") or model.facts["metrics"]["val"]
    if "censored" in metrics["mean"]:
        names = (names[0], "censored", *names[1:])
    rows = [(label(target), *_format(names, metrics["targets"].get(target.name, {}))) for target in model.targets]
    if len(rows) > 1:
        rows.append(("mean", *_format(names, metrics["mean"])))
    return Table("", ("target", *names), tuple(rows))


def label(target: Target) -> str:
    """The name of what is scored: a target, or its logarithm."""
    return f"log10 {target.name}" if target.log else target.name


def mean_table(models: Sequence[Model]) -> Table:
    """Mean and standard deviation of the test scores of several fits, for each target."""
    names = _score_names(models[0])
    targets = {target.name: target for model in models for target in model.targets}
    rows = []
    for name, target in targets.items():
        scores = [model.facts["metrics"]["test"]["targets"].get(name, {}) for model in models]
        rows.append((label(target), *(_mean([score.get(each) for score in scores]) for each in names)))
    return Table("", ("target", *names), tuple(rows))


def _score_names(model: Model) -> tuple[str, ...]:
    return SCORES.get(model.task, SCORES["classification"])


def _mean(values: Sequence[float | None]) -> str:
    """Mean and standard deviation of the finite values, as text.

    >>> _mean([1.0, 2.0, 3.0, None]), _mean([math.inf])
    ('2 ± 1', '-')
    """
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if not finite:
        return "-"
    return f"{fmean(finite):.4g}" + (f" ± {stdev(finite):.2g}" if len(finite) > 1 else "")


def _format(names: Sequence[str], scores: Mapping[str, float | None]) -> list[str]:
    return ["-" if (value := scores.get(name)) is None or value != value else f"{value:.4g}" for name in names]
