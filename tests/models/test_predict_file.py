"""``dgn predict``: any model on any file of graphs, rows in order, streamed, written in full or not at all."""

import csv
import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import Result

from dgn.data.benchmark import ATOMS, BONDS, Benchmark
from dgn.data.datasets.smiles import OGB, pack_smiles
from dgn.data.io import sources
from dgn.data.packed import PackedGraphs
from dgn.models import predict_file as module
from dgn.models.load import load_model
from dgn.training.model import TrainedModel
from dgn.training.trainer import train
from tests.training.small import make_benchmark, make_experiment

Invoke = Callable[..., Result]


def bare(objective: str = "regression") -> PackedGraphs:
    graphs = make_benchmark(objective).graphs
    return replace(
        graphs, nodes={"x": graphs.nodes["x"]}, edges={"edge_attr": graphs.edges["edge_attr"]}, graphs={}, info={}
    )


def trained(objective: str, **changes: dict[str, object]) -> TrainedModel:
    train(make_experiment(**changes), make_benchmark(objective), [7], Path("run"), "cpu")
    model = load_model("run/seed-7", "cpu")
    assert isinstance(model, TrainedModel)
    return model


def read(path: str) -> list[dict[str, str]]:
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt") as file:
        return list(csv.DictReader(file))


def write(graphs: PackedGraphs, suffix: str) -> None:
    if suffix == "pt":
        torch.save([graphs[index] for index in range(len(graphs))], "graphs.pt")
    else:
        graphs.save(f"graphs.{suffix}")


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "parquet", "pt"])
@pytest.mark.parametrize("out", ["out.csv", "out.csv.gz"])
def test_files_of_every_format_get_the_predictions_of_their_graphs(
    dgn: Invoke, suffix: str, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "CHUNK", 7)  # several chunks
    model, graphs = trained("regression"), bare()
    write(graphs, suffix)
    result = dgn("predict", "run/seed-7", f"graphs.{suffix}", "--out", out, "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert f"40 rows in {out}" in result.output
    rows = read(out)
    assert [row["graph"] for row in rows] == [str(index) for index in range(40)]
    prediction = torch.tensor([float(row["prediction"]) for row in rows])
    torch.testing.assert_close(prediction, model.predict(graphs)[:, 0], rtol=1e-5, atol=1e-6)


def test_predictions_in_parquet_are_exact(dgn: Invoke) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is optional")
    model, graphs = trained("multi-label"), bare()
    graphs.save("graphs.safetensors")
    assert dgn("predict", "run/seed-7", "graphs.safetensors", "--out", "out.parquet").exit_code == 0
    table = parquet.read_table("out.parquet")
    assert table.column_names == ["graph", "probability_0", "probability_1"]
    prediction = torch.tensor([table[f"probability_{index}"].to_pylist() for index in range(2)]).T
    torch.testing.assert_close(prediction, model.predict(graphs))


def test_nodes_have_a_row_each(dgn: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "CHUNK", 7)
    model, graphs = trained("node-classification", network={"readout": "nodes"}), bare()
    graphs.save("graphs.parquet")
    assert dgn("predict", "run/seed-7", "graphs.parquet", "-o", "out.csv", "-q").exit_code == 0
    rows, prediction = read("out.csv"), model.predict(graphs)
    assert len(rows) == graphs.num_nodes
    assert [int(row["graph"]) for row in rows] == graphs.graph.batch.tolist()
    assert [int(row["node"]) for row in rows[:9]] == list(range(9))
    assert [int(row["class"]) for row in rows] == prediction.argmax(dim=1).tolist()
    probability = torch.tensor([float(row["probability_1"]) for row in rows])
    torch.testing.assert_close(probability, prediction[:, 1], rtol=1e-5, atol=1e-6)


def test_a_failure_leaves_no_file(dgn: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "CHUNK", 7)
    trained("regression")
    graphs = bare()
    x = graphs.nodes["x"].clone()
    x[-1] = 99  # in the last chunk
    graphs.with_values(nodes={"x": x}).save("graphs.safetensors")
    result = dgn("predict", "run/seed-7", "graphs.safetensors", "--out", "out.csv")
    assert result.exit_code == 1
    assert "x: expected categories below 5 in column 0, as in small, got 99" in result.output
    assert sorted(path.name for path in Path().iterdir()) == ["graphs.safetensors", "run"]


def test_parquet_is_streamed(dgn: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than a batch of rows is in memory."""
    trained("regression")
    bare().save("graphs.parquet")
    monkeypatch.setattr("dgn.data.io.parquet.ROWS", 8)
    sizes: list[int] = []
    predict = TrainedModel.outputs
    monkeypatch.setattr(
        TrainedModel, "outputs", lambda model, graphs: sizes.append(len(graphs)) or predict(model, graphs)
    )
    assert dgn("predict", "run/seed-7", "graphs.parquet", "--out", "out.csv").exit_code == 0
    assert sizes == [8, 8, 8, 8, 8]
    assert len(read("out.csv")) == 40


def test_names_that_do_not_fit_are_refused(dgn: Invoke) -> None:
    trained("regression")
    bare().save("graphs.safetensors")
    for arguments, message in (
        (("graphs.safetensors", "--out", "out.txt"), "out: expected a name that ends in .csv, .csv.gz or .parquet"),
        (("table.xlsx", "--out", "out.csv"), "table.xlsx: expected a table"),
        (("graphs.safetensors", "--out", "run"), "out: expected a name that ends in"),
        (("missing.safetensors", "--out", "out.csv"), "missing.safetensors: expected a file"),
    ):
        result = dgn("predict", "run/seed-7", *arguments)
        assert result.exit_code == 1
        assert message in result.output
    Path("table.csv").write_text("smiles\nCCO\n")
    result = dgn("predict", "run/seed-7", "table.csv", "--out", "out.csv")
    assert "table.csv: expected a file of graphs, as small has no SMILES" in result.output


def test_smiles_of_a_table_are_read_with_the_features_of_the_benchmark(dgn: Invoke) -> None:
    pytest.importorskip("rdkit", reason="RDKit is optional")
    smiles = [f"{'C' * n}{end}" for n in range(1, 9) for end in ("O", "N", "F", "[C@H](N)O")]
    graphs = pack_smiles(smiles)
    y = torch.tensor([[float("N" in text)] for text in smiles])
    packed = graphs.with_values(graphs={"y": y, "split": (torch.arange(len(smiles)) % 3).to(torch.uint8)})
    benchmark = Benchmark("molhiv", packed, "multi-label", "roc-auc", 1, ATOMS, BONDS, featurization=OGB)
    train(make_experiment(data={"dataset": "molhiv"}), benchmark, [7], Path("run"), "cpu")
    model = load_model("run/seed-7", "cpu")
    assert torch.equal(model.predict(smiles), model.predict(graphs))
    Path("table.csv").write_text("id,smiles\n" + "".join(f"{n},{text}\n" for n, text in enumerate([*smiles, "C("])))
    result = dgn("predict", "run/seed-7", "table.csv", "--out", "out.csv")
    assert result.exit_code == 0, result.output
    rows = read("out.csv")
    probability = torch.tensor([float(row["molhiv_probability"]) for row in rows[:-1]])
    torch.testing.assert_close(probability, model.predict(smiles)[:, 0], rtol=1e-5, atol=1e-6)
    assert dgn("predict", "run/seed-7", "table.csv", "--out", "embedding.csv", "--embedding").exit_code == 0
    written = [[float(row[f"embedding_{index}"]) for index in range(8)] for row in read("embedding.csv")[:-1]]
    torch.testing.assert_close(torch.tensor(written), model.embed(smiles), rtol=1e-4, atol=1e-5)
    assert rows[-1]["problem"] == "RDKit cannot read it"


def test_embeddings_are_what_the_head_reads(dgn: Invoke) -> None:
    model, graphs = trained("regression", network={"readout": "sum-mean"}), bare()
    embedding = model.embed(graphs)
    assert embedding.shape == (40, 16)
    torch.testing.assert_close(model.network.head(embedding), model.predict(graphs))
    nodes = model.embed(graphs, nodes=True)
    assert nodes.shape == (graphs.num_nodes, 8)
    total = torch.zeros(40, 8).index_add(0, graphs.graph.batch, nodes)
    torch.testing.assert_close(embedding[:, :8], total)
    assert model.embed([]).shape == (0, 16)
    assert model.embed([], nodes=True).shape == (0, 8)
    graphs.save("graphs.safetensors")
    assert dgn("predict", "run/seed-7", "graphs.safetensors", "--out", "out.csv", "--embedding").exit_code == 0
    rows = read("out.csv")
    assert list(rows[0]) == ["graph", *(f"embedding_{index}" for index in range(16))]
    written = torch.tensor([[float(row[f"embedding_{index}"]) for index in range(16)] for row in rows])
    torch.testing.assert_close(written, embedding, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("readout", ["nodes", "mean"])
def test_embeddings_of_an_ensemble_are_those_of_its_members_side_by_side(readout: str, dgn: Invoke) -> None:  # noqa: ARG001
    objective = "node-classification" if readout == "nodes" else "classification"
    model, graphs = trained(objective, network={"readout": readout, "ensemble_size": 3}), bare()
    embedding = model.embed(graphs)
    members = model.network.members
    heads = [member.head(part) for member, part in zip(members, embedding.chunk(3, dim=1), strict=True)]
    torch.testing.assert_close(torch.stack(heads).mean(dim=0), model.outputs(graphs)[0])
    assert module.columns(model, embedding=False)[-1] == f"probability_{model.signature.inputs.targets - 1}"
