"""What must work with the core dependencies alone; ``.ci/run`` runs it against the built wheel.

python tests/light_core.py
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import torch
from torch_geometric.data import Data

import dgn

OPTIONAL = ("lightning", "torchmetrics", "matplotlib", "sklearn", "typer", "rich", "yaml", "numba", "rdkit", "pyarrow")


def main() -> None:
    present = [name for name in OPTIONAL if importlib.util.find_spec(name) is not None]
    assert not present, f"expected an environment without {', '.join(OPTIONAL)}, got {', '.join(present)}"
    assert not (Path(dgn.__file__).parent.parent / "reproduce").exists(), "the wheel must hold the library alone"
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
    directions = dgn.directions(edge_index, k=2)
    assert directions.potential.shape == (4, 2)
    data = dgn.transforms.AddDirections(k=2)(Data(x=torch.randn(4, 8), edge_index=edge_index))
    conv = dgn.nn.DGNConv(8, 16, aggregators=["mean", "max", "av1", "dx2"])
    out = conv(data.x, data.edge_index, edge_field=data.edge_field)
    out.square().sum().backward()
    assert out.shape == (4, 16)
    assert all(parameter.grad is not None for parameter in conv.parameters())
    network = dgn.nn.DGN(8, dgn.nn.NetworkSettings(hidden=16, aggregators=["mean", "dx1"], num_layers=2))
    assert network(data).shape == (1, 1)
    done = subprocess.run([sys.executable, "-m", "dgn", "train"], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    assert "dgn[train]" in done.stderr, done.stderr
    try:
        importlib.import_module("dgn.training")
    except ImportError as problem:
        assert "pip install 'dgn[train]'" in str(problem)  # noqa: PT017, there is no pytest here
    else:
        raise AssertionError("dgn.training: expected an error that names the extra")
    print("the core works alone")


if __name__ == "__main__":
    main()
