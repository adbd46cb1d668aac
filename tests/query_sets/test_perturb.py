"""Perturbed queries: the words that change, and how far retrievers fall on them."""

from __future__ import annotations

import unicodedata
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from rag_assets.analysis.comparisons import robustness_rows, robustness_sheets
from rag_assets.assets.metadata import result_of
from rag_assets.pipeline.stored_evaluation import pairs_of
from rag_assets.query_sets.perturb import Kind, PerturbQuerySet
from rag_assets.query_sets.query_set import QuerySet
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.report.html import render
from rag_assets.testing import QuerySetContract
from rag_assets.testing.query_sets import TEXTS, variants_of
from tests.query_sets.queries import queries_of, texts_of
from tests.tiny_experiment import Tiny

TEXT = "Where does the ferry to Malmö close before the evening"
KINDS: tuple[Kind, ...] = get_args(Kind)


def perturbed(kind: str, text: str = TEXT, query_id: str = "q", **options: Any) -> str:
    block = {"strategy": "perturb", "kinds": kind, **options}
    return PerturbQuerySet.model_validate(block).perturbed(query_id, text)


def edits(a: str, b: str) -> int:
    """Return the distance of Damerau and Levenshtein, restricted: swapped neighbours are one."""
    table = np.add.outer(np.arange(len(a) + 1), np.arange(len(b) + 1))
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            costs = [table[i - 1, j] + 1, table[i, j - 1] + 1]
            costs.append(table[i - 1, j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                costs.append(table[i - 2, j - 2] + 1)
            table[i, j] = min(costs)
    return int(table[-1, -1])


class TestPerturbed(QuerySetContract):
    @pytest.fixture(params=KINDS)
    def options(self, request: pytest.FixtureRequest) -> dict[str, Any]:
        return {"strategy": "perturb", "kinds": request.param}

    def test_every_query_keeps_its_original(self, query_set: QuerySet) -> None:
        """It is the one kind that does not: one text stands in the place of each query."""
        texts = texts_of(variants_of(query_set, TEXTS))
        assert {query_id: len(each) for query_id, each in texts.items()} == dict.fromkeys(TEXTS, 1)
        assert texts["blank"] == [TEXTS["blank"]]


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("kind", ["typo", "keyboard", "case"])
def test_a_share_of_the_words_changes(kind: str, rate: float) -> None:
    """10 words; "the", "to" and "the" are too short for a typo."""
    words = perturbed(kind, rate=rate).split()
    changed = [(a, b) for a, b in zip(TEXT.split(), words, strict=True) if a != b]
    assert len(changed) == min(round(rate * 10), 7 if kind == "typo" else 10)
    for before, after in changed:
        if kind == "case":
            assert after == before.upper()
        else:
            assert edits(before, after) == 1
        if kind == "keyboard":
            ((a, b),) = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
            rows = "qwertyuiop asdfghjkl zxcvbnm"
            assert {a.lower(), b.lower()} in [set(two) for two in pairwise(rows)]
            assert a.isupper() == b.isupper()


def test_words_move_or_go_and_letters_lose_their_marks() -> None:
    assert Counter(perturbed("word_order", rate=0.3).split()) == Counter(TEXT.split())
    assert perturbed("word_order", "one two") == "two one"
    assert len(perturbed("missing_word", rate=0.3).split()) == 7
    assert perturbed("missing_word", "one two", rate=1.0) in {"one", "two"}
    assert perturbed("diacritics") == TEXT.replace("ö", "o")
    assert perturbed("diacritics", unicodedata.normalize("NFD", "éa")) == "ea"
    for kind in KINDS:
        assert perturbed(kind, "") == ""
    for kind, text in (("typo", "an ox"), ("word_order", "one"), ("missing_word", "one")):
        assert perturbed(kind, text) == text
    others = "\u304c \ud55c\uae00 \u0915\u094d\u0937"
    assert perturbed("diacritics", others) == others  # their marks are letters


def test_a_query_has_a_seed_of_its_own() -> None:
    texts = {str(n): TEXT for n in range(50)}
    query_set = PerturbQuerySet(strategy="perturb")
    first = texts_of(query_set.variants(queries_of(texts)).table)
    assert len({text for each in first.values() for text in each}) > 10
    more = texts_of(query_set.variants(queries_of({"new": "a new query", **texts})).table)
    assert {name: more[name] for name in first} == first
    assert perturbed("typo", seed=2) != perturbed("typo")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tiny, EvaluationTable]:
    """BM25 and a fusion that reads it, on typing errors, and one without an original."""
    tiny = Tiny(Path(tmp_path_factory.mktemp("perturbed")))
    tiny.config["query_sets"] = {
        "noisy": {"strategy": "perturb", "kinds": ["missing_word", "case"], "rate": 0.6}
    }
    bm25 = {"type": "bm25", "chunking": "parts", "analyzer": "english"}
    tiny.config["retrievers"] = {
        "bm25": bm25,
        "noisy": {**bm25, "query_set": "noisy"},
        "whole": {"type": "bm25", "chunking": "whole"},
        "rrf": {"type": "rrf", "inputs": ["bm25", "whole"]},
        "rrf_noisy": {"type": "rrf", "inputs": ["noisy-kinds-missing_word", "whole"]},
        "lonely": {**bm25, "k1": 2.0, "query_set": "noisy-kinds-case"},
    }
    tiny.config["baseline"] = "bm25"
    tiny.write().run()
    return tiny, EvaluationTable(tiny.artifacts, tiny.snapshot())


PAIRS = {
    "noisy-kinds-missing_word": "bm25",
    "noisy-kinds-case": "bm25",
    "rrf_noisy": "rrf",
    "lonely": None,
}


def test_each_falls_against_itself(evaluated: tuple[Tiny, EvaluationTable]) -> None:
    """The difference is the mean over queries of perturbed minus original."""
    tiny, result = evaluated
    assert tiny.pipeline().experiment.perturbed == PAIRS == result.perturbed
    rows = {row["retriever"]: row for row in robustness_rows(result)}
    cells, column = result.query_metrics(result.cutoff), result.primary.column
    for name, original in PAIRS.items():
        assert rows[name]["original"] == original
        if original is None:
            assert "difference" not in rows[name]
            continue
        own, other = (pairs_of(cells[one], "query_id", column) for one in (name, original))
        wanted = [own[q] - other[q] for q in other if other[q] is not None]
        assert rows[name]["difference"] == pytest.approx(sum(wanted) / len(wanted), abs=1e-12)
        assert rows[name]["low"] <= rows[name]["difference"] <= rows[name]["high"]
    assert rows["noisy-kinds-case"]["difference"] == 0  # the analyzer folds it
    assert rows["noisy-kinds-missing_word"]["difference"] < 0
    assert rows["rrf_noisy"]["kinds"] == "missing_word"
    assert rows["noisy-kinds-case"]["changed"] == result.queries.num_rows


def test_they_take_no_place_and_no_part_in_other_pairs(
    evaluated: tuple[Tiny, EvaluationTable],
) -> None:
    _, result = evaluated
    assert {row["retriever"] for row in result.ranked} == {"bm25", "whole", "rrf"}
    pairs = {frozenset((row["retriever_a"], row["retriever_b"])) for row in result.comparisons}
    asked = {frozenset(pair) for pair in (("bm25", "whole"), ("bm25", "rrf"), ("whole", "rrf"))}
    assert pairs == asked | {frozenset(pair) for pair in PAIRS.items() if None not in pair}


def test_all_faces_show_it(evaluated: tuple[Tiny, EvaluationTable]) -> None:
    tiny, result = evaluated
    (sheet,) = robustness_sheets(result)
    assert sheet.title == f"{result.primary} on perturbed queries minus on the original ones"
    assert sheet.notes == ["lonely: no retriever differs from it in the query set alone"]
    for face in (render(result), str(result), tiny.command("leaderboard", ".").output):
        assert sheet.title in face
        assert "missing_word" in face
    table = result_of(tiny.pipeline())[sheet.title].value
    assert {record.data["kinds"] for record in table.records} == {"case", "missing_word"}  # type: ignore[union-attr]
