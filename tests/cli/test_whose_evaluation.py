"""Each command that opens an evaluation knows whose it is."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import dagster as dg
import pytest

from rag_assets import api
from rag_assets.component import RetrievalExperiment
from rag_assets.definitions import defs
from rag_assets.errors import UsageError
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.store.settings import StoreSettings
from tests.beir_folder import write_beir
from tests.cli.conftest import Invoke

YAML = "dataset: {path: DATA}\nretrievers: {bm25: {type: bm25, analyzer: english}}\ntop_k: [1, 3]\n"

READERS: dict[str, tuple[str, ...]] = {
    "leaderboard": (),
    "export-run": ("--retriever", "bm25", "--out", "OUT"),
    "history": (),
    "report": ("--out", "OUT"),
    "compare": (),
    "diff": ("latest", "latest"),
    "gate": ("--against", "latest"),
    "anchor": (),
    "attribution": (),
    "pool": ("--out", "OUT"),
    "plan": (),
    "validate": (),
    "evaluate": (),
}
"""Command -> what it is called with besides PATH; each opens what the store has of PATH."""


def write(folder: Path, data: Path, *, name: str | None, file: str = "experiment.yaml") -> Path:
    folder.mkdir(exist_ok=True)
    named = f"name: {name}\n" if name else ""
    (folder / file).write_text(named + YAML.replace("DATA", str(data)), encoding="utf-8")
    return folder / file


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, invoke: Invoke) -> tuple[Path, Path, Path]:
    """One that was evaluated, one that was not and has its name, and their store."""
    root = tmp_path_factory.mktemp("two")
    data = write_beir(root / "data")
    mine, other = (write(root / which, data, name="g") for which in ("mine", "other"))
    store = root / "store"
    assert invoke("evaluate", mine, "--store", store).exit_code == 0
    return mine, other, store


@pytest.mark.parametrize(("command", "options"), READERS.items(), ids=READERS)
def test_the_evaluation_of_another_experiment_is_not_opened(
    two: tuple[Path, Path, Path],
    invoke: Invoke,
    tmp_path: Path,
    command: str,
    options: tuple[str, ...],
) -> None:
    mine, other, store = two
    arguments = [str(tmp_path / "out") if one == "OUT" else one for one in options]
    result = invoke(command, other, *arguments, "--store", store)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"the name 'g' of {other} is taken by {mine} in the store {store}" in result.stderr
    assert "give one of them another `name`" in result.stderr
    assert not (tmp_path / "out").exists()


def test_from_python_neither(two: tuple[Path, Path, Path]) -> None:
    _, other, store = two
    for call in (api.leaderboard, api.compare, api.history, api.evaluate):
        with pytest.raises(UsageError, match=r"the name 'g' of .*other.* is taken by .*mine"):
            call(other, store=store)


def test_dagster_refuses_it_before_it_runs(
    two: tuple[Path, Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    mine, other, store = two
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"taken by .*another `name`"):
        dg.build_defs_for_component(
            RetrievalExperiment(path=str(other), store=str(store), strict=True)
        )
    found = dg.build_defs_for_component(RetrievalExperiment(path=str(other), store=str(store)))
    assert not found.jobs
    # The code location keeps the one that is listed, and names the other one.
    shutil.copytree(other.parent, tmp_path / "data" / "g")
    monkeypatch.setenv("RAG_ASSETS_STORE", str(store))
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.WARNING):
        found = defs()
    assert "is taken by" in caplog.text
    assert isinstance(found, dg.Definitions)
    (job,) = [job for job in found.jobs or () if job.name == "g_evaluate"]
    assert str(mine) in str(job.description)


def test_yaml_files_of_one_folder_are_experiments_of_their_own(
    tmp_path: Path, invoke: Invoke
) -> None:
    data, store = write_beir(tmp_path / "data"), tmp_path / "store"
    first, second = (
        write(tmp_path / "g", data, name=None, file=f"{name}.yaml") for name in ("x", "y")
    )
    assert invoke("evaluate", first, "--store", store).exit_code == 0
    for command in ("leaderboard", "history", "report"):
        result = invoke(command, second, "--store", store)
        assert "y has no" in result.stderr, command
        assert result.exit_code != 0
    assert invoke("evaluate", second, "--store", store).exit_code == 0
    assert sorted(file.parent.name for file in store.glob("*/current")) == ["x", "y"]


@pytest.mark.parametrize("damage", ["absent", "{", '{"g": 5}'])
def test_without_the_list_the_evaluation_tells_whose_it_is(
    two: tuple[Path, Path, Path], tmp_path: Path, damage: str
) -> None:
    """The list is state of one machine; a store may be used with another state folder."""
    mine, other, store = two
    if damage != "absent":
        (tmp_path / "experiments.json").write_text(damage, encoding="utf-8")
    settings = StoreSettings(store, tmp_path)
    assert open_experiment(mine, settings).name == "g"
    with pytest.raises(UsageError, match="taken by"):
        open_experiment(other, settings)


def test_a_store_that_was_copied_with_its_sources_is_theirs(
    two: tuple[Path, Path, Path], tmp_path: Path, invoke: Invoke
) -> None:
    """As a cache is that is restored elsewhere, while what it was made of is still there."""
    mine, _, store = two
    copied = tmp_path / "elsewhere"
    shutil.copytree(store.parent, copied)
    here, store_here = copied / mine.relative_to(store.parent), copied / "store"
    assert invoke("leaderboard", here, "--store", store_here).exit_code == 0
    again = invoke("evaluate", here, "--store", store_here)
    assert again.exit_code == 0, again.output
    assert "taken by" in invoke("leaderboard", mine, "--store", store_here).stderr
    moved = tmp_path / "moved"  # without its sources it is still that of the old ones
    shutil.copytree(store, moved)
    assert invoke("leaderboard", mine, "--store", moved).exit_code == 0
    assert "taken by" in invoke("leaderboard", here, "--store", moved).stderr


def test_a_source_that_nobody_may_look_at_is_there(
    two: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    _, other, store = two
    hidden = tmp_path / "hidden"
    hidden.symlink_to(hidden)  # cannot be followed, as a folder of another account
    listed = json.dumps({"g": str(hidden / "experiment.yaml")})
    (tmp_path / "experiments.json").write_text(listed, encoding="utf-8")
    with pytest.raises(UsageError, match="taken by"):
        open_experiment(other, StoreSettings(store, tmp_path))


def test_advised_commands_name_the_store_that_was_given(
    two: tuple[Path, Path, Path], invoke: Invoke, tmp_path: Path
) -> None:
    (mine, *_), store = two, tmp_path / "a store"
    printed = invoke("evaluate", mine, "--store", store).stdout
    assert f"rag-assets leaderboard --store '{store}' {mine}\n" in printed
    for file in (store / "g" / "evaluations").glob("*.json"):
        file.write_text("{}", encoding="utf-8")
    damaged = invoke("leaderboard", mine, "--store", store)
    assert f"to write a new one: rag-assets evaluate --store '{store}' " in damaged.stderr
