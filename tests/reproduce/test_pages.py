"""``python -m reproduce results``: collect, and write the page and the summary."""

from pathlib import Path
from typing import Any

import pytest

from reproduce.summary import BEGIN, END
from tests.reproduce.markdown import find_row, rows

TRAINED = ("train", "zinc/complex/mean", "--device", "cpu")


def test_runs_are_collected_and_the_pages_written(dgn: Any, reproduce: Any, training: Any) -> None:
    dgn(*TRAINED)
    Path("README.md").write_text(f"{BEGIN}\n{END}\n")
    done = reproduce("results", "--collect", "runs")
    assert done.exit_code == 0, done.output
    assert len(training.calls) == 1
    assert Path("results/zinc/complex/mean/seed-95.json").exists()
    page = Path("docs/results.md").read_text()
    row = find_row(page, "zinc/complex/mean", "ours")
    assert (row["ours"], row["seeds"], row["parameters"]) == ("0.457 ± 0.351", "4", "1,234 (paper: 106,917)")
    assert (row["paper"], row["vs. paper"], row["epochs"], row["time"]) == ("0.353", "as good", "2", "3 s")
    (summary,) = rows(Path("README.md").read_text())
    assert summary["mean only"] == "0.457 ± 0.351"
    assert done.output.splitlines()[-2:] == ["wrote docs/results.md", "wrote README.md"]


@pytest.mark.usefixtures("training")
def test_tables_beyond_the_paper_fill_their_page(dgn: Any, reproduce: Any) -> None:
    Path("docs").mkdir()
    page = Path("docs/beyond.md")
    page.write_text(f"Text.\n\n{BEGIN}\n{END}\n")
    dgn(*TRAINED, "--seeds", "1")
    assert reproduce("results", "--collect", "runs").exit_code == 0
    assert not rows(page.read_text())
    dgn("train", "zinc/plus", "--device", "cpu")
    done = reproduce("results", "--collect", "runs")
    assert page.read_text().startswith("Text.")
    row = find_row(page.read_text(), "zinc/plus", "seeds")
    assert (row["test MAE"], row["validation"], row["parameters"], row["seeds"]) == (
        "0.030 ± 0.016", "0.030 ± 0.016", "1,234", "5",
    )  # fmt: skip
    assert "wrote docs/figures/zinc_parameters.png" in done.output


@pytest.mark.usefixtures("training")
def test_a_readme_without_markers_is_not_changed(dgn: Any, reproduce: Any) -> None:
    dgn(*TRAINED)
    Path("README.md").write_text("mine\n")
    assert reproduce("results", "--collect", "runs").exit_code == 0
    assert Path("README.md").read_text() == "mine\n"
    refused = reproduce("results", "--readme", "README.md")
    assert refused.exit_code == 1
    assert "README.md: expected the lines" in refused.stderr


@pytest.mark.usefixtures("training")
def test_changed_settings_need_another_name(dgn: Any, reproduce: Any) -> None:
    dgn(*TRAINED, "--set", "training.epochs=3")
    refused = reproduce("results", "--collect", "runs")
    assert refused.exit_code == 1
    assert "expected the settings of zinc/complex/mean, got others in training.epochs" in refused.stderr
    assert not Path("results").exists()
    assert reproduce("results", "--collect", "runs", "--name", "zinc/short").exit_code == 0
    row = find_row(Path("docs/results.md").read_text(), "zinc/short", "ours")
    assert (row["data"], row["metric"], row["aggregators"]) == ("ZINC (data: made up)", "MAE", "mean")


def test_missing_results_and_a_name_alone_are_refused(reproduce: Any) -> None:
    assert "results: expected files NAME/seed-N.json, found none" in reproduce("results").stderr
    assert "--name: expected together with --collect" in reproduce("results", "--name", "mine").stderr
