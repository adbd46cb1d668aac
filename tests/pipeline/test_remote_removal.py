"""What is removed from a store on S3 is removed from the working copies of all machines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner, Result

from rag_assets.cli import main
from rag_assets.llm.client import ChatRequest, Completion, Message
from rag_assets.llm.replies import ReplyStore
from rag_assets.pipeline.cleaning import removable
from rag_assets.pipeline.evaluations import snapshot_ids
from rag_assets.pipeline.forgetting import to_forget
from rag_assets.store.locks import shared_lease
from tests.llm.requests import store_replies
from tests.remote_machines import Machine, Machines

MODEL = {"model": "m"}
REQUEST = ChatRequest((Message("user", "Ask about: A dog needs a ticket of 10 crowns."),))


def command(machine: Machine, *words: str) -> Result:
    settings = machine.settings
    variables = {"RAG_ASSETS_STATE_DIR": str(settings.state_dir), "COLUMNS": "200"}
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
    assert "other machines that use this store forget the text" in done.output
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
    a, new = two[0], unsent["new"]
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


def test_a_cache_is_counted_and_pruned_where_it_is(
    unsent: Machines, two: tuple[Machine, Machine]
) -> None:
    _, b = two
    new = unsent["new"]
    counted = command(new, "cache", "info", "--format", "csv")
    assert counted.exit_code == 0, counted.output
    assert "completions,,1,1," in counted.output
    assert command(new, "clean", "--caches", "0", "--yes").exit_code == 0
    assert not new.there().listed("cache")
    b.current()
    assert answers(b).get(MODEL, [REQUEST]) == [None]


def test_all_experiments_of_the_store_are_in_the_warehouse(
    unsent: Machines, two: tuple[Machine, Machine]
) -> None:
    new = unsent["new"]
    done = command(new, "warehouse", "rebuild")
    assert done.exit_code == 0, done.output
    assert (new.root / "current").is_file()


def test_what_is_wrong_is_one_line(unsent: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    done = CliRunner().invoke(
        main, ["leaderboard", str(unsent.tiny.folder), "--store", "s3://ferries/nightly"]
    )
    assert done.exit_code == 3
    assert done.output == (
        "error: the store s3://ferries/nightly cannot be used: nothing answers at "
        "http://127.0.0.1:9 (AWS_ENDPOINT_URL)\n"
    )
