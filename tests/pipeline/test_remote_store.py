"""A store on S3."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rag_assets.analysis.result import EvaluationResult
from rag_assets.checks.check import CheckInputs
from rag_assets.cli import main
from rag_assets.errors import NotEvaluated, StoreError
from rag_assets.llm.client import ChatRequest, Completion, Message
from rag_assets.llm.replies import ReplyStore
from rag_assets.pipeline import evaluation_record
from rag_assets.pipeline.cleaning import removable
from rag_assets.pipeline.evaluations import CURRENT, Evaluation, snapshot_ids
from rag_assets.pipeline.forgetting import to_forget
from rag_assets.pipeline.history_files import HistoryFiles
from rag_assets.pipeline.warehouse import rebuild
from rag_assets.pipeline.warehouse_time import is_current
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.atomic import TABLE, write_text
from rag_assets.store.locks import shared_lease
from rag_assets.store.remote import ANY, MAX_AT_ONCE, Objects
from rag_assets.store.settings import StoreSettings
from tests.llm.requests import store_replies
from tests.remote_machines import Evaluated, Machine, Machines, names_sent
from tests.s3_server import VARIABLES
from tests.tiny_experiment import materialize


class Stopped(BaseException):
    """In place of the end of a process, which no code sees."""


def stop_before(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Let nothing more be written as soon as the name of an object has a part."""
    write = Objects.write
    stopped = False

    def until_then(self: Objects, name: str, content: bytes, expected: str = ANY) -> str | None:
        nonlocal stopped
        stopped = stopped or part in name
        if stopped:
            raise Stopped(name)
        return write(self, name, content, expected)

    monkeypatch.setattr(Objects, "write", until_then)


def stopping_at(name: str) -> Callable[[Path, str], None]:
    """Return a ``write_text`` that writes everything but one file."""

    def until_then(path: Path, text: str) -> None:
        if path.name == name:
            raise Stopped(name)
        write_text(path, text)

    return until_then


def new_process(machine: Machine) -> Machine:
    """Return a machine whose process knows nothing of its local copy."""
    return replace(machine, settings=replace(machine.settings))


def test_another_machine_reuses_everything(unsent: Machines) -> None:
    a, b = unsent["a"], unsent["b"]
    _, first = a.evaluate()
    assert b.current() == first
    assert b.leaderboard() == a.leaderboard()
    computed, again = b.evaluate()
    assert computed == set()
    assert again.content == first.content
    assert a.current() == again
    # An index is not brought until something is searched.
    assert not list(b.settings.store.glob("objects/lexical_index/*"))
    both = [first.evaluation_id, again.evaluation_id]
    assert [row["evaluation_id"] for row in a.history()] == both
    assert a.history() == b.history()
    old, new = HistoryFiles(b.root, b.settings.locks).table().to_pylist()
    assert (old["retrievers"], old["metrics"]) == (new["retrievers"], new["metrics"])
    rebuild(b.settings)
    assert is_current(b.settings)
    a.evaluate()
    b.leaderboard()
    assert not is_current(b.settings)


def test_the_pointer_is_sent_last_and_nothing_twice(
    evaluated: Evaluated, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def last(name: str) -> list[str]:
        return [f"tiny/history/{name}", f"tiny/evaluations/{name}.json", "tiny/current"]

    def without_digest(names: list[str]) -> list[str]:
        return [re.sub(r"[.]\w{16}[.]parquet$", "", name) for name in names]

    assert len(evaluated.sent) == len(set(evaluated.sent))
    assert without_digest(evaluated.sent[-3:]) == last(evaluated.evaluation.evaluation_id)
    sent = names_sent(monkeypatch)
    _, evaluation = machines["b"].evaluate()
    assert without_digest(sent) == last(evaluation.evaluation_id)


KILLED = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.evaluation_record import record
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.store.remote import Objects
from rag_assets.store.settings import StoreSettings

send, number = Objects.send, 0

def killed(self, path, name, expected):
    global number
    number += 1
    if number == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return send(self, path, name, expected)

Objects.send = killed
pipeline = Pipeline(load_experiment(Path(sys.argv[1])), StoreSettings.resolve(sys.argv[2]))
record(pipeline, started=datetime.now(UTC), trigger="killed", computed=0)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_sends(
    unsent: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = unsent["a"], unsent["b"]
    monkeypatch.setenv("RAG_ASSETS_STATE_DIR", str(a.settings.state_dir))
    arguments = [str(unsent.tiny.folder), unsent.address]
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False)
    assert done.returncode == -signal.SIGKILL
    assert 0 < len(a.there().listed("objects")) < 20 + MAX_AT_ONCE
    _check_next_evaluation_is_whole(a, b)


def test_a_process_that_is_stopped_after_the_pointer(
    unsent: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = unsent["a"], unsent["b"]
    with monkeypatch.context() as patch:
        patch.setattr(evaluation_record, "write_text", stopping_at(CURRENT))
        with pytest.raises(Stopped):
            a.evaluate()
    a = new_process(a)
    (stopped,) = snapshot_ids(a.root)
    for machine in (b, a):
        assert machine.current().evaluation_id == stopped
    assert len(b.history()) == 1


@pytest.mark.parametrize("part", ["rankings", "history", "current"])
def test_an_evaluation_that_was_not_sent_whole(
    unsent: Machines, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = unsent["a"], unsent["b"]
    with monkeypatch.context() as patch:
        stop_before(patch, f"objects/{part}" if part == "rankings" else f"tiny/{part}")
        with pytest.raises(Stopped):
            a.evaluate()
    a = new_process(a)
    _check_next_evaluation_is_whole(a, b)


def _check_next_evaluation_is_whole(a: Machine, b: Machine) -> None:
    """Check that nothing is in use before it, and then both evaluations can be read."""
    with pytest.raises(NotEvaluated, match="tiny has no evaluation in "):
        b.current()
    (stopped,) = snapshot_ids(a.root)
    computed, last = a.evaluate()
    assert computed == set()
    assert b.evaluate()[0] == set()
    assert [row["evaluation_id"] for row in b.history()][:2] == [stopped, last.evaluation_id]
    assert b.names().find(stopped).content == last.content
    assert b.leaderboard() == a.leaderboard()


@pytest.mark.slow
def test_two_machines_at_once_lose_nothing(machines: Machines) -> None:
    a, b, c = (machines[name] for name in "abc")
    on_a = a.pipeline()
    materialize(on_a)
    machines.tiny.replace("fares.md", "40 crowns", "45 crowns")
    on_b = b.pipeline()
    computed = materialize(on_b)
    assert "lexical_index/bm25" in computed
    _, of_b = b.finish(on_b, computed)
    assert a.current() == of_b
    _, of_a = a.finish(on_a, set())
    assert of_a.content != of_b.content
    for machine in (a, b, c):
        assert machine.current() == of_a
        ids = {row["evaluation_id"] for row in machine.history()}
        assert {of_a.evaluation_id, of_b.evaluation_id} <= ids
        assert machine.names().find(of_b.evaluation_id) == of_b
    # What the other one edited is known here, and going back is free there.
    assert a.evaluate()[0] == set()
    machines.tiny.replace("fares.md", "45 crowns", "40 crowns")
    assert b.evaluate()[0] == set()
    assert b.leaderboard() == EvaluationResult(a.root, of_a).leaderboard.to_pylist()


def test_machines_that_end_at_the_same_time_lose_nothing(machines: Machines) -> None:
    before = {row["evaluation_id"] for row in machines["reader"].history()}

    def evaluate(name: str) -> list[Evaluation]:
        pipeline = machines[name].pipeline()
        return [machines[name].finish(pipeline, set())[1] for _ in range(2)]

    with ThreadPoolExecutor(3) as threads:
        ended = [one for found in threads.map(evaluate, "abc") for one in found]
    last = max(ended, key=lambda one: (one.finished, one.evaluation_id))
    for name in ("a", "new"):
        assert machines[name].current() == last
        ids = {row["evaluation_id"] for row in machines[name].history()}
        assert ids == before | {one.evaluation_id for one in ended}
        assert ids == set(snapshot_ids(machines[name].root))


def test_what_ended_later_stays_current(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = machines["a"], machines["b"]
    write = Objects.write
    of_b: list[Evaluation] = []

    def b_comes_first(self: Objects, name: str, content: bytes, expected: str = ANY) -> str | None:
        if name == "tiny/current" and not of_b:
            monkeypatch.setattr(Objects, "write", write)
            of_b.append(b.finish(b.pipeline(), set())[1])
        return write(self, name, content, expected)

    on_a = a.pipeline()
    monkeypatch.setattr(Objects, "write", b_comes_first)
    _, of_a = a.finish(on_a, set())
    assert of_a.finished < of_b[0].finished
    assert f"{of_a.evaluation_id} is in the history; {of_b[0].evaluation_id}" in caplog.text
    for machine in (a, b, machines["c"]):
        assert machine.current() == of_b[0]
        assert machine.names().find(of_a.evaluation_id) == of_a
        ids = [row["evaluation_id"] for row in machine.history()]
        assert {of_a.evaluation_id, of_b[0].evaluation_id} <= set(ids)


def test_a_damaged_pointer_is_written_again(machines: Machines) -> None:
    a = machines["a"]
    gone = b"20200101T000000000000-0000"
    for content in (b"\xff\xfe", b"../../etc/passwd", gone):
        a.there().write("tiny/current", content)
        with pytest.raises(StoreError, match="readable" if content == gone else "damaged"):
            a.current()
    _, evaluation = a.finish(a.pipeline(), set())
    assert machines["b"].current() == evaluation


def test_what_is_damaged_there_or_here_is_replaced(machines: Machines) -> None:
    a, b = machines["a"], machines["b"]
    _, evaluation = a.evaluate()
    entry = evaluation.entries_of("chunks")[0]
    name = f"{entry.path}/{TABLE}"
    whole = (a.settings.store / name).read_bytes()
    damaged = whole[:-40] + bytes(40)
    a.there().write(name, damaged)
    assert b.evaluate()[0] == {f"chunks/{entry.partition['chunking']}"}
    assert a.there().read(name) == whole
    board = a.settings.store / evaluation.entries_of("leaderboard")[0].path / TABLE
    board.write_bytes(board.read_bytes()[:-40] + bytes(40))
    (a.settings.store / name).write_bytes(damaged)
    assert a.evaluate()[0] == set(), "it is brought again"


def test_two_machines_pin_at_the_same_time(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = machines["a"], machines["b"]
    first = a.evaluate()[1]
    second = b.evaluate()[1]
    names_a = a.names()
    names_a.pin(first.evaluation_id)
    names_b = b.names()
    write = StoreSettings.write_record

    def b_comes_first(self: StoreSettings, *given: Any) -> str:
        monkeypatch.setattr(StoreSettings, "write_record", write)
        names_b.pin(second.evaluation_id)
        return write(self, *given)

    monkeypatch.setattr(StoreSettings, "write_record", b_comes_first)
    told = (
        f"tiny: another machine has just pinned {second.evaluation_id} as the anchor; to replace it"
    )
    with pytest.raises(StoreError, match=re.escape(told)) as raised:
        names_a.pin(first.evaluation_id)
    assert raised.value.exit_code == 3
    assert names_a.anchor_id() == first.evaluation_id
    assert a.names().find("anchor") == second
    names_a.pin(first.evaluation_id)
    assert b.names().find("anchor") == first


def test_the_greater_count_of_attempts_stays(machines: Machines) -> None:
    a, b = machines["a"], machines["b"]
    pipeline = a.pipeline()
    recipe = pipeline.recipe(pipeline.stages()[0].keys(pipeline.experiment)[0])
    assert recipe is not None
    of_a, of_b = (one.pipeline().attempts for one in (a, b))
    for _ in range(3):
        of_b.add(recipe)
    of_a.add(recipe)  # it knows of none
    assert of_a.of(recipe) == 3
    file = a.root / "attempts" / f"{recipe.fingerprint}.txt"
    assert a.there().read(f"tiny/attempts/{file.name}") == file.read_bytes() == b"3\n"
    a.settings.remove([file])


def test_no_file_holds_a_key(evaluated: Evaluated, machines: Machines) -> None:
    there = machines["b"].there()
    state = evaluated.machines.folder
    files = [path.read_bytes() for path in state.rglob("*") if path.is_file()]
    files += [there.read(name) or b"" for name in there.listed("")]
    assert len(files) > 100
    for name, value in VARIABLES.items():
        if "KEY" in name:
            assert not any(value.encode() in content for content in files)


def test_an_anchor_is_compared_with_on_another_machine(unsent: Machines) -> None:
    a, b = unsent["a"], unsent["b"]
    a.evaluate()
    a.names().pin("latest")
    anchor = CheckInputs(b.pipeline()).anchor
    assert not isinstance(anchor, str)
    key = ArtifactKey.of("lexical_runs", retriever="bm25", top_k=3)
    found = anchor(key)
    assert found is not None
    assert found.table() == a.pipeline().artifact(key).table()


MODEL = {"model": "m"}
REQUEST = ChatRequest((Message("user", "Ask about: A dog needs a ticket of 10 crowns."),))


def command(machine: Machine, *words: str) -> Result:
    variables = {"RAG_ASSETS_STATE_DIR": str(machine.settings.state_dir), "COLUMNS": "200"}
    words = (*words, "--store", machine.address)
    return CliRunner(env=variables).invoke(main, words)


def answers(machine: Machine) -> ReplyStore:
    assert machine.settings.remote is not None
    machine.settings.remote.refresh()
    machine.settings.remote.fetch("cache")
    return ReplyStore(machine.settings.store / "cache" / "completions")


@pytest.fixture
def two(unsent: Machines) -> tuple[Machine, Machine]:
    """Two machines that both evaluated, and so have all tables."""
    a, b = unsent["a"], unsent["b"]
    reply = Completion("What does a dog pay?", 1, 1, "stop")
    store_replies(answers(a).folder, MODEL, [(REQUEST, reply)])
    for machine in (a, b):
        machine.evaluate()
    assert answers(b).get(MODEL, [REQUEST]) != [None]
    return a, b


@pytest.mark.slow
def test_a_document_is_forgotten_everywhere(unsent: Machines, two: tuple[Machine, Machine]) -> None:
    a, b = two
    done = command(a, "clean", "--document", "fares.md")
    assert "would be removed" in done.output
    assert to_forget(b.settings, "fares.md") is not None
    before = set(a.there().listed(""))
    done = command(a, "clean", "--document", "fares.md", "--yes")
    assert done.exit_code == 0, done.output
    assert "other machines remove the text" in done.output
    removed = before - set(a.there().listed(""))
    gone = {name.removeprefix("tiny/").removeprefix("objects/").split("/")[0] for name in removed}
    assert {"documents", "chunks", "lexical_index"} <= gone
    assert not gone & {"metrics", "leaderboard", "history", "evaluations"}
    b.current()
    new = unsent["new"]
    for machine in (a, b, new):
        assert to_forget(machine.settings, "fares.md") is None
        assert answers(machine).get(MODEL, [REQUEST]) == [None]
    again = command(b, "clean", "--document", "fares.md", "--yes")
    assert again.exit_code == 2
    assert f"no artifact of any experiment in {a.address} holds a document" in again.output


def test_an_old_evaluation_does_not_come_back(two: tuple[Machine, Machine]) -> None:
    a, b = two
    new = snapshot_ids(b.root)[-1]
    with shared_lease(b.settings, "an evaluation of tiny"):
        refused = command(a, "clean", "--older-than", "0", "--yes")
        assert refused.exit_code == 3
        assert "an evaluation of tiny" in refused.output
    done = command(a, "clean", "--older-than", "0", "--yes")
    assert done.exit_code == 0, done.output
    _, last = b.evaluate()
    left = [new, last.evaluation_id]
    for machine in (a, b):
        assert len(machine.history()) == 3
        assert snapshot_ids(machine.root) == left
    assert sorted(a.there().listed("tiny/evaluations")) == [
        f"tiny/evaluations/{name}.json" for name in left
    ]
    assert a.leaderboard() == b.leaderboard()


def test_orphans_are_found_without_fetching_the_store(
    unsent: Machines, two: tuple[Machine, Machine]
) -> None:
    (a, b), new = two, unsent["new"]
    orphan = "objects/lexical_index/0123456789abcdef"
    for name in ("manifest.json", "postings"):
        a.there().write(f"{orphan}/{name}", b"{}")
    later = datetime.now(UTC) + timedelta(hours=2)
    assert command(new, "clean", "--orphans", "--yes").output == "nothing to remove\n"  # young
    assert new.settings.remote is not None
    new.settings.remote.pull()
    found = removable(new.settings, None, orphans=True, now=later)
    assert [(one.kind, one.size) for one in found] == [("lexical_index", 4)]
    assert not (new.settings.store / "objects" / "metrics").exists()
    new.settings.remove([one.path for one in found])
    assert not a.there().listed(orphan)
    assert a.evaluate()[0] == set()
    # A cache is pruned where it is.
    assert command(new, "clean", "--caches", "0", "--yes").exit_code == 0
    assert not new.there().listed("cache")
    b.current()
    assert answers(b).get(MODEL, [REQUEST]) == [None]
