from __future__ import annotations

import pyarrow as pa
import pytest

from rag_assets.answers.metrics_stage import golds_of
from rag_assets.evaluation.query_facts import facts_table
from rag_assets.schemas import QRELS


def facts(**answers: list[str]) -> pa.Table:
    return facts_table(list(answers), answers, {}, {}, {})


def labels(*rows: tuple[str, str, str, int | None, int | None, int]) -> pa.Table:
    return QRELS.from_rows([dict(zip(QRELS.arrow().names, row, strict=True)) for row in rows])


QRELS_OF_A = labels(
    ("a", "e1", "d#5-9", 2, 4, 1),
    ("a", "e2", "gone", None, None, 2),
    ("a", "e3", "d", 0, 4, 0),
)


@pytest.mark.parametrize(
    ("judge", "places"),
    [
        ("evidence", [("e1", "d#5-9", 2, 4), ("e2", "gone", None, None)]),
        ("document", [("e1", "d#5-9", None, None), ("e2", "gone", None, None)]),
    ],
)
def test_evidence_is_as_large_as_what_is_judged(
    judge: str, places: list[tuple[str, str, int | None, int | None]]
) -> None:
    table = golds_of(facts(a=[]), QRELS_OF_A, judge)
    (row,) = table.to_pylist()
    assert [tuple(place.values()) for place in row["evidence"]] == places


def test_what_is_answerable() -> None:
    """By a label, by an answer; not by a grade of 0; nothing is said of the last."""
    qrels = labels(("a", "e", "d", None, None, 1), ("c", "e", "d", None, None, 0))
    table = golds_of(facts(a=[], b=["x"], c=[], d=[]), qrels, "evidence")
    assert table["answerable"].to_pylist() == [True, True, False, None]
    assert table["query_id"].to_pylist() == ["a", "b", "c", "d"]
    without = golds_of(facts(a=[], b=["x"]), None, "evidence")
    assert without["answerable"].to_pylist() == [None, True]
