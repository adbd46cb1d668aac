"""Each check on tables that have, and have not, what it looks for."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.evaluation.relevant_units_stage import relevant_units
from rag_assets.labels.health.duplicates import duplicate_documents, duplicate_queries
from rag_assets.labels.health.unusable_labels import (
    dangling_ids,
    judged_at_k,
    queries_without_relevant,
    unreachable_evidence,
)
from rag_assets.schemas import METRICS_SUMMARY
from rag_assets.sources.judgments import Quotes, Unlocated
from tests.labels.health.tables import chunks, documents, kinds, qrels, queries, reached

DOCUMENTS = documents({"a.md": "one two", "guides/b.md": "three four"})
QUERIES = queries({"q1": "t", "q2": "u"})


def test_dangling_ids() -> None:
    labels = qrels(
        ("q1", "e", "a.md", None, 1),
        ("q7", "e", "a.md", None, 1),
        ("q1", "f", "a.md#0-3", None, 1),
        ("q1", "g", "b", None, 1),
        ("q2", "h", "zzz", None, 1),
    )
    found = dangling_ids(labels, DOCUMENTS, QUERIES)
    assert kinds(found) == [
        ("unknown_id", "q7", "a.md"),
        ("id_level", "q1", "a.md#0-3"),
        ("id_level", "q1", "b"),
        ("unknown_id", "q2", "zzz"),
    ]
    messages = found.column("message").to_pylist()
    assert messages[1].endswith("it is the id of a chunk; probably meant: 'a.md'")
    assert messages[2].endswith("a file name without its end; probably meant: 'guides/b.md'")


def test_a_document_where_the_corpus_holds_chunks() -> None:
    found = dangling_ids(
        qrels(("q1", "e", "a.md", None, 1)), documents({"a.md#0-5": "t", "a.md#5-9": "t"}), QUERIES
    )
    assert kinds(found) == [("id_level", "q1", "a.md")]
    assert found.column("message").to_pylist()[0].endswith("probably meant: 'a.md#0-5'")


def test_an_ambiguous_stem_names_no_document() -> None:
    corpus = documents({"x/b.md": "t", "y/b.md": "t"})
    found = dangling_ids(qrels(("q1", "e", "b", None, 1)), corpus, QUERIES)
    assert kinds(found) == [("unknown_id", "q1", "b")]


def test_quotes() -> None:
    texts = Quotes(DOCUMENTS)
    assert texts.find("one two", 0) == (0, 7)
    checks = []
    for quote in ("one  two", "three", "five", "o"):
        found = texts.find(quote, 0)
        assert isinstance(found, Unlocated)
        checks.append(found.check)
    assert checks == ["quote_moved", "quote_moved", "quote_vanished", "quote_twice"]


def test_a_quote_that_stands_at_its_start_is_located_however_often_it_occurs() -> None:
    texts = Quotes(DOCUMENTS)  # "one two": at 0 and 6, not at 1
    assert [texts.find("o", 0, start) for start in (0, 6)] == [(0, 1), (6, 7)]
    for start in (1, None):
        found = texts.find("o", 0, start)
        assert isinstance(found, Unlocated)
        assert found.check == "quote_twice"


def test_evidence_that_no_chunk_covers_is_told_for_each_chunking() -> None:
    text = {"d": "Dogs pay ten crowns. Cats travel free."}
    labels = qrels(
        ("q", "dogs", "d", (0, 20), 1),
        ("q", "cats", "d", (21, 38), 1),
        ("q", "none", "d", (21, 38), 0),
    )
    whole, part = chunks(text, {"d": [(0, 38)]}), chunks(text, {"d": [(0, 20)]})
    judged = {
        "whole": relevant_units(labels, whole, "evidence"),
        "part": relevant_units(labels, part, "evidence"),
    }
    found = unreachable_evidence(judged, labels)
    assert kinds(found) == [("unreachable_evidence", "q", "d")]
    assert found.column("evidence_id").to_pylist() == ["cats"]
    assert "'part'" in found.column("message").to_pylist()[0]


def test_queries_without_a_relevant_document() -> None:
    asked = queries({q: q for q in ("good", "none", "zero", "meant")}, {"meant": ["unanswerable"]})
    impossible = pa.table(
        {
            **{n: queries({"squad": "s"}).column(n) for n in ("query_id", "text", "tags")},
            "metadata": ['{"is_impossible": true}'],
        }
    ).cast(asked.schema)
    labels = qrels(("good", "e", "a.md", None, 1), ("zero", "e", "a.md", None, 0))
    found = queries_without_relevant(labels, pa.concat_tables([asked, impossible]))
    assert kinds(found) == [
        ("no_relevant_document", "none", None),
        ("no_relevant_document", "zero", None),
    ]


def test_judged_at_k() -> None:
    counts = {c.name: 1 for c in METRICS_SUMMARY.columns if c.name.startswith("n_")}

    def row(split: str, top_k: int, judged: float | None) -> dict[str, object]:
        return {"split": split, "top_k": top_k, **counts, "weight": 1.0, "judged": judged}

    rows = [row("all", 1, 0.5), row("all", 10, 0.05), row("all", 20, None), row("dev", 1, 0.0)]
    found = judged_at_k({"bm25": METRICS_SUMMARY.from_rows(rows)}, 0.1)
    assert [message.split(" of ")[0] for message in found.column("message").to_pylist()] == [
        "bm25 at top_k 10: 5.0%",
        "bm25 at top_k 1 on dev: 0.0%",
    ]
    assert judged_at_k({"bm25": METRICS_SUMMARY.from_rows(rows)}, 0.0).num_rows == 0


def test_duplicate_documents_ignore_white_space_and_blanks() -> None:
    corpus = documents({"a": "x y", "b": "x\n y", "c": "X y", "d": " ", "e": ""})
    assert kinds(duplicate_documents(corpus)) == [("duplicate_document", None, "b")]


def test_duplicate_queries() -> None:
    asked = queries({"a": "When?", "b": "when?", "c": " When? ", "d": "Where?"})
    labels = qrels(("a", "e", "d1", None, 1), ("b", "other", "d1", None, 1))
    assert kinds(duplicate_queries(asked, labels)) == [
        ("duplicate_query", "b", None),
        ("conflicting_queries", "c", None),
    ]


def test_alternatives_and_two_evidences_are_different_judgments() -> None:
    asked = queries({"a": "When?", "b": "When?"})
    labels = qrels(
        ("a", "e", "d1", None, 1),
        ("a", "e", "d2", None, 1),
        ("b", "e", "d1", None, 1),
        ("b", "f", "d2", None, 1),
    )
    assert kinds(duplicate_queries(asked, labels)) == [("conflicting_queries", "b", None)]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.data())
def test_chunks_that_leave_out_no_character_reach_every_evidence(
    lengths: list[int], data: st.DataObject
) -> None:
    edges = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    start = data.draw(st.integers(0, edges[-1] - 1))
    end = data.draw(st.integers(start + 1, edges[-1]))
    pieces = list(pairwise(edges))
    cut = chunks({"d": "x" * edges[-1]}, {"d": pieces})
    assert reached(qrels(("q", "e", "d", (start, end), 1)), cut)["e"]
