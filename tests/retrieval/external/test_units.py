from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from rag_assets.called.hits import Hit
from rag_assets.evaluation.contexts_stage import contexts
from rag_assets.evaluation.units import text_digest
from rag_assets.retrieval.external.units import (
    located,
    notes,
    own_units,
    returned_spans,
    texts_not_located,
    unit_run,
)
from rag_assets.schemas import CHUNKS, DOCUMENTS, EXTERNAL_RANKINGS

TEXTS = {"a.md": "One two three. Four five six.", "b.md": "Seven. Seven.", "c.md": "Eight."}
CORPUS = DOCUMENTS.from_rows(
    [{"document_id": d, "title": d.upper(), "text": t, "metadata": "{}"} for d, t in TEXTS.items()]
)


def chunk(chunk_id: str, start: int, end: int, parent: str | None = None) -> dict[str, object]:
    span = {"parent_start": 0, "parent_end": 29} if parent else {}
    row = {"chunk_id": chunk_id, "document_id": "a.md", "start": start, "end": end}
    text = {"title": "A.MD", "text": TEXTS["a.md"][start:end], "heading_path": ""}
    return {**row, **text, "parent_chunk_id": parent, **span}


CUT = CHUNKS.from_rows([chunk("a.md#0-14", 0, 14, "a.md#0-29"), chunk("a.md#15-29", 15, 29)])


def rankings(**hits: Sequence[Hit]) -> pa.Table:
    rows: list[dict[str, object]] = [
        {"query_id": query, "rank": rank, **hit._asdict()}
        for query, own in hits.items()
        for rank, hit in enumerate(own, 1)
    ]
    return EXTERNAL_RANKINGS.from_rows(rows)


class Located(NamedTuple):
    table: pa.Table
    failures: dict[str, str]


def of(chunks: pa.Table | None = None, judge: str = "evidence", **hits: Sequence[Hit]) -> Located:
    return Located(*located(rankings(**hits), CORPUS, chunks, judge=judge))


def columns(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


SPAN = ("chunk_id", "unit_id", "start", "end", "located")


@pytest.mark.parametrize(
    ("hit", "expected"),
    [
        (Hit("a.md#0-14"), ("a.md#0-14", "a.md#0-29", 0, 14, "id")),
        (Hit("a.md#0-29"), ("a.md#0-14", "a.md#0-29", 0, 14, "id")),
        (Hit("a.md#15-29"), ("a.md#15-29", "a.md#15-29", 15, 29, "id")),
        (Hit("b.md"), ("b.md", "b.md", 0, 13, "id")),
        (Hit(document_id="b.md", start=2, end=9), ("b.md#2-9", "b.md#2-9", 2, 9, "span")),
        (Hit(text="Four five"), ("a.md#15-24", "a.md#15-24", 15, 24, "exact")),
        (
            Hit(text="four"),
            ("not-located#04efaf080f5a3e74", "not-located#04efaf080f5a3e74", 0, 0, "missing"),
        ),
    ],
)
def test_a_hit_is_a_chunk_a_document_a_span_or_a_text(hit: Hit, expected: tuple[Any, ...]) -> None:
    assert columns(of(CUT, q=[hit]).table, *SPAN) == [expected]


@pytest.mark.parametrize(
    ("hit", "problem"),
    [
        (Hit("z.md"), "returned the id 'z.md', which no chunk or document has"),
        (Hit(document_id="z.md", start=0, end=1), "a span of 'z.md', which is not a document"),
        (Hit(document_id="c.md", start=2, end=9), "characters 2 to 9 of 'c.md', which has 6"),
        (Hit(document_id="c.md", start=3, end=3), "characters 3 to 3 of 'c.md', which has 6"),
    ],
)
def test_what_does_not_exist_fails_its_query_and_no_other(hit: Hit, problem: str) -> None:
    found = of(bad=[Hit("a.md"), hit], good=[Hit("a.md")])
    assert list(found.failures) == ["bad"]
    assert problem in found.failures["bad"]
    assert columns(found.table, "query_id", "chunk_id") == [("good", "a.md")]


def test_without_a_chunking_ids_are_those_of_documents() -> None:
    assert "a.md#0-14" in of(q=[Hit("a.md#0-14")]).failures["q"]
    assert columns(of(q=[Hit("a.md")]).table, *SPAN) == [("a.md", "a.md", 0, 29, "id")]


def test_own_units_are_those_that_no_chunking_has() -> None:
    hits = [Hit("a.md#0-14"), Hit(text="One two three."), Hit(text="Seven."), Hit(text="nine")]
    found = of(CUT, q=hits, r=hits)
    units = own_units(found.table)
    ambiguous, missing = found.table["chunk_id"].to_pylist()[2:4]
    # The second hit is a chunk of the chunking, by its characters.
    assert columns(units, "chunk_id", "document_id", "title", "text") == [
        (ambiguous, "b.md", "B.MD", "Seven."),
        (missing, missing, "", "nine"),
    ]
    alone = own_units(of(q=[Hit(text="One two three.")]).table)
    assert columns(alone, "chunk_id", "start", "end", "text") == [
        ("a.md#0-14", 0, 14, "One two three.")
    ]


def test_what_was_not_located_is_returned_as_its_text() -> None:
    found = of(q=[Hit(text="One two"), Hit(text="Seven."), Hit(text="nine ten")])
    units = own_units(found.table)
    table = contexts(returned_spans(units), {})
    by_id = {row["chunk_id"]: row for row in table.to_pylist()}
    texts = {**TEXTS, **texts_not_located(units)}
    _, ambiguous, missing = found.table["chunk_id"].to_pylist()
    for chunk_id, text in (("a.md#0-7", "One two"), (ambiguous, "Seven."), (missing, "nine ten")):
        row = by_id[chunk_id]
        assert texts[row["document_id"]][row["start"] : row["end"]] == text
        assert row["text_digest"] == text_digest(text)


def test_equal_units_count_once_and_the_order_of_hits_is_the_ranking() -> None:
    hits = [
        Hit(text="One two", score=1.0),
        Hit(document_id="a.md", start=0, end=7, score=3.0),
        Hit("b.md", score=2.0),
    ]
    run = unit_run(of(q=hits).table, "evidence")
    assert columns(run, "rank", "unit_id", "score") == [(1, "a.md#0-7", 1.0), (2, "b.md", 0.5)]
    hits = [hit._replace(score=score) for hit, score in zip(hits, (9.0, 8.0, 8.0), strict=True)]
    run = unit_run(of(q=hits).table, "document")
    assert columns(run, "rank", "unit_id", "score", "chunk_id") == [
        (1, "a.md", 9.0, "a.md#0-7"),
        (2, "b.md", 8.0, "b.md"),
    ]


def test_where_given_chunks_are_judged_a_text_is_its_whole_document() -> None:
    found = of(judge="chunk", q=[Hit(text="Four five"), Hit(text="nine")])
    assert columns(found.table, *SPAN)[0] == ("a.md", "a.md", 0, 29, "exact")
    assert columns(unit_run(found.table, "chunk"), "unit_id")[0] == ("a.md",)


def test_people_read_how_many_texts_were_located() -> None:
    hits = [Hit(text=text) for text in ("One two", "Two", "One  two three.", "Seven.", "One")]

    def lines_of(found: Located) -> list[str]:
        return list(notes(Counter(found.table["located"].to_pylist())))

    lines = lines_of(of(q=hits))
    assert lines == [
        "60.0% of 5 returned texts were located in the documents, 1 of them after normalising "
        "white space and Unicode",
        "returned texts that occur at several places, judged by document only: 1",
        "returned texts that are in no document, judged by their document where it is known: 1",
    ]
    assert lines_of(of(q=[Hit("a.md")])) == []
