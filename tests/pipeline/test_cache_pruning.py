from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from click.testing import CliRunner, Result

from rag_assets.cli import main
from rag_assets.errors import StoreError
from rag_assets.pipeline.cache_pruning import prune, to_prune
from rag_assets.store.atomic import remove
from rag_assets.store.cache_files import cache_segments
from rag_assets.store.number_caches import Pair, PairScoreCache
from rag_assets.store.vector_caches import TokenVectorCache, VectorCache
from tests.tiny_experiment import Tiny


@pytest.fixture
def uncached(tiny: Tiny) -> Tiny:
    """The experiment, evaluated, without the numbers of tokens that this left in the caches."""
    remove(tiny.settings.store / "cache")
    return tiny


def cache(tiny: Tiny) -> VectorCache:
    return VectorCache(tiny.settings.store / "cache" / "embeddings", "a" * 64)


def texts(tiny: Tiny) -> dict[str, str]:
    """A chunk as it is indexed, a query, and a text that nothing has."""
    table = (
        tiny.pipeline()
        .artifact(
            next(e.key for e in tiny.snapshot().entries_of("chunks") if "parts" in str(e.key))
        )
        .table()
    )
    row = table.to_pylist()[0]
    chunk = f"{row['title']}\n{row['text']}" if row["title"] else row["text"]
    return {"chunk": chunk, "query": "last ferry in winter", "other": "nobody asks this"}


def put(tiny: Tiny) -> dict[str, str]:
    found = texts(tiny)
    cache(tiny).put(list(found.values()), np.eye(3, dtype=np.float32))
    return found


def known(tiny: Tiny, found: dict[str, str]) -> dict[str, bool]:
    vectors, mask = cache(tiny).get(list(found.values()))
    for row in np.flatnonzero(mask):
        assert vectors[row].tolist() == np.eye(3)[row].tolist()
    return dict(zip(found, mask.tolist(), strict=True))


def command(tiny: Tiny, *words: str) -> Result:
    runner = CliRunner(env={"COLUMNS": "80"})
    return runner.invoke(main, ["cache", *words, "--store", str(tiny.settings.store)])


def test_unused_vectors_go_and_the_others_stay(tiny: Tiny) -> None:
    found = put(tiny)
    store = tiny.settings.store
    dropped = to_prune(store, None, unused=True)
    assert [one.entries for one in dropped] == [1]
    assert known(tiny, found) == dict.fromkeys(found, True)
    prune(store, dropped)
    assert known(tiny, found) == {"chunk": True, "query": True, "other": False}
    assert to_prune(store, None, unused=True) == []


def test_a_segment_without_a_used_entry_is_removed(tiny: Tiny) -> None:
    used = cache_segments(tiny.settings.store)
    assert {segment.kind for segment in used} == {"token_counts"}, "of texts of chunks"
    vectors = {"nobody asks this": np.ones((2, 3), dtype=np.float16)}
    TokenVectorCache(tiny.settings.store / "cache" / "token_vectors", "b" * 64).put(vectors)
    prune(tiny.settings.store, to_prune(tiny.settings.store, None, unused=True))
    assert cache_segments(tiny.settings.store) == used


def test_what_an_older_snapshot_needs_is_used(tiny: Tiny) -> None:
    found = put(tiny)
    tiny.replace("queries.jsonl", "last ferry in winter", "last ferry in spring")
    tiny.run()
    tiny.snapshot()
    prune(tiny.settings.store, to_prune(tiny.settings.store, None, unused=True))
    assert known(tiny, found)["query"]


def test_an_older_entry_goes(tiny: Tiny) -> None:
    put(tiny)
    pairs = PairScoreCache(tiny.settings.store / "cache" / "pair_scores", "c")
    pairs.put([Pair("q", "d")], np.array([0.5]))
    store, now = tiny.settings.store, datetime.now(UTC)
    assert to_prune(store, timedelta(days=2), unused=False, now=now) == []
    later = now + timedelta(days=3)
    old = to_prune(store, timedelta(days=2), unused=False, now=later)
    kinds = [one.segment.kind for one in old]
    assert kinds == ["embeddings", "pair_scores", "token_counts", "token_counts"]
    both = to_prune(store, timedelta(days=2), unused=True, now=later)
    assert [(one.segment.kind, one.entries) for one in both] == [("embeddings", 1)]


def test_a_snapshot_that_cannot_be_read_stops_it(tiny: Tiny) -> None:
    put(tiny)
    next((tiny.artifacts / "evaluations").glob("*.json")).write_text("{")
    with pytest.raises(StoreError, match="is not a readable evaluation"):
        to_prune(tiny.settings.store, None, unused=True)


def test_the_commands(uncached: Tiny) -> None:
    assert command(uncached, "info").stdout == "the caches are empty\n"
    found = put(uncached)
    shown = command(uncached, "info").stdout
    assert "embeddings  aaaaaaaaaaaaaaaa        3         1" in shown
    (row,) = json.loads(command(uncached, "info", "--format", "json").stdout)
    assert (row["entries"], row["segments"], row["unreadable"]) == (3, 1, 0)
    (file,) = (uncached.settings.store / "cache").rglob("*.parquet")
    assert row["bytes"] == file.stat().st_size
    dry = command(uncached, "prune", "--unused")
    assert "would be removed" in dry.stdout
    assert "--yes does it" in dry.stderr
    assert known(uncached, found)["other"]
    done = command(uncached, "prune", "--unused", "--yes")
    assert (done.exit_code, "removed" in done.stdout) == (0, True)
    assert not known(uncached, found)["other"]
    assert command(uncached, "prune", "--older-than", "0", "--yes").exit_code == 0
    assert command(uncached, "info").stdout == "the caches are empty\n"
    assert command(uncached, "prune").exit_code == 2


def test_a_damaged_segment_is_counted(uncached: Tiny) -> None:
    put(uncached)
    (file,) = (uncached.settings.store / "cache").rglob("*.parquet")
    file.write_bytes(b"PAR1")
    (row,) = json.loads(command(uncached, "info", "--format", "json").stdout)
    assert (row["entries"], row["unreadable"]) == (0, 1)
    assert to_prune(uncached.settings.store, None, unused=True) == []
