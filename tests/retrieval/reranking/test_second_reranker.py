"""What reads reranked retrievers: a second reranker and a fusion, in assets of their own."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import ConfigError
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.runs_stage import run_key
from tests.tiny_experiment import Tiny

FIRST: dict[str, Any] = {
    "bm25": {"type": "bm25", "chunking": "parts"},
    "tfidf": {"type": "tfidf", "chunking": "parts"},
    "hybrid": {"type": "rrf", "inputs": ["bm25", "tfidf"]},
    "late": {"type": "maxsim", "input": "hybrid", "candidates": 6},
}
SECOND: dict[str, Any] = {
    "again": {"type": "maxsim", "input": "late", "candidates": 3, "query_prompt": "query: "},
    "same": {"type": "maxsim", "input": "late", "candidates": 3},
    "joined": {"type": "rrf", "inputs": ["bm25", "late"], "k": 10, "candidates": 4},
}


def ranked(pipeline: Pipeline, name: str) -> dict[str, list[tuple[str, float]]]:
    table = pipeline.artifact(run_key(pipeline.experiment, name, 5)).table()
    found = defaultdict(list)
    for row in table.to_pylist():
        found[row["query_id"]].append((row["unit_id"], row["score"]))
    return found


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The experiment, computed once; tests get copies."""
    made = Tiny(tmp_path_factory.mktemp("second_reranker") / "master")
    made.config["retrievers"] = {**FIRST, **SECOND}
    made.write().run()
    return made


@pytest.fixture
def tiny(master: Tiny, tmp_path: Path) -> Tiny:
    return master.copy_to(tmp_path / "tiny")


def test_rankings_are_those_of_what_was_reranked(tiny: Tiny) -> None:
    pipeline = tiny.pipeline()
    late, bm25 = ranked(pipeline, "late"), ranked(pipeline, "bm25")
    # The same model orders the first three as they are; nothing below them comes back.
    assert ranked(pipeline, "same") == {query: rows[:3] for query, rows in late.items()}
    again = ranked(pipeline, "again")
    for query, rows in again.items():
        assert {unit for unit, _ in rows} == {unit for unit, _ in late[query][:3]}
    assert any(again[query] != late[query][:3] for query in late)
    for query, rows in ranked(pipeline, "joined").items():
        sums: dict[str, float] = defaultdict(float)
        for read in (bm25, late):
            for rank, (unit, _) in enumerate(read[query][:4], start=1):
                sums[unit] += 1 / (10 + rank)
        assert dict(rows) == pytest.approx(dict(sorted(sums.items(), key=lambda s: -s[1])[:5]))


def test_assets_are_there_where_they_are_used_and_the_others_stay(fresh: Tiny) -> None:
    tiny = fresh

    def keys() -> dict[str, set[str]]:
        pipeline = tiny.pipeline()
        return {
            stage.name: set(map(str, stage.keys(pipeline.experiment)))
            for stage in pipeline.stages()
        }

    tiny.config["retrievers"] = dict(FIRST)
    tiny.write_config()
    first = keys()
    tiny.run()
    tiny.config["retrievers"] = {**FIRST, **SECOND}
    tiny.write_config()
    both = keys()
    assert both.keys() - first.keys() == {
        "second_fused_runs",
        "second_reranked_runs",
        "second_reranking_texts",
    }
    assert all(own <= both[name] for name, own in first.items())
    assert {key for key in both["reranked_runs"] if "late" not in key} == set()
    computed = tiny.run()
    assert "second_reranked_runs/again/5" in computed
    assert not any(name.startswith(("reranked_runs", "fused_runs")) for name in computed)


def test_what_the_first_reads_reaches_the_second(tiny: Tiny) -> None:
    tiny.configure("late", candidates=2)
    assert {"reranked_runs/late/5", "second_reranked_runs/same/5"} <= tiny.run()
    tiny.configure("same", candidates=1)
    assert "reranked_runs/late/5" not in tiny.run()


@pytest.mark.parametrize(
    ("retrievers", "problem"),
    [
        (
            {"third": {"type": "maxsim", "input": "again"}},
            "'again' is itself a reranked retriever; three levels",
        ),
        (
            {"wide": {"type": "rrf", "inputs": ["bm25", "joined"]}},
            "'joined' is itself a fused retriever; three levels",
        ),
        (
            {"deep": {"type": "maxsim", "input": "joined"}},
            "'joined' is fused or reranked 3 times, which is the most; it cannot",
        ),
        (
            {"joined": {"type": "convex", "inputs": ["bm25", "late"], "weights": "tuned"}},
            "weights are tuned of base retrievers; of reranked ones give numbers",
        ),
    ],
)
def test_no_further(tiny: Tiny, retrievers: dict[str, Any], problem: str) -> None:
    tiny.config["retrievers"].update(retrievers)
    tiny.write_config()
    with pytest.raises(ConfigError, match=problem):
        tiny.pipeline()


def test_a_reranking_of_a_fusion_of_rerankings(tiny: Tiny) -> None:
    tiny.configure("late", input="bm25")
    tiny.configure("last", type="maxsim", input="joined", candidates=2)
    tiny.run()
    pipeline = tiny.pipeline()
    joined = ranked(pipeline, "joined")
    for query, rows in ranked(pipeline, "last").items():
        assert {unit for unit, _ in rows} == {unit for unit, _ in joined[query][:2]}
