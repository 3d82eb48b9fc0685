"""The model card: what a model predicts, from what it learned, how good it is, and what to beware of."""

from collections.abc import Mapping, Sequence
from typing import Any

from dgn.molecules.columns import Target
from dgn.molecules.model_io import Model
from dgn.molecules.rows import Problem
from dgn.training.tables import Table

SCORES = {
    "regression": ("molecules", "mae", "rmse", "r2", "mae of the training median", "coverage", "width"),
    "classification": ("molecules", "positive", "roc-auc", "average precision", "brier"),
}


def write_card(model: Model, name: str, picture: str | None) -> str:
    """The text of the model's README."""
    facts, targets = model.facts, ", ".join(each.name for each in model.targets)
    lines = [
        f"# {name}: {targets}",
        f"A directional graph network for {task_words(model)}, fitted with dgn on {facts['date']}.",
        "## Scores",
        scored_words(model),
        score_table(model).to_markdown(),
        interval_words(model),
        *([f"![measured and predicted]({picture})"] if picture else []),
        "## Data",
        "\n".join(f"- {line}" for line in data_words(facts)),
        "## Network",
        f"Members: {len(model.weights)}, of {facts['parameters']:,} parameters each; aggregators "
        f"{', '.join(model.experiment.network.aggregators)}; {facts['seconds']:.0f} s of training on "
        f"{facts['members'][0]['device'].removesuffix(', 1 threads')}. {search_words(model)}Everything else is in "
        "`model.json`.",
        "## Use",
        "```sh\ndgn predict . new.csv --out predictions.csv\n```",
        "## Limits",
        "\n".join(f"- {line}" for line in (*LIMITS, seen_words(model))),
    ]
    return "\n\n".join(line for line in lines if line) + "\n"


LIMITS = (
    "Predictions for molecules unlike those of the table are guesses, and the ensemble may agree on a wrong one.",
    "Intervals are calibrated on the validation molecules: they hold for molecules drawn like those.",
    "Salts and mixtures are read as they are written, all parts together.",
)


def seen_words(model: Model) -> str:
    """What of a molecule the networks see; those for rare classes of large tables read no features of bonds."""
    seen = "atoms, bonds and stereo marks"
    if model.experiment.network.edge_dim is None:
        seen = "atoms, R and S, and which atoms are joined, not the kinds of bonds, nor cis and trans"
    return f"Only the graph is seen: {seen}; no shape in space, no charges but the formal ones."


def search_words(model: Model) -> str:
    tried = len(model.facts.get("search", ()))
    return f"Settings chosen among {tried} by the validation molecules; `search.csv` lists them. " if tried else ""


def task_words(model: Model) -> str:
    """What is predicted, in words."""
    if model.task == "regression":
        return f"numbers ({', '.join(each.name for each in model.targets)})"
    return ", ".join(class_words(each) for each in model.targets[:6]) + (", ..." if len(model.targets) > 6 else "")


def class_words(target: Target) -> str:
    """The probability that is predicted.

    >>> class_words(Target("HIV", ("no", "yes")))
    'the probability of HIV = yes'
    """
    assert target.classes is not None
    return f"the probability of {target.name} = {target.classes[1]}"


def interval_words(model: Model) -> str:
    if model.task != "regression":
        return ""
    wanted = model.facts["interval"]
    text = f"`coverage` is the share of measured values within the {100 * wanted:g} % intervals, `width` their median."
    counts = (~model.scores.isnan()).sum(dim=0).tolist()
    few = [each.name for each, count in zip(model.targets, counts, strict=True) if count < wanted / (1 - wanted) - 1e-9]
    if few:
        whose = "" if len(few) == len(counts) else f" of {', '.join(few)}"
        text += (
            f" With {min(counts)} validation molecules there are too few for such intervals{whose}: they are infinite."
        )
    return text


def data_words(facts: Mapping[str, Any]) -> list[str]:
    """Rows, parts, and every remark on rows with their lines."""
    parts = ", ".join(f"{count} {name}" for name, count in facts["molecules"].items())
    lines = [f"{facts.get('rows', sum(facts['molecules'].values()))} rows; {parts}"]
    lines += [str(Problem(one["what"], one["done"], tuple(one["lines"]))) for one in facts.get("problems", ())]
    return [*lines, *facts.get("notes", ())]


def scored_words(model: Model) -> str:
    """Which molecules the scores are of."""
    if "test" in model.facts["metrics"]:
        return f"On the molecules held out, split by {model.facts['split']}:"
    return (
        "No molecules were held out. The scores are those of the validation molecules, which also decided when "
        "training stopped and how wide the intervals are: expect worse."
    )


def score_table(model: Model) -> Table:
    """Scores of each target, and their mean if there are several: of the molecules held out, if there are any.

    A target that those have no value of, or one class only, stands there without scores.
    """
    names = SCORES["regression" if model.task == "regression" else "classification"]
    found = model.facts["metrics"].get("test") or model.facts["metrics"]["val"]
    rows = [(each.name, *_numbers(names, found["targets"].get(each.name, {}))) for each in model.targets]
    if len(rows) > 1:
        rows.append(("mean", *_numbers(names, found["mean"])))
    return Table("", ("target", *names), tuple(rows))


def _numbers(names: Sequence[str], scores: Mapping[str, float | None]) -> list[str]:
    return ["-" if (value := scores.get(name)) is None or value != value else f"{value:.4g}" for name in names]
