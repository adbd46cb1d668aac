"""What every strategy for query sets keeps to."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rag_assets.llm.client import Completion, Failed
from rag_assets.query_sets.query_set import (
    QUERY_SET_TYPES,
    ComputedQuerySet,
    PromptedQuerySet,
    QuerySet,
)
from rag_assets.query_sets.variants import folded, variant_table
from rag_assets.schemas import QUERIES, QUERY_VARIANTS

TEXTS = {
    "plain": "when does the southern harbour close",
    "blank": "  ",
    "empty": "",
    "hostile": "\u202eright\u202c \ufeff\u200b e\u0301 \U0001f469\u200d\U0001f52c {query} %s",
    "\u6e2f": "\u6e2f\u306f\u3044\u3064\u9589\u307e\u308a\u307e\u3059\u304b\u3002",
    "long": "wind harbour ticket ferry " * 500,
}
ANSWERS = (
    "",
    "  ",
    "1. one\n2. two\n2. two",
    '["a", "b"]',
    "{",
    "\u6e2f",
    "x" * 10_000,
    "- a\n- b",
)


class QuerySetContract:
    """The original stays the first variant; no text occurs twice; equal queries, equal variants."""

    @pytest.fixture
    def options(self, tmp_path: Path) -> Mapping[str, Any]:
        """Give the block of an ``experiment.yaml``, such as ``{"strategy": "hyde"}``."""
        raise NotImplementedError

    @pytest.fixture
    def query_set(self, options: Mapping[str, Any]) -> QuerySet:
        """Give the options, read."""
        return QUERY_SET_TYPES[options["strategy"]].model_validate(dict(options))

    def test_every_query_keeps_its_original(self, query_set: QuerySet) -> None:
        """Variant 0 is the query as it was asked, and the others are numbered."""
        rows = variants_of(query_set, TEXTS).to_pylist()
        by_query = {q: list(group) for q, group in groupby(rows, lambda row: row["query_id"])}
        assert set(by_query) == set(TEXTS)
        for query, variants in by_query.items():
            assert [row["variant"] for row in variants] == list(range(len(variants)))
            assert variants[0]["text"] == TEXTS[query]

    def test_no_variant_is_blank_or_stands_twice(self, query_set: QuerySet) -> None:
        """It would only count the same ranking twice."""
        rows = variants_of(query_set, TEXTS).to_pylist()
        for _, variants in groupby(rows, lambda row: row["query_id"]):
            texts = [folded(row["text"]) for row in variants]
            assert len(set(texts)) == len(texts)
            assert all(texts[1:])

    def test_equal_queries_give_equal_variants(self, query_set: QuerySet) -> None:
        """Also where they come in another order."""
        turned = variants_of(query_set, dict(reversed(TEXTS.items())))
        order = [("query_id", "ascending"), ("variant", "ascending")]
        first = variants_of(query_set, TEXTS)
        assert first.equals(variants_of(query_set, TEXTS))
        assert first.sort_by(order).equals(turned.sort_by(order))

    def test_a_prompt_has_a_place_for_the_query(self, query_set: QuerySet) -> None:
        """And whatever a model answers is texts, or a reason."""
        if not isinstance(query_set, PromptedQuerySet):
            pytest.skip("no model is asked")
        strategy = query_set.prompted()
        assert strategy.template.filled({**strategy.values, "query": "a harbour"})
        for text in ANSWERS:
            for reason in ("stop", "length", "refusal"):
                strategy.parse(Completion(text, None, None, reason), "a harbour")
        strategy.parse(Failed("no answer"), "a harbour")


def variants_of(query_set: QuerySet, texts: Mapping[str, str]) -> pa.Table:
    """Return the variants of queries; a language model says :data:`ANSWERS`, each in turn."""
    rows: list[dict[str, object]] = [
        {"query_id": query, "text": text, "tags": [], "metadata": "{}"}
        for query, text in texts.items()
    ]
    queries = QUERIES.from_rows(rows)
    if isinstance(query_set, ComputedQuerySet):
        return QUERY_VARIANTS.check(query_set.variants(queries).table)
    if not isinstance(query_set, PromptedQuerySet):
        raise TypeError(f"{query_set.strategy} is of no family")
    strategy = query_set.prompted()
    parsed = {
        query: strategy.parse(Completion(answer, None, None, "stop"), texts[query])
        for query, answer in zip(sorted(texts), ANSWERS, strict=False)
    }
    usable = {query: list(texts) for query, texts in parsed.items() if isinstance(texts, list)}
    return variant_table(queries, usable)
