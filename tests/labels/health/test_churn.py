"""Labels followed from one version of a corpus to the next."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.labels.health.unusable_labels import Churn, label_churn
from tests.labels.health.tables import documents, kinds, qrels

FARE = "A dog costs 10 crowns."


def churn(before: str | None, after: dict[str, str], label: tuple[int, int] | None) -> Churn:
    old = documents({"d": before} if before is not None else {})
    return label_churn(qrels(("q", "e", "d", label, 1)), old, documents(after))


def spans(table: pa.Table) -> list[tuple[str, int | None, int | None]]:
    return [(row["document_id"], row["start"], row["end"]) for row in table.to_pylist()]


def test_an_unchanged_document_keeps_its_labels() -> None:
    found = churn(FARE, {"d": FARE}, (0, 22))
    assert (spans(found.qrels), kinds(found.findings)) == ([("d", 0, 22)], [])


def test_a_change_behind_the_span_is_none() -> None:
    found = churn(FARE, {"d": f"{FARE} New."}, (0, 22))
    assert (spans(found.qrels), kinds(found.findings)) == ([("d", 0, 22)], [])


def test_text_before_the_span_moves_it() -> None:
    found = churn(FARE, {"d": f"New. {FARE}"}, (0, 22))
    assert spans(found.qrels) == [("d", 5, 27)]
    assert kinds(found.findings) == [("evidence_moved", "q", "d")]


def test_text_that_went_to_another_document() -> None:
    found = churn(FARE, {"d": "Other.", "x": f"See: {FARE}"}, (0, 22))
    assert spans(found.qrels) == [("x", 5, 27)]
    assert kinds(found.findings) == [("evidence_moved", "q", "d")]


def test_text_that_is_gone_or_ambiguous_is_lost() -> None:
    for after in ({"d": "Other."}, {"d": f"x {FARE} {FARE}"}, {"d": ".", "x": FARE, "y": FARE}):
        found = churn(FARE, after, (0, 22))
        assert found.qrels.num_rows == 0
        assert kinds(found.findings) == [("evidence_changed", "q", "d")]


def test_a_document_that_vanished() -> None:
    for label in ((0, 22), None):
        found = churn(FARE, {"x": "Other."}, label)
        assert found.qrels.num_rows == 0
        assert kinds(found.findings) == [("document_vanished", "q", "d")]


def test_a_document_with_a_new_id_keeps_its_labels() -> None:
    for label in ((0, 22), None):
        found = churn(FARE, {"x": FARE}, label)
        assert spans(found.qrels) == [("x", *(label or (None, None)))]
        assert kinds(found.findings) == [("evidence_moved", "q", "d")]


def test_a_label_of_a_whole_document_stays_and_is_told() -> None:
    found = churn(FARE, {"d": "Other."}, None)
    assert spans(found.qrels) == [("d", None, None)]
    assert kinds(found.findings) == [("evidence_changed", "q", "d")]


@settings(max_examples=200, deadline=None)
@given(st.text("ab c", min_size=1, max_size=12), st.text("ab c", max_size=16), st.data())
def test_a_kept_span_always_has_its_old_text(before: str, after: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(before) - 1))
    end = data.draw(st.integers(start + 1, len(before)))
    found = churn(before, {"d": after}, (start, end))
    assert found.qrels.num_rows + found.findings.num_rows >= 1
    for _, new_start, new_end in spans(found.qrels):
        assert after[new_start:new_end] == before[start:end]
