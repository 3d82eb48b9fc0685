"""Networks for tests, from one flat set of options."""

from typing import Any

from torch import nn

from dgn.nn import DGN, NetworkSettings

OF_THE_NETWORK = ("out_channels", "delta", "edge_encoder", "structural_encoder", "graph_encoder", "backend")


def make_dgn(node_encoder: nn.Module | int, hidden: int, **options: Any) -> DGN:
    """A network; what is no setting goes to the network itself, and so does a message that is a module."""
    modules = {name: options.pop(name) for name in OF_THE_NETWORK if name in options}
    if isinstance(options.get("message"), nn.Module):
        modules["message"], options["message"] = options["message"], "complex"
    return DGN(node_encoder, NetworkSettings(hidden=hidden, **options), **modules)
