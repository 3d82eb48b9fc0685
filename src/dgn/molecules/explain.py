"""Why a model predicts what it does: shares of atoms and bonds, agreement of members, and what training had alike."""

import html
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from dgn.data.datasets.smiles import IMPOSSIBLE, parse_smiles, standard_smiles
from dgn.data.packed import PackedGraphs
from dgn.graph.checks import check_option
from dgn.molecules.domain import Comparison
from dgn.molecules.featurize import featurize
from dgn.molecules.fit import LEVEL
from dgn.molecules.model_io import Model
from dgn.molecules.predict import smiles_column
from dgn.molecules.rows import Problem, problems_by_reason
from dgn.molecules.table import SUFFIXES, open_table
from dgn.nn import DGN, Ensemble
from dgn.plot.attribution import Attribution, Baseline, attribute, average, mean_features
from dgn.plot.highlight import agreement, bond_shares, render_attribution

TYPICAL = 100  # training molecules whose mean features are the baseline
SHOWN = 3  # atoms and bonds named in a sentence
MOST = 200  # molecules of a table: an ensemble takes seconds for each
ORDERS = {"SINGLE": "-", "DOUBLE": "=", "TRIPLE": "#", "AROMATIC": ":"}


@dataclass(frozen=True, eq=False)
class Explanation:
    """The attribution of one prediction. ``unit`` names what is attributed: a target, its logarithm, or log-odds.

    ``summary`` is the prediction as text, ``comparison`` the relation to training, of this molecule alone. ``partial``:
    the networks, whose prediction is attributed, are not all members.
    """

    smiles: str
    unit: str
    summary: str
    attribution: Attribution
    baseline: str
    comparison: Comparison | None
    partial: bool = False

    def picture(self, suffix: str = ".svg", numbered: bool = False) -> bytes:
        """The molecule with its shares."""
        name = f"{self.unit} by the networks" if self.partial else self.unit
        return render_attribution(self.smiles, self.attribution, suffix, name, self.baseline, numbered)

    def rows(self) -> list[dict[str, str]]:
        """The shares of atoms and bonds, the largest first, with their deviation over the members."""
        molecule = parse_smiles(self.smiles)
        names = [f"{atom.GetSymbol()}{atom.GetIdx() + 1}" for atom in molecule.GetAtoms()]
        bonds = [
            f"{names[bond.GetBeginAtomIdx()]}{ORDERS.get(str(bond.GetBondType()), '~')}{names[bond.GetEndAtomIdx()]}"
            for bond in molecule.GetBonds()
        ]
        members = torch.stack([_parts(member) for member in self.attribution.members or (self.attribution,)])
        shares, agreed = _parts(self.attribution), agreement(members)
        spread = members.std(dim=0) if len(members) > 1 else torch.full_like(shares, torch.nan)
        rows = [
            {
                "molecule": self.smiles,
                "part": name,
                "kind": "atom" if index < len(names) else "bond",
                "share": f"{float(shares[index]):+.4g}",
                "spread": "" if len(members) < 2 else f"{float(spread[index]):.2g}",
                "agreement": "" if len(members) < 2 else f"{round(float(agreed[index]) * len(members))}/{len(members)}",
            }
            for index, name in enumerate([*names, *bonds])
        ]
        return sorted(rows, key=lambda row: -abs(float(row["share"])))


def read_sources(model: Model, sources: Sequence[str]) -> tuple[list[str], list[Problem]]:
    """SMILES as given, and those of tables, without the rows that cannot be predicted, which are reported."""
    smiles: list[str] = []
    problems: list[Problem] = []
    for source in sources:
        if not source.lower().endswith(SUFFIXES):
            smiles.append(source)
            continue
        table = open_table(source)
        position = table.position(smiles_column(model, table))
        rows = [
            (row.line, "" if row.problem else row.values[position].strip()) for row in islice(table.rows(), MOST + 1)
        ]
        if len(rows) > MOST:
            raise ValueError(f"{source}: expected at most {MOST} molecules to explain, got more; take some of its rows")
        lines, texts = zip(*rows, strict=True)
        reasons = featurize(texts).problems
        smiles += [text for text, reason in zip(texts, reasons, strict=True) if not reason]
        problems += problems_by_reason(reasons, lines, "left out")
    return smiles, problems


def explain(model: Model, smiles: Sequence[str], target: str | None = None) -> list[Explanation]:
    """The attribution of the predictions for a target (by default the first), relative to typical training atoms.

    Regression is attributed in units of what the networks learn, classes as log-odds.
    """
    names = tuple(column.name for column in model.targets)
    name = names[0] if target is None else target
    check_option("target", name, names)
    column = names.index(name)
    scale, center = (
        (float(model.scale[column]), float(model.center[column])) if model.task == "regression" else (1.0, 0.0)
    )
    standard = _readable(model, smiles)
    packed, members = model.ensemble.pack(standard), _members(model)
    graphs = model.ensemble.prepare(packed)
    starts: list[tuple[DGN, Baseline | None]] = [(member, None) for member in members]
    if model.domain is not None:
        prepared = model.ensemble.prepare(model.domain.sample(TYPICAL))
        sample = [prepared[index] for index in range(len(prepared))]
        starts = [(member, mean_features(member, sample)) for member in members]
    log = "log10 " * model.targets[column].log if model.task == "regression" else "log-odds of "
    explanations = []
    for index, one in enumerate(standard):
        shares = [attribute(member, graphs[index], column, baseline=start) for member, start in starts]
        explanations.append(
            Explanation(
                one,
                f"{log}{name}",
                _summary(model, packed.select(torch.tensor([index])), column),
                average(shares, scale, center),
                "with zero features" if model.domain is None else "with average atoms",
                None if model.domain is None else model.domain.compare(packed.select(torch.tensor([index]))),
                model.descriptor_models is not None,
            )
        )
    return explanations


def _readable(model: Model, smiles: Sequence[str]) -> list[str]:
    """Standard SMILES; impossible valences are refused as in predictions, and so is a model that reads features.

    So is one of several classes: their outputs have a meaning only relative to each other.
    """
    if model.partner is not None:
        raise ValueError(
            f"model: expected one of single molecules, got one of pairs in {model.smiles} and {model.partner}; fit one "
            "without the second column"
        )
    if model.task == "multiclass":
        raise ValueError(
            f"model: expected one of numbers or two classes, got one of {', '.join(model.classes)}; fit one to a "
            "column of one class against the others"
        )
    if model.features:
        raise ValueError(
            f"model: expected one that reads molecules alone, got one that also reads {', '.join(model.features)}, "
            "which a SMILES does not give; fit one without --features"
        )
    molecules = [parse_smiles(one) for one in smiles]
    for one, molecule in zip(smiles, molecules, strict=True):
        if molecule.HasProp(IMPOSSIBLE):
            raise ValueError(f"{one}: expected a possible molecule, got {molecule.GetProp(IMPOSSIBLE)}; correct it")
    return [standard_smiles(molecule) for molecule in molecules]


def to_page(explanations: Sequence[Explanation], title: str) -> str:
    """An HTML page with the picture, a summary and the table of each molecule; it makes no requests."""
    sections = "\n".join(_section(each) for each in explanations)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 0 auto; padding: 1rem; color: #222; }}
section {{ border-top: 1px solid #ccc; padding: 1rem 0; }}
h1 {{ font-size: 1.4rem; }} h2 {{ font-size: 1.1rem; overflow-wrap: anywhere; }}
.picture img {{ max-width: 100%; height: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: 0.1rem 0.8rem 0.1rem 0; text-align: right; }}
th:first-child, td:first-child {{ text-align: left; }}
.up {{ color: #54268a; }} .down {{ color: #8f4700; }}
</style>
</head>
<body>
<h1>{html.escape(title)}</h1>
<p>Each atom and bond has a share in the difference between the prediction and that for the same skeleton with the
average atoms and bonds of training (integrated gradients). Violet raises, brown lowers. A question mark: fewer than
three quarters of the ensemble agree on the sign.</p>
{sections}
</body>
</html>
"""


def _section(explanation: Explanation) -> str:
    rows, shares = explanation.rows(), explanation.attribution
    picture = b64encode(explanation.picture(".png", numbered=True)).decode()
    cells = "\n".join(
        f'<tr><td>{html.escape(row["part"])}</td><td class="{"up" if row["share"][0] == "+" else "down"}">'
        f"{row['share']}</td><td>{row['spread']}</td><td>{row['agreement']}</td></tr>"
        for row in rows
    )
    lines = [explanation.summary, why(explanation), *_relation(explanation.comparison)]
    paragraphs = "\n".join(f"<p>{html.escape(line)}</p>" for line in lines)
    return f"""<section>
<h2>{html.escape(explanation.smiles)}</h2>
<div class="picture"><img alt="Shares of atoms and bonds of {html.escape(explanation.smiles)}"
src="data:image/png;base64,{picture}"></div>
{paragraphs}
<details><summary>{len(rows)} shares, {shares.rest:+.2g} numerical error</summary>
<table><tr><th>part</th><th>share</th><th>± members</th><th>agree</th></tr>
{cells}
</table></details>
</section>"""


def why(explanation: Explanation) -> str:
    """What raised and lowered the prediction most, as a sentence."""
    rows = explanation.rows()
    words = []
    for sign, verb in (("+", "raised"), ("-", "lowered")):
        largest = [row for row in rows if row["share"][0] == sign and float(row["share"])][:SHOWN]
        if largest:
            listed = ", ".join(
                f"{row['part']} ({row['share']}{' ± ' + row['spread'] if row['spread'] else ''})" for row in largest
            )
            words.append(f"{verb} most by {listed}")
    shares = explanation.attribution
    difference = f"{explanation.unit} {shares.prediction:.3g} instead of {shares.baseline:.3g} {explanation.baseline}"
    return f"{difference}: {'; '.join(words) or 'no share'}."


def _relation(comparison: Comparison | None) -> list[str]:
    if comparison is None:
        return []
    lines = [f"Nearest training molecule: {comparison.nearest[0]}, similarity {float(comparison.similarity[0]):.2f}."]
    return lines + [f"Training did not have: {text}." for text in comparison.outside if text]


def _summary(model: Model, graph: PackedGraphs, column: int) -> str:
    """The prediction with its uncertainty, as a sentence."""
    prediction, target = model.predict(graph), model.targets[column]
    mean, spread = float(prediction.mean[0, column]), float(prediction.spread[0, column])
    members = f", ± {spread:.2g} over the ensemble" if spread == spread else ""
    others = 0.0 if model.descriptor_models is None else float(model.descriptor_models.weight.sum(dim=0)[column])
    shares = f" Shares are those of the networks, {1 - others:.2g} of the prediction." * bool(others)
    if target.classes is not None:
        return f"Probability of {target.name} = {target.classes[1]}: {mean:.3f}{members}.{shares}"
    lower, upper = (float(bound[0, column]) for bound in model.interval(prediction, LEVEL))
    interval = f"; {100 * LEVEL:g} % interval {lower:.4g} to {upper:.4g}" if abs(upper) != float("inf") else ""
    return f"{target.name}: {mean:.4g}{members}{interval}.{shares}"


def _members(model: Model) -> list[DGN]:
    members: list[DGN] = []
    for network in model.ensemble.networks:
        parts: list[Any] = list(network.members) if isinstance(network, Ensemble) else [network]
        members += parts
    return members


def _parts(attribution: Attribution) -> torch.Tensor:
    """The shares of atoms, then bonds."""
    return torch.cat([attribution.nodes, bond_shares(attribution.edges)])
