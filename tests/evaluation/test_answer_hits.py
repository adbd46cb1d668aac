"""Answers in retrieved texts, and answerability by the best score."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rag_assets.evaluation.answerability_stage import Query, answerability
from rag_assets.evaluation.returned_texts import GoldAnswers, bounded, normalised, returned_texts
from rag_assets.experiment import load_experiment
from rag_assets.schemas import ANSWERABILITY, RETRIEVER_CONTEXTS, column_values
from tests.evaluation.answer_text import holds
from tests.made_tables import run_table

WORDS = ("art", "party", "the", "ten", "crowns", "\u5317\u4eac", "-", ".")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
QUERIES = ("q1", "q2", "q3")
UNITS = ("a", "b", "c", "d")
CUTOFFS = (1, 2, 4)


def spans(places: dict[str, tuple[str, int, int]]) -> pa.Table:
    names = ("context_id", "document_id", "start", "end", "text_digest")
    rows = [(unit, *place, "") for unit, place in places.items()]
    return RETRIEVER_CONTEXTS.from_rows([dict(zip(names, row, strict=True)) for row in rows])


def answer_table(answers: dict[str, list[str]]) -> pa.Table:
    columns = {
        "query_id": pa.array(list(answers), pa.string()),
        "answers": pa.array(list(answers.values()), pa.list_(pa.string())),
    }
    return pa.table(columns)


def hits(
    rankings: dict[str, list[str]], texts: dict[str, str], answers: dict[str, list[str]]
) -> dict[int, dict[str, float | None]]:
    contexts = spans({unit: (unit, 0, len(text)) for unit, text in texts.items()})
    gold = GoldAnswers(texts, answer_table(answers))
    found: dict[int, dict[str, float | None]] = {}
    for k in CUTOFFS:
        run = run_table({query: units[:k] for query, units in rankings.items()})
        values = gold.hits(returned_texts(run, contexts, "unit_id"), QUERIES).to_pylist()
        found[k] = dict(zip(QUERIES, values, strict=True))
    return found


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(st.sampled_from(QUERIES), st.lists(st.sampled_from(UNITS), unique=True)),
    st.fixed_dictionaries({unit: TEXTS for unit in UNITS}),
    st.dictionaries(st.sampled_from(QUERIES), st.lists(TEXTS, max_size=2)),
)
def test_equals_looking_at_every_text(
    rankings: dict[str, list[str]], texts: dict[str, str], answers: dict[str, list[str]]
) -> None:
    found = hits(rankings, texts, answers)
    for k in CUTOFFS:
        for query in QUERIES:
            wanted = [a for a in answers.get(query, []) if holds(a, a)]
            first = [texts[unit] for unit in rankings.get(query, [])[:k]]
            expected = float(any(holds(text, a) for text in first for a in wanted))
            assert found[k][query] == (expected if wanted else None)


def test_the_text_that_counts_is_the_parent_s() -> None:
    documents = {"d": "The fare is ten crowns for a dog."}
    at = documents["d"].index("for a dog")
    own, outer = ("d", at, len(documents["d"])), ("d", 0, len(documents["d"]))
    run, gold = run_table({"q": ["c"]}), answer_table({"q": ["10", "ten crowns"]})
    answers = GoldAnswers(documents, gold)
    texts = [returned_texts(run, spans({"c": place}), "chunk_id") for place in (own, outer)]
    assert [answers.hits(returned, ["q"]).to_pylist() for returned in texts] == [[0.0], [1.0]]


@pytest.mark.real_data
def test_gold_paragraphs_of_squad(shared_data: Callable[[str], Path]) -> None:
    """Nearly every gold paragraph holds its answer; deleted punctuation glues the others."""
    file = shared_data("squad_dev_v2") / "dev-v2.0.rebuilt.json"
    dataset = load_experiment(file).dataset
    texts = dict(column_values(dataset.read_documents().table, "document_id", "text"))
    metadata = column_values(dataset.read_queries().table, "query_id", "metadata")
    facts = {query: json.loads(fields) for query, fields in metadata}
    gold = {query: [fields["paragraph"]] for query, fields in facts.items()}
    answers = {query: fields.get("answers", []) for query, fields in facts.items()}
    contexts = spans({name: (name, 0, len(text)) for name, text in texts.items()})
    returned = returned_texts(run_table(gold), contexts, "unit_id")
    values = GoldAnswers(texts, answer_table(answers)).hits(returned, list(facts)).to_pylist()
    assert (values.count(1.0), values.count(0.0), values.count(None)) == (5894, 34, 5945)


SCORES = st.one_of(st.none(), st.integers(-4, 4).map(lambda n: n / 4))
SETS = st.lists(st.tuples(SCORES, st.booleans()).map(lambda pair: Query(*pair)), min_size=1)


def row_of(queries: list[Query]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = answerability("r", {"all": queries}).to_pylist()
    return rows[0]


def kept(queries: list[Query], threshold: float, answerable: bool) -> float:
    flags = [
        q.score is not None and q.score >= threshold for q in queries if q.answerable == answerable
    ]
    return sum(flags) / len(flags)


@settings(max_examples=60, deadline=None)
@given(SETS)
def test_equals_scikit_learn_and_a_search_of_every_threshold(queries: list[Query]) -> None:
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score

    if len({query.answerable for query in queries}) < 2:
        assert answerability("r", {"all": queries}).equals(ANSWERABILITY.empty())
        return
    row = row_of(queries)
    truth = [query.answerable for query in queries]
    scores = [-9.0 if query.score is None else query.score for query in queries]
    assert row["auroc"] == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)
    observed = sorted({query.score for query in queries if query.score is not None})
    if not observed:
        assert (row["threshold"], row["coverage"], row["rejected"]) == (None, None, None)
        return
    balanced = {t: balanced_accuracy_score(truth, [s >= t for s in scores]) for t in observed}
    best = max(balanced.values())
    assert row["threshold"] == min(t for t, value in balanced.items() if math.isclose(value, best))
    assert row["coverage"] == kept(queries, row["threshold"], True)
    assert row["rejected"] == pytest.approx(1 - kept(queries, row["threshold"], False))
    assert (row["coverage"] + row["rejected"]) / 2 == pytest.approx(best)


def test_a_query_without_hits_is_below_every_other_and_never_answered() -> None:
    row = row_of([Query(-5.0, True), Query(None, True), Query(None, False)])
    assert row["auroc"] == (1 + 0.5) / 2
    assert (row["threshold"], row["coverage"], row["rejected"]) == (-5.0, 0.5, 1.0)


def test_the_threshold_of_test_is_chosen_on_dev() -> None:
    dev = [Query(3.0, True), Query(2.0, True), Query(1.0, False)]
    test = [Query(9.0, True), Query(1.5, True), Query(8.0, False), Query(0.0, False)]
    rows = answerability("r", {"test": test, "dev": dev}).to_pylist()
    names = ("split", "threshold", "threshold_from", "coverage", "rejected", "auroc")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("dev", 2.0, "dev", 1.0, 1.0, 1.0),
        ("test", 2.0, "dev", 0.5, 0.5, 3 / 4),
    ]


def test_a_split_that_lacks_one_kind() -> None:
    splits = {"dev": [Query(1.0, True)], "test": [Query(1.0, True), Query(0.0, False)]}
    dev, test = answerability("r", splits).to_pylist()
    assert (dev["auroc"], dev["threshold"], dev["rejected"]) == (None, None, None)
    assert test["auroc"] == 1.0
    assert (test["threshold"], test["coverage"], test["rejected"]) == (None, None, None)


ANY_WORDS = st.sampled_from(
    ["art", "party", "the", "a", "an", "Paris", "1914", "\u5317", "\u4eac", "\u0e01", "x"]
)
GLUE = st.sampled_from([" ", "  ", "\n", "-", ".", "\u3002", "\u2013", "'", ""])
ANY_TEXTS = st.lists(st.tuples(ANY_WORDS, GLUE)).map(lambda parts: "".join(w + g for w, g in parts))


def has_sublist(words: list[str], wanted: list[str]) -> bool:
    """The rule once more, by lists of words."""
    starts = range(len(words) - len(wanted) + 1)
    return bool(wanted) and any(words[i : i + len(wanted)] == wanted for i in starts)


@given(st.one_of(ANY_TEXTS, st.text()), st.one_of(ANY_TEXTS, st.text(max_size=8)))
@example("\u0130 \u1e9e", "\u0130")
def test_an_answer_is_found_as_whole_words(text: str, answer: str) -> None:
    expected = has_sublist(normalised(text).split(" "), normalised(answer).split())
    assert holds(text, answer) == expected


@given(st.one_of(ANY_TEXTS, st.text()))
def test_normalising_again_changes_nothing(text: str) -> None:
    once = normalised(text)
    assert normalised(once) == once
    assert once == " ".join(once.split())
    assert not {"a", "an", "the"} & set(once.split())


def test_as_squad_does() -> None:
    assert normalised("The U.S., an  ally\tof\nthe U.K.!") == "us ally of uk"
    assert normalised("theatre of a thespian") == "theatre of thespian"
    assert normalised("$40-million") == "40million"
    assert bounded(normalised("Art")) not in bounded(normalised("Party"))
