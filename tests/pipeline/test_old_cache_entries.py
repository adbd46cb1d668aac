from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from click.testing import CliRunner, Result

from rag_assets.cli import main
from rag_assets.llm.client import ChatRequest, Completion, Message
from rag_assets.llm.replies import ReplyStore
from rag_assets.pipeline.cleaning import removable
from rag_assets.store.atomic import remove
from rag_assets.store.content_cache import CACHE
from tests.cached_vectors import VectorCache
from tests.llm.requests import store_replies
from tests.tiny_experiment import Tiny

MODEL = {"model": "m", "server": "s"}
REQUEST = ChatRequest((Message("user", "Which is best?"),), template="p/1")


@pytest.fixture
def cached(tiny: Tiny) -> Tiny:
    """The experiment, evaluated, with three vectors alone in the caches."""
    remove(tiny.settings.store / "cache")
    vectors(tiny).put(["one", "two", "three"], np.eye(3, dtype=np.float32))
    return tiny


def vectors(tiny: Tiny) -> VectorCache:
    return VectorCache(tiny.settings.store / "cache" / "embeddings", "a" * 64)


def command(tiny: Tiny, *words: str) -> Result:
    runner = CliRunner(env={"COLUMNS": "80"})
    return runner.invoke(main, [*words, "--store", str(tiny.settings.store)])


def test_old_entries_go_when_they_are_named(cached: Tiny) -> None:
    folder = cached.settings.store / "cache" / "completions"
    store_replies(folder, MODEL, [(REQUEST, Completion("This one.", 1, 1, "stop"))])
    evaluations = list((cached.artifacts / "evaluations").iterdir())
    words = ["clean", "--older-than", "0", "--orphans", "--yes"]
    assert command(cached, *words).exit_code == 0
    assert ReplyStore(folder).get(MODEL, [REQUEST]) != [None], "no reply goes unasked"
    assert command(cached, "clean", "--caches", "1").stdout == "nothing to remove\n"
    dry = command(cached, "clean", "--caches", "0")
    assert "cache/embeddings" in dry.stdout
    assert "--yes does it" in dry.stderr
    assert ReplyStore(folder).get(MODEL, [REQUEST]) != [None]
    assert command(cached, "clean", "--caches", "0", "--yes").exit_code == 0
    assert ReplyStore(folder).get(MODEL, [REQUEST]) == [None]
    assert command(cached, "cache", "info").stdout == "the caches are empty\n"
    assert list((cached.artifacts / "evaluations").iterdir()) == evaluations


def test_an_entry_goes_by_its_age(cached: Tiny) -> None:
    settings, later = cached.settings, datetime.now(UTC) + timedelta(days=3)
    for days, kinds in ((2, ["cache/embeddings"]), (4, [])):
        age = timedelta(days=days)
        items = removable(settings, None, orphans=False, cache_age=age, now=later)
        assert [item.kind for item in items] == kinds
    assert not any(
        CACHE in item.kind for item in removable(settings, None, orphans=True, now=later)
    )


def test_what_the_caches_hold(cached: Tiny) -> None:
    shown = command(cached, "cache", "info").stdout
    assert "embeddings  aaaaaaaaaaaaaaaa        3         1" in shown
    (row,) = json.loads(command(cached, "cache", "info", "--format", "json").stdout)
    assert (row["entries"], row["segments"], row["unreadable"]) == (3, 1, 0)
    (file,) = (cached.settings.store / "cache").rglob("*.parquet")
    assert row["bytes"] == file.stat().st_size
    file.write_bytes(b"PAR1")
    (row,) = json.loads(command(cached, "cache", "info", "--format", "json").stdout)
    assert (row["entries"], row["unreadable"]) == (0, 1)
