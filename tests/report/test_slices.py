"""Slices by tag, by a query's field and by a field of the relevant documents."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa
import pytest

from rag_assets.errors import UsageError
from rag_assets.report.slices import members_by, slices
from rag_assets.schemas import DOCUMENTS, QRELS, QUERIES, QUERY_METRICS

EQUAL = {"q1": 1.0, "q2": 1.0, "q3": 1.0}
META = {"d1": {"lang": "en", "year": 2020}, "d2": {"lang": ["en", "sv"]}, "d3": {"lang": None}}


def table_of() -> Callable[[str], pa.Table]:
    queries = [("q1", ["a"], {"team": "x"}), ("q2", ["a", "b"], {"team": "y"}), ("q3", [], {})]
    judged = [("q1", "d1", 1), ("q2", "d2", 2), ("q2", "d1", 0), ("q3", "d3", 1)]
    tables = {
        "documents": DOCUMENTS.from_rows(
            [
                {"document_id": d, "title": "", "text": "", "metadata": json.dumps(m)}
                for d, m in META.items()
            ]
        ),
        "queries": QUERIES.from_rows(
            [
                {"query_id": q, "text": "", "tags": t, "metadata": json.dumps(m)}
                for q, t, m in queries
            ]
        ),
        "qrels": QRELS.from_rows(
            [
                {
                    "query_id": q,
                    "evidence_id": d,
                    "document_id": d,
                    "start": None,
                    "end": None,
                    "grade": g,
                }
                for q, d, g in judged
            ]
        ),
    }
    return tables.__getitem__


def cell(*values: float | None) -> pa.Table:
    counts = {"n_relevant": 1, "n_unreachable": 0, "n_retrieved": 1, "n_judged": 1, "failed": False}
    rows = [{"query_id": f"q{n}", **counts, "mrr": v} for n, v in enumerate(values, 1)]
    schema = pa.schema([*QUERY_METRICS.arrow(), pa.field("mrr", pa.float64())])
    return pa.Table.from_pylist(rows, schema=schema)


@pytest.mark.parametrize(
    ("by", "members"),
    [
        ("tag", {"a": {"q1", "q2"}, "b": {"q2"}}),
        ("query.team", {"x": {"q1"}, "y": {"q2"}}),
        # d1 is judged not relevant for q2, so q2 is in none of its slices.
        ("document.lang", {"en": {"q1", "q2"}, "sv": {"q2"}}),
        ("document.year", {"2020": {"q1"}}),
    ],
)
def test_members(by: str, members: dict[str, set[str]]) -> None:
    assert members_by(by, table_of()) == members


def test_means() -> None:
    """en: q1, q2: (1 + 0.5) / 2 = 0.75 and (0 + 1) / 2 = 0.5; sv: q2 alone."""
    found = slices(
        {"r": cell(1.0, 0.5, 0.0), "s": cell(0.0, 1.0, 1.0)},
        members_by("document.lang", table_of()),
        "mrr",
        EQUAL,
    )
    assert [(one.value, one.n_queries, one.means) for one in found] == [
        ("en", 2, {"r": 0.75, "s": 0.5}),
        ("sv", 1, {"r": 0.5, "s": 1.0}),
    ]


def test_unanswerable_queries_are_not_counted() -> None:
    found = slices({"r": cell(None, 0.5, 0.0)}, {"all": {"q1", "q2"}, "none": {"q1"}}, "mrr", EQUAL)
    assert [(one.value, one.n_queries, one.means) for one in found] == [("all", 1, {"r": 0.5})]


def test_weights_and_only_the_queries_of_the_split() -> None:
    """q1 counts 3, q2 once, q3 is in the other split: (3 x 1 + 0.5) / 4."""
    weights = {"q1": 3.0, "q2": 1.0}
    (one,) = slices({"r": cell(1.0, 0.5, 0.0)}, {"v": {"q1", "q2", "q3"}}, "mrr", weights)
    assert (one.n_queries, one.means) == (2, {"r": 0.875})


def test_a_retriever_that_failed_on_all_queries_has_no_mean() -> None:
    cells = {"r": cell(None, None), "s": cell(0.5, 0.0)}
    (one,) = slices(cells, {"v": {"q1", "q2"}}, "mrr", EQUAL)
    assert one.means == {"r": None, "s": 0.25}


@pytest.mark.parametrize(
    ("by", "problem"),
    [
        ("colour", "slices by 'colour'; allowed: tag, query.<field>, document.<field>"),
        ("document.", "slices by 'document.'; allowed: tag, query.<field>, document.<field>"),
        (
            "document.lnag",
            "no document has the field 'lnag' (did you mean 'lang'?); allowed: lang, year",
        ),
        ("query.lang", "no query has the field 'lang'; allowed: team"),
    ],
)
def test_what_there_is_no_slice_by(by: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        members_by(by, table_of())
    assert str(caught.value) == problem
