"""Two machines share a store on S3: a state folder each, and a real server on loopback."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rag_assets.errors import NotEvaluated
from rag_assets.experiment import load_experiment
from rag_assets.pipeline import bringing
from rag_assets.pipeline.attempts import Attempts
from rag_assets.pipeline.checks import blocked
from rag_assets.pipeline.checks.blocked import Blocked
from rag_assets.pipeline.checks.check import Check, CheckResult, Found
from rag_assets.pipeline.evaluation_names import ANCHOR, EvaluationNames
from rag_assets.pipeline.evaluations import CURRENT, FOLDER, Evaluation, read_current, record
from rag_assets.pipeline.history import History
from rag_assets.pipeline.history_files import HistoryFiles
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.warehouse import rebuild
from rag_assets.reporting.result import EvaluationResult
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.remote import working_copy
from rag_assets.store.remote.objects import AT_ONCE, Objects
from rag_assets.store.remote.working_copy import mirror, working_copy_of
from rag_assets.store.settings import StoreSettings
from tests.s3_server import VARIABLES, make_bucket
from tests.tiny_experiment import Tiny, materialize


def sources(folder: Path) -> Tiny:
    """Write the same experiment, a small one, into a folder."""
    tiny = Tiny(folder)
    names = ("bm25", "hybrid", "bm25-whole")
    tiny.config["retrievers"] = {name: tiny.config["retrievers"][name] for name in names}
    tiny.config |= {"top_k": [3], "metrics": ["mrr", "ndcg"], "primary": "ndcg@3"}
    return tiny.write()


@dataclass
class Machine:
    """A state folder, in which nothing is at first."""

    tiny: Tiny
    settings: StoreSettings

    @property
    def root(self) -> Path:
        return self.settings.store / "tiny"

    def pipeline(self) -> Pipeline:
        return Pipeline(load_experiment(self.tiny.folder), self.settings)

    def evaluate(self) -> tuple[set[str], Evaluation]:
        pipeline = self.pipeline()
        return self.finish(pipeline, materialize(pipeline))

    def finish(self, pipeline: Pipeline, computed: set[str]) -> tuple[set[str], Evaluation]:
        now = datetime.now(UTC)
        return computed, record(pipeline, started=now, trigger="test", computed=len(computed))

    def leaderboard(self) -> list[dict[str, object]]:
        return EvaluationResult.current(self.root).leaderboard.to_pylist()

    def history(self) -> list[dict[str, object]]:
        return History(self.root, self.settings.locks).evaluations()

    def there(self) -> Objects:
        copy = working_copy_of(self.root)
        assert copy is not None
        return copy.objects


class Machines:
    """Machines by name, with one store and the same sources."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        self.tiny = sources(folder / "sources")

    def __getitem__(self, name: str) -> Machine:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAG_ASSETS_STATE_DIR", str(self.folder / name))
            return Machine(self.tiny, StoreSettings.resolve(self.address))


@pytest.fixture(scope="module")
def evaluated(
    s3_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Machines, Evaluation, list[str]]]:
    """Yield the machines of a store in which ``first`` has evaluated, and what it sent."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**VARIABLES, "AWS_ENDPOINT_URL": s3_url}.items():
            patch.setenv(name, value)
        make_bucket(s3_url, "evaluated")
        machines = Machines(tmp_path_factory.mktemp("machines"), "s3://evaluated/nightly")
        with pytest.MonkeyPatch.context() as spy:
            sent = names_sent(spy)
            computed, evaluation = machines["first"].evaluate()
        assert len(computed) == len(evaluation.entries)
        yield machines, evaluation, sent


@pytest.fixture
def machines(evaluated: tuple[Machines, Evaluation, list[str]], tmp_path: Path) -> Machines:
    """Machines with sources and state folders of their own, and the store that has results."""
    return Machines(tmp_path, evaluated[0].address)


@pytest.fixture
def new_machines(s3_store: str, tmp_path: Path) -> Machines:
    """Machines whose store is empty."""
    return Machines(tmp_path, s3_store)


class Stopped(BaseException):
    """In place of the end of a process, which no code sees."""


def stop_before(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Let nothing more be written as soon as the name of an object has a part."""
    write = Objects.write
    stopped = False

    def until_then(self: Objects, name: str, content: bytes) -> None:
        nonlocal stopped
        stopped = stopped or part in name
        if stopped:
            raise Stopped(name)
        write(self, name, content)

    monkeypatch.setattr(Objects, "write", until_then)


def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a process knows of its working copies."""
    monkeypatch.setattr(working_copy, "_opened", {})


def names_sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that will hold the names of what is sent from now on."""
    names: list[str] = []
    write = Objects.write

    def noted(self: Objects, name: str, content: bytes) -> None:
        names.append(name)
        write(self, name, content)

    monkeypatch.setattr(Objects, "write", noted)
    return names


def edit(machines: Machines, name: str) -> None:
    """Change a document in a way in which no other test does."""
    machines.tiny.replace("fares.md", "40 crowns", f"40 crowns ({name})")


def test_the_names_of_what_is_brought() -> None:
    assert (bringing.SNAPSHOTS, bringing.POINTERS) == (FOLDER, (CURRENT, ANCHOR))
    assert bringing.FAILED_CHECKS == blocked.FOLDER


def test_another_machine_reuses_everything(
    evaluated: tuple[Machines, Evaluation, list[str]], tmp_path: Path
) -> None:
    first, evaluation, _ = evaluated
    a, b = first["first"], Machines(tmp_path, first.address)["b"]
    assert read_current(b.root) == evaluation
    assert b.leaderboard() == a.leaderboard()
    computed, again = b.evaluate()
    assert computed == set()
    assert again.content == evaluation.content
    assert read_current(a.root) == again
    # An index is not brought until something is searched.
    assert not list(b.root.glob("lexical_index/*/*"))
    assert [row["evaluation_id"] for row in a.history()] == [
        evaluation.evaluation_id,
        again.evaluation_id,
    ]
    assert a.history() == b.history()
    old, new = HistoryFiles(b.root, b.settings.locks).table().to_pylist()
    assert (old["retrievers"], old["metrics"]) == (new["retrievers"], new["metrics"])
    assert list(b.pipeline().measurements.all()) == list(a.pipeline().measurements.all())
    assert rebuild(b.settings).is_file()


def test_the_pointer_is_sent_last_and_nothing_twice(
    evaluated: tuple[Machines, Evaluation, list[str]],
    machines: Machines,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, evaluation, sent = evaluated
    name = evaluation.evaluation_id
    assert len(sent) == len(set(sent))
    assert sent[-3:] == [
        f"tiny/history/{name}.parquet",
        f"tiny/evaluations/{name}.json",
        "tiny/current",
    ]
    again = names_sent(monkeypatch)
    computed, evaluation = machines["b"].evaluate()
    name = evaluation.evaluation_id
    assert computed == set()
    assert again == [
        f"tiny/history/{name}.parquet",
        f"tiny/evaluations/{name}.json",
        "tiny/current",
    ]


def test_an_edit_on_one_machine_is_seen_on_the_other(machines: Machines) -> None:
    a, b = machines["a"], machines["b"]
    before = a.leaderboard()
    edit(machines, "seen")
    computed, edited = b.evaluate()
    assert "lexical_index/bm25" in computed
    assert read_current(a.root) == edited
    assert a.evaluate()[0] == set()
    machines.tiny.replace("fares.md", " (seen)", "")
    # Going back is free on every machine: what it needs is brought.
    assert a.evaluate()[0] == set()
    assert a.leaderboard() == before


def test_an_index_of_another_machine_is_searched(machines: Machines) -> None:
    machines.tiny.config["top_k"] = [3, 150]
    machines.tiny.write_config()
    computed, _ = machines["b"].evaluate()
    assert {"lexical_runs/bm25/150", "lexical_runs/bm25-whole/150"} <= computed
    assert not any(name.startswith("lexical_index") for name in computed)
    here = machines["b"].root.glob("lexical_index/*/*/manifest.json")
    assert len(list(here)) == 2


KILLED = """
import os, signal, sys
from pathlib import Path
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.store.remote.objects import Objects
from rag_assets.store.settings import StoreSettings
from tests.tiny_experiment import materialize

send, number = Objects.send, 0

def killed(self, path, name):
    global number
    number += 1
    if number == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    send(self, path, name)

Objects.send = killed
materialize(Pipeline(load_experiment(Path(sys.argv[1])), StoreSettings.resolve(sys.argv[2])))
"""


def test_a_process_that_is_killed_while_it_sends(
    new_machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = new_machines["a"], new_machines["b"]
    monkeypatch.setenv("RAG_ASSETS_STATE_DIR", str(a.settings.state_dir))
    folder, address = str(new_machines.tiny.folder), new_machines.address
    done = subprocess.run([sys.executable, "-c", KILLED, folder, address], check=False)
    assert done.returncode == -signal.SIGKILL
    assert 0 < len(a.there().listed("tiny")) < 20 + AT_ONCE
    with pytest.raises(NotEvaluated, match=f"has no evaluation in {address} yet"):
        read_current(b.root)
    computed, evaluation = a.evaluate()
    assert 0 < len(computed) < len(evaluation.entries)
    assert b.evaluate()[0] == set()
    assert b.leaderboard() == a.leaderboard()


@pytest.mark.parametrize("part", ["rankings", "history", "evaluations", "current"])
def test_an_evaluation_that_was_not_sent_whole(
    machines: Machines, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = machines["a"], machines["b"]
    before = read_current(b.root)
    edit(machines, part)
    with monkeypatch.context() as patch:
        stop_before(patch, f"tiny/{part}")
        with pytest.raises(Stopped):
            a.evaluate()
    new_process(monkeypatch)
    assert read_current(b.root) == before
    here = {file.stem for file in (a.root / FOLDER).glob("*.json")}
    computed, last = a.evaluate()
    assert computed == set() if part != "rankings" else len(computed) < len(last.entries)
    assert b.evaluate()[0] == set()
    assert here < {str(row["evaluation_id"]) for row in b.history()}
    for name in here:
        found = EvaluationNames(b.root, b.settings.locks).find(name)
        assert EvaluationResult(b.root, found).leaderboard.num_rows


def test_two_machines_at_once_lose_nothing(machines: Machines) -> None:
    a, b = machines["a"], machines["b"]
    on_a = a.pipeline()
    computed_on_a = materialize(on_a)
    edit(machines, "at once")
    on_b = b.pipeline()
    computed_on_b = materialize(on_b)
    _, of_b = b.finish(on_b, computed_on_b)
    _, of_a = a.finish(on_a, computed_on_a)
    assert of_a.content != of_b.content
    for machine in (a, b, machines["c"]):
        assert read_current(machine.root) == of_a
        ids = {row["evaluation_id"] for row in machine.history()}
        assert {of_a.evaluation_id, of_b.evaluation_id} <= ids
        names = EvaluationNames(machine.root, machine.settings.locks)
        assert names.find(of_b.evaluation_id) == of_b


def test_what_is_damaged_there_is_replaced(machines: Machines) -> None:
    a, b = machines["a"], machines["b"]
    _, evaluation = a.evaluate()
    entry = evaluation.entries_of("chunks")[0]
    whole = (a.root / entry.path).read_bytes()
    a.there().write(f"tiny/{entry.path}", whole[:-40] + bytes(40))
    assert b.evaluate()[0] == {f"chunks/{entry.partition['chunking']}"}
    assert a.there().read(f"tiny/{entry.path}") == whole
    assert machines["c"].evaluate()[0] == set()


def test_what_is_damaged_here_is_brought_again(machines: Machines) -> None:
    machine = machines["a"]
    _, evaluation = machine.evaluate()
    for asset in ("chunks", "leaderboard"):
        path = machine.root / evaluation.entries_of(asset)[0].path
        path.write_bytes(path.read_bytes()[:-40] + bytes(40))
    assert machine.evaluate()[0] == set()


def test_small_records_are_shared(machines: Machines) -> None:
    a, b = machines["a"], machines["b"]
    _, evaluation = a.evaluate()
    EvaluationNames(a.root, a.settings.locks).pin("latest")
    assert EvaluationNames(b.root, b.settings.locks).find("anchor") == evaluation
    pipeline = a.pipeline()
    key = pipeline.stages()[0].keys(pipeline.experiment)[0]
    recipe = pipeline.recipe(key)
    assert recipe is not None
    for number in (1, 2):
        Attempts(a.root / "attempts").add(recipe)
        assert b.pipeline().attempts.of(recipe) == number
    for file in (a.root / "attempts").iterdir():
        file.unlink()
        mirror(file)


def test_a_failed_check_stops_every_machine(machines: Machines) -> None:
    a, b = machines["a"], machines["b"]
    pipeline = a.pipeline()
    materialize(pipeline)
    key = ArtifactKey.of("documents")
    found = Found(["no text"])
    check = Check("readable", "has text", lambda reads, key, artifact: found, blocking=True)
    Blocked(pipeline).record([key], [CheckResult(check, key, found)])
    assert Blocked(b.pipeline()).failed(key)
    Blocked(pipeline).record([key], [])
    assert not Blocked(b.pipeline()).failed(key)


def test_no_file_holds_a_key(
    evaluated: tuple[Machines, Evaluation, list[str]],
) -> None:
    machines = evaluated[0]
    there = machines["first"].there()
    files = [path.read_bytes() for path in machines.folder.rglob("*") if path.is_file()]
    files += [there.read(name) or b"" for name in there.listed("")]
    assert len(files) > 100
    for name, value in VARIABLES.items():
        if "KEY" in name:
            assert not any(value.encode() in content for content in files)
