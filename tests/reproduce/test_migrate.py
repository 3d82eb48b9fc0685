"""Migration of result files: removed and renamed settings change, every other byte stays."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from dgn.training.experiment import SECTIONS
from dgn.training.run_folder import read_run
from reproduce import migrate
from reproduce.migrate import REMOVED, RENAMED, migrate_folder, migrate_text

COMMITTED = Path(__file__).parents[2] / "results"


@pytest.fixture
def result() -> str:
    """The text of a result file with present settings."""
    return (COMMITTED / "zinc" / "plus" / "seed-1.json").read_text(encoding="utf-8")


def with_setting(text: str, section: str, key: str, value: object) -> str:
    """The text with one more setting, first in its section."""
    content = json.loads(text)
    content["experiment"][section] = {key: value, **content["experiment"][section]}
    return json.dumps(content, indent=1) + "\n"


def test_removed_keys_are_dropped_and_every_other_byte_stays(result: str, tmp_path: Path) -> None:
    old = result
    for section, keys in REMOVED.items():
        for key, unused in keys.items():
            old = with_setting(old, section, key, unused)
    files = [tmp_path / "seed-41" / "result.json", tmp_path / "zinc" / "plus" / "seed-41.json"]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text(old, encoding="utf-8")
    assert migrate_folder(tmp_path) == files
    assert all(file.read_text(encoding="utf-8") == result for file in files)
    assert migrate_folder(tmp_path) == []


@pytest.mark.parametrize(
    ("section", "key", "value"), [("network", "gate", True), ("data", "cliques", [3]), ("augmentation", "drop", 0.1)]
)
def test_a_file_that_used_a_removed_option_is_refused_and_nothing_is_written(
    result: str, tmp_path: Path, section: str, key: str, value: object
) -> None:
    valid, refused = tmp_path / "seed-1.json", tmp_path / "seed-2.json"
    valid.write_text(with_setting(result, "network", "gate", False), encoding="utf-8")
    refused.write_text(with_setting(result, section, key, value), encoding="utf-8")
    before = valid.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=rf"seed-2.json: expected {section}\.{key} to be "):
        migrate_folder(tmp_path)
    assert valid.read_text(encoding="utf-8") == before


def test_renamed_keys_keep_their_position_and_value(result: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "RENAMED", {"network": {"width": "hidden"}})
    old = result.replace('"hidden"', '"width"')
    assert old != result
    assert migrate_text(old, "seed-41.json") == result


def test_committed_results_have_present_settings() -> None:
    for path in migrate.result_files(COMMITTED):
        assert migrate_text(text := path.read_text(encoding="utf-8"), str(path)) == text
        read_run(path)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="expected result files"):
        migrate_folder(tmp_path)


def test_removed_keys_are_no_settings_and_new_names_are() -> None:
    for section, settings in SECTIONS.items():
        names = {field.name for field in fields(settings)}
        assert not names & REMOVED.get(section, {}).keys(), section
        assert names >= set(RENAMED.get(section, {}).values()), section
