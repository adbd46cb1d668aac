"""Near-duplicates: against every pair compared exactly, and what follows for labels."""

from __future__ import annotations

import random
import re

import pyarrow as pa
import pytest

from rag_assets.labels.health.duplicates import near_duplicate_documents, unjudged_twins
from rag_assets.labels.health.near_duplicates import near_duplicates
from tests.labels.health.tables import documents, kinds, qrels

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


def test_case_and_punctuation_do_not_count_and_blanks_are_alike_to_nothing() -> None:
    found = near_duplicates(texts("The north quay opens.", "the NORTH quay, opens", "", " ", "..."))
    assert [(p.first, p.second, p.similarity) for p in found] == [(0, 1, 1.0)]


def test_no_text_and_one_text() -> None:
    assert near_duplicates(texts()) == []
    assert near_duplicates(texts("a b c")) == []


def test_the_window_ends_with_its_text() -> None:
    assert near_duplicates(texts("a b c", "d e f g h", "a b c d e f g h")) == []


def test_a_large_group_of_equal_texts_stays_bounded() -> None:
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


def test_near_duplicate_documents_leave_equal_ones_out() -> None:
    pairs = near_duplicates(CORPUS.column("text"))
    found = near_duplicate_documents(CORPUS, pairs)
    assert kinds(found) == [("near_duplicate_document", None, "b")]


def test_the_unjudged_twin_of_a_relevant_document_is_told() -> None:
    pairs = near_duplicates(CORPUS.column("text"))
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


def test_a_twin_must_hold_the_text_of_a_span() -> None:
    pairs = near_duplicates(CORPUS.column("text"))
    start = len(BASE) + 1
    in_both = qrels(("q", "e", "a", (start, start + 22), 1))
    in_one = qrels(("q", "e", "a", (start, start + 23), 1))
    assert kinds(unjudged_twins(in_both, CORPUS, pairs)) == [("unjudged_twin", "q", "b")]
    assert kinds(unjudged_twins(in_one, CORPUS, pairs)) == []
