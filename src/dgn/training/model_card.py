"""The card of a trained model: its data, scores, size and use, as Markdown."""

from dgn.training.metrics import METRICS
from dgn.training.model_io import StoredModel
from dgn.training.scores import format_score, unit
from dgn.training.tables import Table


def write_card(model: StoredModel, name: str | None = None) -> str:
    """The card of a network that ``dgn train`` trained; with a ``name``, of one that comes with the package."""
    experiment, signature, facts = model.experiment, model.signature, model.facts
    network, counted = experiment.network, "nodes" if "nodes" in facts else "graphs"
    load = 'load_model(".")' if name is None else f'load_pretrained("{name}")'
    paragraphs = [
        f"# {name or experiment.name}",
        f"A directional graph network for {signature.objective} on {signature.dataset}, trained with dgn on "
        f"{facts['date']}, seed {facts['seed']}.",
        "## Scores",
        _score_table(model).to_markdown(),
        "## Data",
        f"{signature.dataset}: {', '.join(f'{count} {split}' for split, count in facts[counted].items())} {counted}"
        f"{'; ' + facts['data'] if facts['data'] else ''}. {_inputs(model)}",
        "## Network",
        f"{facts['parameters']:,} parameters; {network.num_layers} layers of width {network.hidden}, aggregators "
        f"{', '.join(network.aggregators)}; {facts['epochs']} epochs. All settings are in `model.json`.",
        "## Use",
        f"```python\nimport dgn\n\nmodel = dgn.{load}\nmodel.predict(graphs)  # PyG data or packed graphs"
        f"{', or SMILES' if signature.featurization else ''}\n```",
        f"```sh\ndgn predict {name or '.'} graphs.parquet --out predictions.csv\n```",
        "## Limits",
        "Predictions on graphs unlike the training graphs are unreliable. The scores are of one seed.",
    ]
    return "\n\n".join(paragraphs) + "\n"


def _score_table(model: StoredModel) -> Table:
    """The main metric of each split, in the units of the paper."""
    metric, metrics = model.signature.metric, model.facts["metrics"]
    direction = "higher" if METRICS[metric][1] else "lower"
    scores = [format_score(metric, values[metric] * unit(metric)) for values in metrics.values()]
    return Table("", ("", *metrics), ((f"{metric} ({direction} is better)", *scores),))


def _inputs(model: StoredModel) -> str:
    """What graphs need, and what is computed of them."""
    signature, computed = model.signature, []
    if signature.num_directions and not signature.has_field:
        computed.append(f"{signature.num_directions} eigenvector{'s' if signature.num_directions > 1 else ''}")
    if signature.structure is not None:
        computed.append("structural encodings")
    field = " and a field" if signature.has_field and signature.num_directions else ""
    more = f"; {' and '.join(computed)} are computed" if computed else ""
    return f"New graphs need the same features{field}{more}."
