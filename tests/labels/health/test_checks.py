"""Checks of labels, one by one: unusable ones, filters and twins."""

from __future__ import annotations

import random
import re

import pyarrow as pa
import pytest

from rag_assets.evaluation.relevant_units_stage import relevant_units
from rag_assets.labels.duplicates import (
    duplicate_documents,
    duplicate_queries,
    near_duplicate_documents,
    near_duplicates,
    unjudged_twins,
)
from rag_assets.labels.findings import (
    ERROR,
    WARNING,
    dangling_ids,
    queries_without_relevant,
    unmatched_filters,
    unreachable_evidence,
)
from tests.labels.health.tables import chunks, documents, kinds, qrels, queries

DOCUMENTS = documents({"a.md": "one two", "guides/b.md": "three four"})
QUERIES = queries({"q1": "t", "q2": "u"})


def test_ids_of_another_level() -> None:
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
        ("unknown_id", "q1", "b"),
        ("unknown_id", "q2", "zzz"),
    ]
    messages = [one.message for one in found]
    assert messages[1].endswith("it is the id of a chunk; probably meant: 'a.md'")
    assert messages[2].endswith("(did you mean 'guides/b.md'?)")
    chunks = documents({"a.md#0-5": "t", "a.md#5-9": "t"})
    found = dangling_ids(qrels(("q1", "e", "a.md", None, 1)), chunks, QUERIES)
    assert found[0].message.endswith("(did you mean 'a.md#0-5'?)")


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
    assert [one.evidence_id for one in found] == ["cats"]
    assert "'part'" in found[0].message


def test_queries_without_a_relevant_document() -> None:
    names = ("good", "none", "zero", "meant", "squad")
    impossible = {"squad": {"is_impossible": True}}
    asked = queries(dict.fromkeys(names, "t"), {"meant": ["unanswerable"]}, impossible)
    labels = qrels(("good", "e", "a.md", None, 1), ("zero", "e", "a.md", None, 0))
    assert kinds(queries_without_relevant(labels, asked)) == [
        ("no_relevant_document", "none", None),
        ("no_relevant_document", "zero", None),
    ]


def test_equal_documents_and_queries() -> None:
    corpus = documents({"a": "x y", "b": "x\n y", "c": "X y", "d": " ", "e": ""})
    assert kinds(duplicate_documents(corpus)) == [("duplicate_document", None, "b")]
    words = [f"w{number}" for number in range(9)]
    texts = {
        "a": " ".join(words),
        "b": " ".join([*words[:4], "other", *words[5:]]),
        "c": "\u3000\t".join([" ", *words, "\n"]),
        "d": " ".join(words[:8]),
    }
    assert kinds(duplicate_documents(documents(texts))) == [("duplicate_document", None, "c")]
    asked = queries({"a": "When?", "b": "when?", "c": " When? ", "d": "Where?"})
    labels = qrels(("a", "e", "d1", None, 1), ("b", "other", "d1", None, 1))
    assert kinds(duplicate_queries(asked, labels)) == [
        ("duplicate_query", "b", None),
        ("conflicting_queries", "c", None),
    ]
    asked = queries({"a": "When?", "b": "When?"})
    labels = qrels(
        ("a", "e", "d1", None, 1),
        ("a", "e", "d2", None, 1),
        ("b", "e", "d1", None, 1),
        ("b", "f", "d2", None, 1),
    )
    assert kinds(duplicate_queries(asked, labels)) == [("conflicting_queries", "b", None)]


METADATA = {"a": {"year": 2024, "lang": "en"}, "b": {"year": 2023, "lang": ["cs", "de"]}}
FILTERS: dict[str, object] = {
    "sound": {"year": [2024, 2023], "lang": "de"},
    "field": {"yaer": 2024},
    "value": {"lang": ["en", "fr"]},
    "together": {"year": 2024, "lang": "cs"},
    "nothing": {},
    "no filter": "winter",
}


def found(*, used: bool) -> list[tuple[str, str | None, str]]:
    filters = {name: {"filter": one} for name, one in FILTERS.items()}
    asked = queries(dict.fromkeys(FILTERS, "t"), metadata=filters)
    corpus = documents(dict.fromkeys(METADATA, "t"), METADATA)
    findings = unmatched_filters(asked, corpus, used=used)
    return sorted((one.severity, one.query_id, one.message) for one in findings)


def test_fields_values_and_combinations_that_no_document_has() -> None:
    field = "no document has the field 'yaer' (did you mean 'year'?); allowed: lang, year"
    value, together = "no document has 'fr' under 'lang'", "no document matches the whole filter"
    unused = [(severity, name) for severity, name, _ in found(used=False)]
    assert unused == [(WARNING, "field"), (WARNING, "together"), (WARNING, "value")]
    used = found(used=True)
    assert [(severity, name) for severity, name, _ in used] == [
        (ERROR, "field"),
        (ERROR, "no filter"),
        (WARNING, "together"),
        (WARNING, "value"),
    ]
    assert used[0][2] == field
    assert "'no filter' has \"winter\"" in used[1][2]
    assert used[2][2].startswith(together)
    assert used[3][2] == value


WORDS = [f"w{number}" for number in range(500)]


def texts(*values: str) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.string())])


def windows(text: str) -> set[tuple[str, ...]]:
    words = [word for word in re.split(r"[\W_]+", text.lower()) if word]
    return {tuple(words[i : i + 5]) for i in range(max(1, len(words) - 4))} if words else set()


def edited(text: str, changes: int, rng: random.Random) -> str:
    words = text.split()
    for _ in range(changes):
        words[rng.randrange(len(words))] = rng.choice(WORDS)
    return " ".join(words)


def test_equals_the_comparison_of_all_pairs() -> None:
    rng = random.Random(3)
    corpus = [" ".join(rng.choices(WORDS, k=rng.randrange(3, 90))) for _ in range(60)]
    corpus += [edited(rng.choice(corpus[:60]), rng.randrange(3), rng) for _ in range(60)]
    sets = [windows(text) for text in corpus]
    expected = {
        (i, j): len(sets[i] & sets[j]) / len(sets[i] | sets[j])
        for i in range(len(sets))
        for j in range(i + 1, len(sets))
        if len(sets[i] & sets[j]) / len(sets[i] | sets[j]) >= 0.8
    }
    found = {(p.first, p.second): p.similarity for p in near_duplicates(texts(*corpus))}
    assert len(expected) > 20
    assert found == pytest.approx(expected)


def test_texts_that_are_alike_to_nothing_or_to_hundreds() -> None:
    found = near_duplicates(texts("The north quay opens.", "the NORTH quay, opens", "", " ", "..."))
    assert [(p.first, p.second, p.similarity) for p in found] == [(0, 1, 1.0)]
    assert near_duplicates(texts()) == []
    assert near_duplicates(texts("a b c")) == []
    assert near_duplicates(texts("a b c", "d e f g h", "a b c d e f g h")) == []
    # A large group of equal texts stays bounded.
    found = near_duplicates(texts(*["the same words in every text"] * 400))
    assert len(found) == 49 * 50 // 2 + 350 * 50
    assert {p.second for p in found} == set(range(1, 400))


BASE = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
CORPUS = documents(
    {
        "a": f"{BASE} A dog costs ten crowns.",
        "b": f"{BASE} A dog costs ten crowns!",
        "c": "something else altogether",
        "d": "something  else altogether",
    }
)


def test_unjudged_twins_and_near_duplicates() -> None:
    pairs = near_duplicates(CORPUS.column("text"))
    found = near_duplicate_documents(CORPUS, pairs)
    assert kinds(found) == [("near_duplicate_document", None, "b")]
    labels = qrels(
        ("whole", "e", "a", None, 1),
        ("judged", "e", "a", None, 1),
        ("judged", "f", "b", None, 0),
        ("not-relevant", "e", "a", None, 0),
        ("other", "e", "c", None, 1),
    )
    assert kinds(unjudged_twins(labels, CORPUS, pairs)) == [
        ("unjudged_twin", "whole", "b"),
        ("unjudged_twin", "other", "d"),
    ]
    start = len(BASE) + 1
    in_both = qrels(("q", "e", "a", (start, start + 22), 1))
    in_one = qrels(("q", "e", "a", (start, start + 23), 1))
    assert kinds(unjudged_twins(in_both, CORPUS, pairs)) == [("unjudged_twin", "q", "b")]
    assert kinds(unjudged_twins(in_one, CORPUS, pairs)) == []
