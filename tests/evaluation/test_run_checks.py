from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.evaluation.table_checks import disordered, unanswered, unknown_ids
from rag_assets.schemas import RUNS

QUERIES = pa.table({"query_id": ["q1", "q2"]})
CHUNKS = pa.table(
    {
        "chunk_id": ["a#0-5", "a#5-9", "b#0-5"],
        "document_id": ["a", "a", "b"],
        "parent_chunk_id": pa.array(["a#0-9", "a#0-9", None], pa.string()),
    }
)


def run(*rows: tuple[str, int, float, str, str, str]) -> pa.Table:
    names = RUNS.arrow().names
    return RUNS.from_rows([dict(zip(names, row, strict=True)) for row in rows])


SOUND = run(
    ("q1", 1, 2.0, "a#0-9", "a#5-9", "a"),
    ("q1", 2, 2.0, "b#0-5", "b#0-5", "b"),
    ("q2", 1, 0.5, "b#0-5", "b#0-5", "b"),
)


def test_a_sound_run_has_no_problem() -> None:
    assert unanswered(SOUND, QUERIES) == []
    assert disordered(SOUND) == []
    assert unknown_ids(SOUND, QUERIES, CHUNKS, "evidence") == []


def test_an_empty_run_answers_nobody() -> None:
    found = unanswered(RUNS.empty(), QUERIES, {"q2": "no answer"})
    assert found == ["query 'q1': nothing was retrieved", "query 'q2': the retriever failed"]
    assert disordered(RUNS.empty()) == []
    assert unknown_ids(RUNS.empty(), QUERIES, CHUNKS, "document") == []
    assert unknown_ids(RUNS.empty(), QUERIES, CHUNKS.slice(0, 0), "document") == []


@pytest.mark.parametrize(
    ("ranks", "scores", "problem"),
    [
        ([1, 3], [2.0, 1.0], "query 'q1': rank 3 stands where 2 must"),
        ([2, 3], [2.0, 1.0], "query 'q1': rank 2 stands where 1 must"),
        ([1, 1], [2.0, 1.0], "query 'q1': rank 1 stands where 2 must"),
        ([1, 2], [1.0, 2.0], "query 'q1': the score 2 at rank 2 is not below the one above"),
        ([1, 2], [1.0, float("nan")], "query 'q1': the score nan at rank 2 is not below"),
    ],
)
def test_ranks_and_scores_out_of_order(ranks: list[int], scores: list[float], problem: str) -> None:
    rows = zip(ranks, scores, ("a", "b"), strict=True)
    table = run(*[("q1", rank, score, item, item, item) for rank, score, item in rows])
    (found,) = disordered(table)
    assert found.startswith(problem)


@given(st.permutations(range(3)))
def test_the_order_of_rows_does_not_matter(order: list[int]) -> None:
    assert disordered(SOUND.take(order)) == []


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (("q9", 1, 1.0, "b#0-5", "b#0-5", "b"), "query_id 'q9' does not exist"),
        (("q1", 1, 1.0, "b#0-5", "c#0-5", "b"), "chunk_id 'c#0-5' does not exist"),
        (("q1", 1, 1.0, "a#0-5", "a#0-5", "a"), "unit_id 'a#0-5' does not exist"),
        (("q1", 1, 1.0, "b#0-5", "b#0-5", "a"), "chunk 'b#0-5' is not of document 'a'"),
    ],
)
def test_ids_that_do_not_exist(row: tuple[str, int, float, str, str, str], problem: str) -> None:
    assert unknown_ids(run(row), QUERIES, CHUNKS, "evidence") == [problem]
