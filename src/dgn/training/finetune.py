"""Fine-tuning: a network that starts from the weights of another one, up to its head."""

from collections.abc import Iterator
from dataclasses import fields, replace

from torch import nn

from dgn.data.benchmark import Benchmark
from dgn.data.precompute.encodings import add_encodings
from dgn.nn import DGN, Ensemble
from dgn.training.experiment import Experiment
from dgn.training.model_io import StoredModel, find_model, read_model
from dgn.training.pretrained import find_network
from dgn.training.signature import Signature

HEAD = frozenset(("head", "graph_encoder"))  # what is not copied: features of graphs enter behind the readout
# Settings without weights before the head.
FREE = {"readout", "dropout", "ffn_dropout", "head_layers", "tta_mirror", "initialization"}


def read_initial(experiment: Experiment) -> StoredModel | None:
    """The model of ``training.from``, if there is one; one of another architecture or preprocessing is refused."""
    name = experiment.training.from_
    if name is None:
        return None
    stored = read_model(find_model(find_network(name)))
    mine, theirs = experiment.network, stored.experiment.network
    differing = [each.name for each in fields(mine) if getattr(mine, each.name) != getattr(theirs, each.name)]
    changed = [f"network.{name}" for name in differing if name not in FREE]
    data = ("normalization", "arcsine", "rwse_steps", "ring_sizes")
    changed += [
        f"data.{name}" for name in data if getattr(experiment.data, name) != getattr(stored.experiment.data, name)
    ]
    if changed:
        raise ValueError(
            f"training.from: expected the network and the encodings of {name}, got others in {', '.join(changed)}; "
            "copy them from its model.json"
        )
    return stored


def start_from(experiment: Experiment, stored: StoredModel, name: str, freeze: bool) -> Experiment:
    """The experiment with ``training.from: name``, the architecture and the encodings of that model.

    Readout and dropout stay its own.
    """
    own = {name: getattr(experiment.network, name) for name in FREE - {"tta_mirror", "initialization"}}
    theirs = stored.experiment.data
    data = replace(
        experiment.data,
        normalization=theirs.normalization,
        arcsine=theirs.arcsine,
        rwse_steps=theirs.rwse_steps,
        ring_sizes=theirs.ring_sizes,
    )
    training = replace(experiment.training, from_=name, freeze=freeze)
    network = replace(stored.experiment.network, **own)
    return replace(experiment, network=network, data=data, training=training).absolute()


def encode_as(benchmark: Benchmark, stored: StoredModel) -> Benchmark:
    """The benchmark with the structural encodings of a model: their scale and edge types are those of its weights."""
    structure = stored.signature.structure
    if structure is None:
        return benchmark
    return replace(benchmark, graphs=add_encodings(benchmark.graphs, structure), structure=structure)


def check_inputs(signature: Signature, stored: StoredModel) -> None:
    """Refuse graphs with other features than those of the model."""
    mine, theirs = signature.inputs, stored.signature.inputs
    for name, here, there in (("x", mine.nodes, theirs.nodes), ("edge_attr", mine.edges, theirs.edges)):
        if here != there and (name == "x" or stored.experiment.network.edge_dim is not None):
            raise ValueError(
                f"training.from: expected {name} with columns {there}, as in {stored.signature.dataset}, got {here}; "
                "give graphs with the same features, or train without it"
            )


def initialize(network: DGN | Ensemble, stored: StoredModel, freeze: bool) -> None:
    """Copy the weights of a model, except those of its head; with ``freeze``, the head alone is trained."""
    weights = {name: value for name, value in stored.weights[0].items() if HEAD.isdisjoint(name.split("."))}
    missing, unexpected = network.load_state_dict(weights, strict=False)
    assert not unexpected
    assert not any(HEAD.isdisjoint(name.split(".")) for name in missing), missing
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(not freeze or not HEAD.isdisjoint(name.split(".")))


def set_training(network: DGN | Ensemble, freeze: bool) -> None:
    """Training mode; the frozen part stays in evaluation mode, so that its statistics do not change."""
    network.train()
    if freeze:
        for module in _before_head(network):
            module.eval()


def _before_head(network: DGN | Ensemble) -> Iterator[nn.Module]:
    for member in network.members if isinstance(network, Ensemble) else [network]:
        yield from (module for name, module in member.named_children() if name not in HEAD)
