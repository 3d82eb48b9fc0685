"""Integrated gradients: complete, exact for a linear network, and without side effects on the network."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from dgn.data import add_directions
from dgn.data.datasets.smiles import pack_smiles
from dgn.nn import ATOM_SIZES, BOND_SIZES, DGN, CategoryEncoder, Ensemble, NetworkSettings, StructuralEncoder
from dgn.plot.attribution import Attribution, attribute, average, mean_features
from dgn.plot.highlight import agreement, draw_attribution, render_attribution
from tests.networks import make_dgn

pytest.importorskip("rdkit", reason="RDKit is optional")
SMILES = "CC(=O)Oc1ccccc1C(=O)O"


def molecule(smiles: str = SMILES) -> Data:
    return add_directions(pack_smiles([smiles]), k=2)[0]


def network(**options: object) -> DGN:
    torch.manual_seed(0)
    defaults = {
        "out_channels": 2, "num_layers": 3, "aggregators": ["mean", "max", "dx1", "dx2"], "message": "complex",
        "edge_encoder": CategoryEncoder(BOND_SIZES, 6), "edge_dim": 6, "readout": "directional", "virtual_node": True,
    }  # fmt: skip
    return make_dgn(CategoryEncoder(ATOM_SIZES, 12), 12, **{**defaults, **options})


@pytest.mark.parametrize("smiles", [SMILES, "O", "CC.[Na+]"])
@pytest.mark.parametrize("target", [0, 1])
def test_shares_add_up_to_the_difference_of_predictions(smiles: str, target: int) -> None:
    net, data = network(), molecule(smiles)
    shares = attribute(net, data, target, steps=512)
    assert shares.nodes.shape == (data.num_nodes,)
    assert shares.edges.shape == (data.num_edges,)
    size = shares.nodes.abs().sum() + shares.edges.abs().sum()
    assert abs(shares.rest) < 5e-3 * float(size)  # kinks of ReLU and max lie between the steps
    assert shares.prediction == pytest.approx(net.eval()(data)[0, target].item(), abs=1e-5)
    if data.num_edges:
        assert shares.edges.abs().max() > 0


def test_shares_of_an_ensemble_are_the_mean_of_its_members() -> None:
    ensemble, data = Ensemble([network(), network(aggregators=["sum", "dx1"])]), molecule()
    shares, alone = attribute(ensemble, data, 1), [attribute(member, data, 1) for member in ensemble.members]
    torch.testing.assert_close(shares.nodes, (alone[0].nodes + alone[1].nodes) / 2)
    assert shares.prediction == pytest.approx(ensemble.eval()(data)[0, 1].item(), abs=1e-5)


def test_structural_encodings_are_node_features() -> None:
    data = molecule()
    data.structure = torch.rand(data.num_nodes, 3)
    net = network(structural_encoder=StructuralEncoder(torch.ones(3), torch.zeros(3), 12))
    shares = attribute(net, data, steps=512)
    assert shares.prediction == pytest.approx(net.eval()(data)[0, 0].item(), abs=1e-5)
    assert abs(shares.rest) < 5e-3 * float(shares.nodes.abs().sum() + shares.edges.abs().sum())
    with torch.no_grad():
        for weights in (net.node_encoder.weight, net.edge_encoder.weight, net.structure.linear.weight):
            weights.zero_()
    assert shares.baseline == pytest.approx(net.eval()(data)[0, 0].item(), abs=1e-5)


def test_the_baseline_is_the_graph_without_features() -> None:
    net, data = network(), molecule()
    shares = attribute(net, data)
    with torch.no_grad():
        for encoder in (net.node_encoder, net.edge_encoder):
            encoder.weight.zero_()
    assert shares.baseline == pytest.approx(net.eval()(data)[0, 0].item(), abs=1e-5)


def test_a_baseline_of_typical_features_is_complete() -> None:
    net, data = network(), molecule()
    typical = mean_features(net, [molecule("CCO"), molecule("c1ccccc1")])
    shares = attribute(net, data, baseline=typical, steps=512)
    assert abs(shares.rest) < 5e-3 * float(shares.nodes.abs().sum() + shares.edges.abs().sum())
    assert shares.baseline != pytest.approx(attribute(net, data).baseline)
    itself = mean_features(net, [molecule("C")])
    assert attribute(net, molecule("C"), baseline=itself).nodes.abs().max() < 1e-9
    with pytest.raises(ValueError, match="baseline: expected none for an ensemble"):
        attribute(Ensemble([net]), data, baseline=typical)


def test_members_that_disagree_are_marked(tmp_path: Path) -> None:
    one = Attribution(torch.tensor([3.0, 1.0]), torch.zeros(2), 4.0, 0.0)
    other = Attribution(torch.tensor([3.0, -2.0]), torch.zeros(2), 1.0, 0.0)
    assert agreement(torch.stack([one.nodes, other.nodes])).tolist() == [1.0, 0.5]
    unsure, sure = (render_attribution("CO", average(both), ".svg", "y", "zero") for both in ([one, other], [one, one]))
    assert unsure != sure
    draw_attribution("CO", average([one, other]), tmp_path / "a.svg")


def test_large_molecules_make_large_pictures(tmp_path: Path) -> None:
    sizes = []
    for smiles, count in (("CCO", 3), ("C" * 80, 80)):
        draw_attribution(
            smiles, Attribution(torch.ones(count), torch.zeros(2 * count - 2), 1.0, 0.0), tmp_path / "a.svg"
        )
        sizes.append(int(re.findall(r"width='(\d+)px'", (tmp_path / "a.svg").read_text())[0]))
    assert sizes[0] == 640 < 1200 < sizes[1]


def test_a_linear_network_gives_its_own_terms() -> None:
    data = Data(x=torch.randn(4, 3), edge_index=torch.tensor([[0, 1], [1, 0]]), edge_field=torch.ones(2, 1))
    net = DGN(nn.Linear(3, 8), NetworkSettings(hidden=8, num_layers=0, readout="sum"))
    net.head = nn.Sequential(nn.Linear(8, 1))
    shares = attribute(net, data, steps=2)
    terms = net.node_encoder(data.x) @ net.head[0].weight[0]
    torch.testing.assert_close(shares.nodes.float(), terms.detach())
    assert shares.edges.tolist() == [0, 0]


def test_the_network_is_not_modified() -> None:
    net = network().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    attribute(net, molecule(), steps=4)
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(parameter.grad is None and parameter.dtype == torch.float32 for parameter in net.parameters())


def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="target: expected a column from 0 to 1, got 2"):
        attribute(network(), molecule(), 2, steps=2)
    with pytest.raises(ValueError, match="network: expected one with graph-level predictions"):
        attribute(network(readout="nodes"), molecule())
    with pytest.raises(ValueError, match="shares: expected the attributions of one or more networks"):
        average([])
    shares = Attribution(torch.ones(2), torch.zeros(2), 2.0, 0.0)
    with pytest.raises(ValueError, match="shares: expected those of 3 atoms and 2 bonds, got 2 and 1"):
        draw_attribution("CCO", shares, tmp_path / "a.svg")
    with pytest.raises(ValueError, match=r"expected a picture called .svg or .png"):
        draw_attribution("CO", shares, tmp_path / "a.gif")


@pytest.mark.parametrize(("suffix", "start"), [(".svg", b"<?xml"), (".png", b"\x89PNG")])
@pytest.mark.parametrize("height", [0.0, 1.0])
def test_attributions_are_drawn_as_svg_and_png(tmp_path: Path, suffix: str, start: bytes, height: float) -> None:
    shares = Attribution(height * torch.tensor([1.0, -0.5, 0.01]), height * torch.ones(4), 2.0, 0.0)
    path = tmp_path / f"a{suffix}"
    draw_attribution("CCO", shares, path)
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]


def test_stereo_centres_get_no_explicit_hydrogens(tmp_path: Path) -> None:
    shares = Attribution(torch.ones(10), torch.ones(22), 21.0, 0.0)
    draw_attribution("C[C@H]1CC[C@@H]2CCCC[C@H]12", shares, tmp_path / "a.svg")
    assert "atom-9" in (tmp_path / "a.svg").read_text()
    assert "atom-10" not in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    "name", ["log-odds of NR-AR", "IC50 (\u00b5M)", "$_a$", "measured log solubility in mols per litre of water"]
)
def test_the_legend_is_one_line_and_fits(tmp_path: Path, name: str) -> None:
    shares = Attribution(torch.tensor([1.0, -0.5, 0.01]), torch.ones(4), 2.0, 0.0)
    draw_attribution("CCO", shares, tmp_path / "a.svg", name)
    points = re.findall(r"[MLQ] (-?[0-9.]+)[ ,](-?[0-9.]+)", (tmp_path / "a.svg").read_text())
    x, y = torch.tensor([[float(x), float(y)] for x, y in points if float(y) > 420]).T
    assert len(x) > 200
    assert x.min() > 5
    assert x.max() < 635
    assert y.max() < 475
    assert y.max() - y.min() < 20


@pytest.mark.parametrize("smiles", ["O", "CO"])
def test_contours_are_not_cut(tmp_path: Path, smiles: str) -> None:
    from matplotlib.image import imread

    size = len(smiles)
    draw_attribution(smiles, Attribution(torch.ones(size), torch.zeros(2 * size - 2), 1.0, 0.0), tmp_path / "a.png")
    darkest = imread(tmp_path / "a.png")[:440, :, :3].min(axis=(1, 2))  # of each row, without the legend
    drawn = (darkest < 0.99).nonzero()[0]
    assert darkest[[drawn[0], drawn[-1]]].min() > 0.85


def test_positive_shares_are_violet_and_negative_ones_brown(tmp_path: Path) -> None:
    from matplotlib.image import imread

    for share, violet in ((1.0, True), (-1.0, False)):
        draw_attribution("C", Attribution(torch.tensor([share]), torch.zeros(0), share, 0.0), tmp_path / "a.png")
        red, green, blue = imread(tmp_path / "a.png")[:400, :, :3].reshape(-1, 3).T
        colored = (abs(red - green) > 0.1) | (abs(green - blue) > 0.1)  # letters are grey
        assert colored.sum() > 1000
        assert ((blue > red)[colored]).mean() == violet
