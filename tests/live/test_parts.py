"""BM25, metrics and chunk, each alone."""

from __future__ import annotations

import re
from collections.abc import Callable

import pandas as pd
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from rag_assets import BM25, chunk, metrics
from rag_assets.errors import DataError, RagAssetsError, UsageError

FERRY = {
    "fares": "A single ticket costs 40 crowns. A dog needs a ticket of 10 crowns.",
    "storm": "The southern harbour closes in a storm.",
    "bikes": "A bike needs no ticket in summer.",
}


def test_texts_are_searched() -> None:
    found = BM25(FERRY).search("a ticket for a dog", 2)
    assert [one.id for one in found] == ["fares", "bikes"]
    assert found[0].score > found[1].score > 0
    assert found[0].text == FERRY["fares"]
    assert BM25(list(FERRY.values())).search("storm")[0].id == "1"
    assert BM25(FERRY).search("submarine") == []


def test_scores_are_those_of_rank_bm25() -> None:
    own = BM25(FERRY, variant="okapi", k1=1.5, analyzer="whitespace")
    other = BM25Okapi([text.split() for text in FERRY.values()], k1=1.5)
    scores = dict(zip(FERRY, other.get_scores(["needs", "storm."]), strict=True))
    found = {one.id: one.score for one in own.search("needs storm.")}
    assert found == pytest.approx({name: score for name, score in scores.items() if score > 0})


def test_titles_and_options_count() -> None:
    frame = pd.DataFrame({"doc_id": ["a"], "title": ["Whales"], "text": ["They sing."]})
    assert [one.id for one in BM25(frame).search("whales")] == ["a"]
    assert BM25(frame, title_weight=0).search("whales") == []
    grown = BM25(FERRY, expand={"type": "rm3", "documents": 1}).search("storm")
    assert grown[0].id == "storm"


def test_it_says_what_it_is() -> None:
    assert repr(BM25(FERRY, k1=2)) == "BM25(3 texts, k1=2.0, b=0.75, analyzer='auto')"
    assert repr(BM25()) == "BM25(k1=1.2, b=0.75, analyzer='auto')"


GRADES = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3), min_size=1)
SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 4).map(float), min_size=1)
NAMES = ["ndcg_cut_3", "map", "recip_rank", "P_2", "recall_3"]


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.sampled_from(["1", "2"]), st.tuples(SCORES, GRADES), min_size=1))
def test_values_are_those_of_pytrec_eval(
    pairs: dict[str, tuple[dict[str, float], dict[str, int]]],
) -> None:
    run = {query: scores for query, (scores, _) in pairs.items()}
    qrels = {query: grades for query, (_, grades) in pairs.items()}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {*NAMES, "ndcg_cut.3", "P.2", "recall.3"})
    values = theirs.evaluate(run)
    ours = metrics(run, qrels, NAMES, trec_mean=True)
    for row in ours.per_query:
        for name in NAMES:
            assert row[name] == pytest.approx(values[str(row["query_id"])][name]), name


def test_lists_are_rankings_and_numbers_are_ids() -> None:
    scores = metrics({1: [3, 4]}, {1: [4], "2": {3: 1}}, ["mrr", "hit_rate@1"])
    assert scores.means == {"mrr": 0.25, "hit_rate@1": 0.0}
    assert (scores.n_queries, scores.n_missing) == (2, 1)
    assert repr(scores).startswith("Scores(means={'mrr': 0.25, 'hit_rate@1': 0.0}, n_queries=2")


def test_a_text_is_cut() -> None:
    text = "One fish. Two fish. Red fish."
    pieces = chunk(text, "recursive", max_characters=20, overlap=0)
    assert [piece.text for piece in pieces] == ["One fish. Two fish.", "Red fish."]
    assert all(text[piece.start : piece.end] == piece.text for piece in pieces)
    assert [piece.text for piece in chunk(text, "none")] == [text]
    assert chunk("  ") == []
    (piece,) = chunk("# A\n\n## B\n\nText.\n", "markdown", max_characters=9, overlap=0)[-1:]
    assert piece.headings == ("A", "B")


WRONG: dict[str, tuple[Callable[[], object], type[RagAssetsError], str]] = {
    "an option": (lambda: BM25(k1=-1), UsageError, "`k1`: should be greater than or equal to 0"),
    "an unknown option": (lambda: BM25(k=1), UsageError, "unknown key 'k'"),
    "a text for texts": (lambda: BM25("a"), UsageError, "texts is a string 'a'; expected a list"),
    "a row": (lambda: BM25([{"id": "a"}]), DataError, "texts[0]: no 'text' for text; found: 'id'"),
    "no texts": (lambda: BM25().search("a"), UsageError, "BM25() has no texts to search"),
    "no k": (lambda: BM25(FERRY).search("a", 0), UsageError, "k is 0; expected a whole number"),
    "a run": (
        lambda: metrics([], {"q": ["d"]}, ["mrr"]),  # type: ignore[arg-type]
        UsageError,
        "run is list []; expected a dict of query id to a dict of document id to scores",
    ),
    "a score": (
        lambda: metrics({"q": {"d": "x"}}, {"q": ["d"]}, ["mrr"]),  # type: ignore[dict-item]
        UsageError,
        "run['q']['d'] is 'x'; a score is a finite number",
    ),
    "twice": (
        lambda: metrics({"q": ["d", "d"]}, {"q": ["d"]}, ["mrr"]),
        UsageError,
        "run['q'] holds 'd' twice",
    ),
    "a grade": (
        lambda: metrics({}, {"q": {"d": 0.5}}, ["mrr"]),
        UsageError,
        "qrels['q']['d'] is 0.5; a grade is a whole number",
    ),
    "no label": (lambda: metrics({}, {}, ["mrr"]), UsageError, "qrels holds no judgment"),
    "a metric": (lambda: metrics({}, {"q": ["d"]}, ["mmr"]), UsageError, "did you mean 'mrr'?"),
    "one metric": (lambda: metrics({}, {"q": ["d"]}, "mrr"), UsageError, "names is a text, 'mrr'"),
    "a strategy": (lambda: chunk("a", "recursiv"), UsageError, "(did you mean 'recursive'?)"),
    "a size": (
        lambda: chunk("a", max_characters=20),
        UsageError,
        "overlap 30 must be less than max_characters 20",
    ),
    "an unknown size": (lambda: chunk("a", max_chars=2), UsageError, "unknown key 'max_chars'"),
    "no text": (lambda: chunk(3), UsageError, "text is int 3; expected one text"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_says_what_was_given_and_what_is_expected(case: str) -> None:
    call, kind, message = WRONG[case]
    with pytest.raises(kind, match=re.escape(message)):
        call()
