"""What ``keep`` drops, by hand and against a naive walk; and that readers see what is left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rag_assets.cli import main
from rag_assets.models.vectors import Vectors, to_unit_rows
from rag_assets.report.budget import budget_rows
from rag_assets.report.result import EvaluationResult
from rag_assets.retrieval.reranking.candidates import Candidates
from rag_assets.retrieval.reranking.diversity import Keep, novel
from rag_assets.retrieval.workspace import NO_WORKSPACE
from tests.static_model import save_static_model
from tests.tiny_experiment import DOCUMENTS, Tiny


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
    vectors: Vectors = to_unit_rows(drawn, str) if n else np.empty((0, 3), np.float32)
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


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "keep drops nothing; give min_score, max_similarity or both"),
        ({"min_score": 1, "model": "m"}, "model belongs to max_similarity"),
        ({"max_similarity": 1.5}, "less than or equal to 1"),
    ],
)
def test_options_that_do_nothing_are_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Keep(type="keep", input="bm25", **options)  # type: ignore[arg-type]


def test_metrics_tokens_and_budget_see_what_is_left(tmp_path: Path) -> None:
    model = save_static_model(tmp_path / "model", DOCUMENTS.values())
    tiny = Tiny(tmp_path / "tiny").write()
    tiny.config["retrievers"] = {
        "bm25": {"type": "bm25", "chunking": "parts"},
        "kept": {
            "type": "keep",
            "input": "bm25",
            "candidates": 50,
            "min_score": 1.0,
            "max_similarity": 0.8,
            "model": str(model),
        },
    }
    tiny.write_config()
    words = ["evaluate", str(tiny.folder), "--store", str(tiny.settings.store)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    result = EvaluationResult.current(tiny.artifacts)
    runs = {name: result.table(result.run_keys(name)[5]) for name in ("bm25", "kept")}
    scores = {
        name: {(row["query_id"], row["unit_id"]): row["score"] for row in table.to_pylist()}
        for name, table in runs.items()
    }
    assert 0 < len(scores["kept"]) < len(scores["bm25"])
    assert min(scores["kept"].values()) >= 1.0
    assert all(scores["bm25"].get(pair, score) == score for pair, score in scores["kept"].items())
    board = {row["retriever"]: row for row in result.leaderboard.to_pylist() if row["top_k"] == 5}
    assert board["kept"]["tokens"] < board["bm25"]["tokens"]
    assert board["kept"]["n_unjudged"] < board["bm25"]["n_unjudged"]
    rows = budget_rows(result, ("bm25", "kept"), 10_000, "all")
    tokens = {row["retriever"]: float(str(row["tokens"])) for row in rows}
    assert tokens["kept"] < tokens["bm25"]
