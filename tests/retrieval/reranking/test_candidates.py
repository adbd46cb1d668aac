"""Candidates of rerankers, diversity among them, and rerankers of rerankers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from rich.console import Console

from rag_assets.analysis.leaderboard import selected_rows
from rag_assets.analysis.overlaps import similarity_sheet
from rag_assets.chunking.stage import chunks_key, texts_to_index
from rag_assets.errors import ConfigError
from rag_assets.models.cache_fill import Vectors, as_wanted
from rag_assets.models.encoder import Encoder
from rag_assets.pipeline.selection import Selection
from rag_assets.retrieval.reranking.candidates import Candidates
from rag_assets.retrieval.reranking.diversity import Keep, novel
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.retrieval.workspace import NO_WORKSPACE
from rag_assets.sheets.terminal_table import sheet_view
from rag_assets.store.artifacts import ArtifactKey
from tests.shown_board import evaluated
from tests.static_model import save_static_model
from tests.tiny_experiment import Tiny, matching


def candidates(texts: Sequence[str], scores: Sequence[float]) -> Candidates:
    ids = [f"u{number}" for number in range(len(texts))]
    return Candidates("q", "a query", ids, texts, np.array(scores))


def left(config: Keep, one: Candidates) -> list[float | None]:
    (scores,) = config.rerank([one], NO_WORKSPACE).scores
    return [None if np.isnan(score) else float(score) for score in scores]


def test_min_score_is_of_the_input_and_the_scores_stay() -> None:
    config = Keep(type="keep", input="bm25", min_score=0.5)
    one = candidates(["a", "b", "c", "d"], [2.0, 0.5, 0.49, -1.0])
    assert left(config, one) == [2.0, 0.5, None, None]
    assert left(config, candidates([], [])) == []


def test_similar_to_what_was_dropped_is_no_reason() -> None:
    # Cosines: b to a .96, c to a .6, c to b .8 (.96 * .6 + .28 * .8), d to c .8, d to a 0.
    vectors = np.array([[1, 0], [0.96, 0.28], [0.6, 0.8], [0, 1]], dtype=np.float32)
    assert novel(vectors, 0.9).tolist() == [True, False, True, True]
    # b is dropped; c is .6 to a, below .7, and d .8 to c, above it.
    assert novel(vectors, 0.7).tolist() == [True, False, True, False]
    assert novel(vectors, 1.0).tolist() == [True] * 4
    assert novel(vectors, -1.0).tolist() == [True, False, False, False]


@given(st.integers(0, 2**32 - 1), st.integers(0, 9), st.floats(-1, 1))
def test_what_is_kept_is_unlike_and_what_is_dropped_is_not(seed: int, n: int, most: float) -> None:
    drawn = np.random.default_rng(seed).normal(size=(n, 3))
    vectors: Vectors = as_wanted(drawn, str, normalise=True) if n else np.empty((0, 3), np.float32)
    kept: list[int] = []
    for number in range(n):
        cosines = [float(np.dot(vectors[number].astype(float), vectors[k])) for k in kept]
        if all(cosine <= most for cosine in cosines):
            kept.append(number)
    assert np.flatnonzero(novel(vectors, most)).tolist() == kept


def test_texts_are_compared_by_the_model(tmp_path: Path) -> None:
    model = save_static_model(tmp_path / "model", ["a dog pays ten crowns boats leave at six"])
    config = Keep(type="keep", input="bm25", max_similarity=0.9, min_score=1, model=str(model))
    texts = ["a dog pays", "boats leave", "a dog pays", "pays a dog", "at six"]
    one = candidates(texts, [5.0, 4.0, 3.0, 2.0, 0.5])
    # A mean of word vectors knows no order: both copies go; the last is below the score.
    assert left(config, one) == [5.0, 4.0, None, None, None]
    assert config.describe()["document"] == Encoder(str(model)).describe("document")
    plain = Keep(type="keep", input="bm25", min_score=1)
    assert (plain.describe(), plain.versions()) == ({}, {})
    assert set(config.versions()) == {"sentence-transformers", "torch", "transformers"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "keep would drop nothing; give min_score, max_similarity or both"),
        ({"min_score": 1, "model": "m"}, "model is only for max_similarity"),
    ],
)
def test_options_that_do_nothing_are_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Keep(type="keep", input="bm25", **options)  # type: ignore[arg-type]


RETRIEVERS: dict[str, Any] = {
    "bm25": {"type": "bm25", "chunking": "parts"},
    "tfidf": {"type": "tfidf", "chunking": "parts"},
    "hybrid": {"type": "rrf", "inputs": ["bm25", "tfidf"]},
    "late": {"type": "maxsim", "input": "hybrid", "candidates": 6},
    "again": {"type": "maxsim", "input": "late", "candidates": 3, "query_prompt": "query: "},
    "same": {"type": "maxsim", "input": "late", "candidates": 3},
    "joined": {"type": "rrf", "inputs": ["bm25", "late"], "k": 10, "candidates": 4},
}


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    made = Tiny(tmp_path / "tiny")
    made.config["retrievers"] = {**RETRIEVERS}
    return made.write()


def test_rankings_are_those_of_what_was_reranked(tiny: Tiny) -> None:
    tiny.run()
    late, bm25 = tiny.ranked("late", 5), tiny.ranked("bm25", 5)
    # The same model orders the first three as they are; nothing below them comes back.
    assert tiny.ranked("same", 5) == {query: rows[:3] for query, rows in late.items()}
    again = tiny.ranked("again", 5)
    for query, rows in again.items():
        assert {unit for unit, _ in rows} == {unit for unit, _ in late[query][:3]}
    assert any(again[query] != late[query][:3] for query in late)
    for query, rows in tiny.ranked("joined", 5).items():
        sums: dict[str, float] = defaultdict(float)
        for read in (bm25, late):
            for rank, (unit, _) in enumerate(read[query][:4], start=1):
                sums[unit] += 1 / (10 + rank)
        assert dict(rows) == pytest.approx(dict(sorted(sums.items(), key=lambda s: -s[1])[:5]))


@pytest.mark.parametrize(
    ("retrievers", "problem"),
    [
        (
            {"third": {"type": "maxsim", "input": "again"}},
            "'again' is itself a reranked retriever; there are three levels",
        ),
        (
            {"wide": {"type": "rrf", "inputs": ["bm25", "joined"]}},
            "'joined' is itself a fused retriever; there are three levels",
        ),
        (
            {"deep": {"type": "maxsim", "input": "joined"}},
            "'joined' is fused or reranked 3 times, the maximum; it cannot",
        ),
        (
            {"joined": {"type": "convex", "inputs": ["bm25", "late"], "weights": "tuned"}},
            "only base retrievers can have tuned weights; give numbers for reranked ones",
        ),
    ],
)
def test_no_further(tiny: Tiny, retrievers: dict[str, Any], problem: str) -> None:
    tiny.config["retrievers"].update(retrievers)
    tiny.write_config()
    with pytest.raises(ConfigError, match=problem):
        tiny.pipeline()


def test_how_alike_the_results_are(bm25_only: Tiny, static_model: Path) -> None:
    model = str(static_model)
    bm25_only.config["top_k"] = [1, 3]
    bm25_only.config["primary"] = "ndcg@3"
    bm25_only.configure("vectors", type="embedding", model=model, chunking="parts")
    bm25_only.configure("diverse", type="mmr", input="vectors", model=model, **{"lambda": 0.3})
    bm25_only.run()
    pipeline = bm25_only.pipeline()
    key = ArtifactKey.of("list_similarities", retriever="diverse", top_k=3)
    rows = pipeline.artifact(key).table().to_pylist()
    chunks = pipeline.artifact(chunks_key("parts")).table()
    ids = chunks.column("chunk_id").to_pylist()
    texts = dict(
        zip(ids, texts_to_index(pipeline.experiment, "parts", chunks).to_pylist(), strict=True)
    )
    for column, retriever in (("similarity", "diverse"), ("input_similarity", "vectors")):
        run = pipeline.artifact(run_key(pipeline.experiment, retriever, 3)).table().to_pylist()
        for row in rows:
            found = [r["chunk_id"] for r in run if r["query_id"] == row["query_id"]]
            vectors = Encoder(model).encode([texts[one] for one in found], kind="document")
            cosines = [float(a @ b) for a, b in combinations(vectors, 2)]
            assert row[column] == pytest.approx(np.mean(cosines), abs=1e-6)
    assert len(rows) == 6
    own, before = (np.mean([r[n] for r in rows]) for n in ("similarity", "input_similarity"))
    assert own < before
    # A list of one result has no pair, so there is no partition.
    assert matching(pipeline, "list_similarities/*") == {"list_similarities/diverse/3"}
    result = evaluated(pipeline)
    board = selected_rows(result, Selection(("diverse", "vectors"), (3,)))
    console = Console(width=80)
    with console.capture() as capture:
        sheet = similarity_sheet(result, board)
        assert sheet is not None
        console.print(sheet_view(sheet))
    _, table = capture.get().split("all pairs)")
    assert table.split()[-3:] == ["diverse", f"{own:.4f}", f"{before:.4f}"]
    assert bm25_only.run() == set()


def test_it_is_there_for_all_rerankers_or_none(bm25_only: Tiny) -> None:
    bm25_only.configure("late", type="maxsim", input="bm25")
    assert "list_similarities" not in {stage.name for stage in bm25_only.pipeline().stages()}
    bm25_only.configure("diverse", type="mmr", input="bm25")
    pipeline = bm25_only.pipeline()
    assert matching(pipeline, "list_similarities/*") == {
        f"list_similarities/{name}/{k}" for name in ("late", "diverse") for k in (3, 50)
    }
