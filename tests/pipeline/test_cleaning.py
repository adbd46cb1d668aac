from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rag_assets.analysis.evaluation_pairs import EvaluationPair
from rag_assets.analysis.metric_sources import Retrieval
from rag_assets.analysis.result import EvaluationResult
from rag_assets.errors import StoreError
from rag_assets.pipeline.cleaning import Item, removable
from rag_assets.pipeline.evaluations import read_current
from rag_assets.pipeline.history import History
from tests.forked import Forks, Place
from tests.tiny_experiment import Tiny

LATER = timedelta(hours=2)
STAMPS = Path("locks", "objects", "verified.json")


def clean(
    tiny: Tiny, days: float | None, *, orphans: bool = False, later: timedelta = LATER
) -> list[Item]:
    age = timedelta(days=days) if days is not None else None
    now = datetime.now(UTC) + later
    found = removable(tiny.settings, age, orphans=orphans, now=now)
    tiny.settings.remove(one.path for one in found)
    return found


def everything(tiny: Tiny) -> set[Path]:
    own = (tiny.artifacts, tiny.objects(""), tiny.settings.store / "measurements")
    return {path for place in own for path in place.rglob("*") if path.is_file()}


def changed(tiny: Tiny, k1: float) -> None:
    tiny.configure("bm25", k1=k1)
    tiny.run()
    tiny.snapshot()


@pytest.fixture(scope="module")
def changed_master(pipeline_master: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The experiment after an evaluation with another k1."""
    tiny = pipeline_master.copy_to(tmp_path_factory.mktemp("cleaning") / "master")
    changed(tiny, 0.4)
    return tiny


@pytest.fixture
def edited(changed_master: Tiny, tmp_path: Path) -> Tiny:
    """A copy of that experiment, with its two evaluations."""
    return changed_master.copy_to(tmp_path / "edited")


def test_an_artifact_that_no_snapshot_names_is_one(tiny: Tiny) -> None:
    before = everything(tiny)
    tiny.configure("bm25", k1=0.4)
    tiny.run()
    made = everything(tiny) - before
    assert clean(tiny, None, orphans=True, later=timedelta()) == []  # it may still be running
    assert clean(tiny, None) == []
    found = {one.kind for one in clean(tiny, None, orphans=True)}
    assert {"lexical_index", "lexical_runs", "rankings", "metrics", "measurements"} <= found
    assert everything(tiny) == before
    assert made


def test_old_snapshots_go_with_what_they_alone_name(edited: Tiny, tiny: Tiny) -> None:
    middle = edited.names().find("latest")
    changed(edited, 1.2)
    last = edited.names().find("latest")
    assert clean(edited, 1.0) == []
    found = clean(edited, 0.0)
    assert [one.kind for one in found[:2]] == ["snapshots", "snapshots"]
    left = sorted(file.stem for file in (edited.artifacts / "evaluations").glob("*.json"))
    assert left == [last.evaluation_id]
    assert "metrics" in {one.kind for one in found}
    kept, fresh = (
        {path.relative_to(one.root) for path in everything(one) if path.suffix == ".parquet"}
        for one in (edited, tiny)
    )
    history = (edited.artifacts / "history").iterdir()
    assert kept <= fresh | {path.relative_to(edited.root) for path in history}
    assert middle.evaluation_id in History(edited.artifacts, edited.settings.locks).ids()
    assert edited.run() == set()


def test_the_anchor_stays_and_can_be_compared(edited: Tiny) -> None:
    pinned = edited.names().pin("previous")
    changed(edited, 0.6)
    clean(edited, 0.0, orphans=True)
    assert edited.names().find("anchor") == pinned
    old = EvaluationResult(edited.artifacts, pinned)
    new = EvaluationResult.current(edited.artifacts)
    pair = EvaluationPair.between(old, new, Retrieval(new.primary), {"q1", "q2"})
    assert len(pair.changes()) == 5


def test_unfinished_files_go(tiny: Tiny, tmp_path: Path) -> None:
    later = datetime.now(UTC) + LATER
    table = tiny.objects("chunks") / "0.tmp-0123456789ac"
    folder = tiny.objects("lexical_index") / "0.tmp-0123456789ab"
    for state in (tiny.settings.store, tmp_path / "state"):
        settings = replace(tiny.settings, state_dir=state)
        files = {path.with_suffix(".tmp-0123456789ab") for path in (settings.warehouse, STAMPS)}
        unfinished = {table, *(state / file for file in files)}
        for file in (folder / "postings", *unfinished):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"half")
        assert removable(settings, None, orphans=True) == []  # they may still be written
        assert removable(settings, None, orphans=True, experiment="tiny", now=later) == []
        garbage = removable(settings, None, orphans=True, now=later)
        assert {item.path for item in garbage} == {folder, *unfinished}
        settings.remove(item.path for item in garbage)
        assert not any(file.exists() for file in (folder, *unfinished))


def test_a_snapshot_that_cannot_be_read_stops_it(edited: Tiny) -> None:
    sorted((edited.artifacts / "evaluations").glob("*.json"))[0].write_text("{")
    with pytest.raises(StoreError, match="is not a readable evaluation"):
        clean(edited, 0.0, orphans=True)


def test_the_command(edited: Tiny) -> None:
    before = everything(edited)
    dry = edited.command("clean", "--older-than", "0")
    assert dry.exit_code == 0
    assert "would be removed" in dry.stdout
    assert "add --yes to remove it" in dry.stderr
    assert everything(edited) == before
    rows = json.loads(edited.command("clean", "--older-than", "0", "--format", "json").stdout)
    assert {"experiment": "tiny", "what": "snapshots", "count": 1} in [
        {name: row[name] for name in ("experiment", "what", "count")} for row in rows
    ]
    done = edited.command("clean", "--older-than", "0", "--experiment", "tiny", "--yes")
    assert "removed" in done.stdout
    gone = before - everything(edited)
    listed = {path.relative_to(edited.settings.store).parts[:3] for path in gone}
    assert len(listed) == sum(row["count"] for row in rows)
    assert edited.command("clean", "--older-than", "0", "--yes").stdout == "nothing to remove\n"
    orphan = edited.objects("chunks") / "0123456789abcdef"
    orphan.mkdir()
    (orphan / "table.parquet").write_bytes(b"old")
    assert edited.command("clean", "--orphans", "--yes").stdout == "nothing to remove\n"
    old = time.time() - 7200
    os.utime(orphan / "table.parquet", (old, old))
    assert edited.command("clean", "--orphans", "--yes").exit_code == 0
    assert not orphan.exists()
    assert edited.command("clean").exit_code == 2
    assert (
        "unknown experiment 'tony' (did you mean 'tiny'?)"
        in edited.command("clean", "--orphans", "--experiment", "tony").stderr
    )


def test_what_another_experiment_names_stays(tiny: Tiny) -> None:
    def of_other() -> list[Item]:
        later = datetime.now(UTC) + LATER
        return removable(tiny.settings, timedelta(), orphans=True, experiment="other", now=later)

    (tiny.objects("chunks") / "0123456789abcdef.parquet").write_bytes(b"an orphan")
    tiny.config["name"] = "other"
    tiny.write_config()
    assert tiny.run() == set()
    tiny.snapshot()
    tiny.config["name"] = "tiny"
    changed(tiny, 0.4)
    assert of_other() == []
    assert {one.kind for one in clean(tiny, 0.0)} == {"snapshots"}
    tiny.config["name"] = "other"
    changed(tiny, 0.6)
    own = of_other()
    assert {one.experiment for one in own} == {"other"}
    assert [one.kind for one in own].count("snapshots") == 1
    found = clean(tiny, 0.0)
    assert {(one.experiment, one.reason) for one in found[1:]} == {("other", "only older name it")}
    for name, k1 in (("other", 0.6), ("tiny", 0.4)):
        tiny.config["name"] = name
        tiny.configure("bm25", k1=k1)
        assert tiny.run() == set()


def test_nothing_goes_while_an_evaluation_runs(forks: Forks, edited: Tiny) -> None:
    edited.configure("bm25", k1=1.2)  # what only the older snapshot names is what it reads
    before = everything(edited)
    store = str(edited.settings.store)
    process = forks.start(edited.root / "log", "evaluate", str(edited.folder), "--store", store)
    while not list((edited.settings.store / "_leases").glob("*.json")):
        time.sleep(0.01)
    refused = edited.command("clean", "--older-than", "0", "--orphans", "--yes")
    assert refused.exit_code == 3, refused.output
    assert "an evaluation of tiny" in refused.stderr
    assert before <= everything(edited)
    assert forks.wait(process) == 0, (edited.root / "log").read_text()
    assert edited.command("clean", "--older-than", "0", "--yes").exit_code == 0
    assert edited.run() == set()


@pytest.mark.slow
def test_a_clean_that_is_killed_again_and_again(forks: Forks, edited: Tiny, tmp_path: Path) -> None:
    two_hours_ago = time.time() - 7200
    for path in everything(edited):
        os.utime(path, (two_hours_ago, two_hours_ago))
    undisturbed = edited.copy_to(tmp_path / "undisturbed")
    words = ["--older-than", "0", "--orphans", "--yes"]
    assert undisturbed.command("clean", *words).exit_code == 0
    place = Place(str(tmp_path / "log"), killed_at=8, counted_from="/_leases/")
    store = str(edited.settings.store)
    n_killed = 0
    while forks.run(place, "clean", *words, "--store", store) < 0:
        n_killed += 1
        current = read_current(edited.artifacts)
        assert all((edited.settings.store / entry.path).exists() for entry in current.entries)
    assert n_killed > 3
    left = [
        {path.relative_to(one.root) for path in everything(one) if path.suffix == ".parquet"}
        for one in (edited, undisturbed)
    ]
    assert left[0] == left[1]
    assert edited.run() == set()
