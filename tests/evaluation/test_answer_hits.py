from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.evaluation.returned_texts import ReturnedTexts
from rag_assets.experiment import load_experiment
from rag_assets.schemas import RETRIEVER_CONTEXTS
from tests.evaluation.answer_text import holds
from tests.made_tables import query_table, run_table

WORDS = ("art", "party", "the", "ten", "crowns", "\u5317\u4eac", "-", ".")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
QUERIES = ("q1", "q2", "q3")
UNITS = ("a", "b", "c", "d")
CUTOFFS = (1, 2, 4)


def spans(places: dict[str, tuple[str, int, int]]) -> pa.Table:
    return RETRIEVER_CONTEXTS.from_rows(
        [
            {
                "context_id": unit,
                "document_id": document,
                "start": start,
                "end": end,
                "n_tokens": 0,
                "text_digest": "",
            }
            for unit, (document, start, end) in places.items()
        ]
    )


def answer_table(answers: dict[str, list[str]]) -> pa.Table:
    columns = {
        "query_id": pa.array(list(answers), pa.string()),
        "answers": pa.array(list(answers.values()), pa.list_(pa.string())),
    }
    return pa.table(columns)


def hits(
    rankings: dict[str, list[str]],
    texts: dict[str, str],
    answers: dict[str, list[str]],
) -> dict[int, dict[str, float | None]]:
    contexts = spans({unit: (unit, 0, len(text)) for unit, text in texts.items()})
    returned = ReturnedTexts(
        {"r": run_table(rankings)}, {"x": contexts}, {"r": "x"}, query_table(QUERIES), "unit_id"
    )
    cells = [("r", k) for k in CUTOFFS]
    found = returned.answer_hits(cells, texts, answer_table(answers))
    return {
        k: dict(zip(t["query_id"].to_pylist(), t["answer_hit"].to_pylist(), strict=True))
        for (_, k), t in found.items()
    }


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
    values = [
        ReturnedTexts(
            {"r": run_table({"q": ["c"]})},
            {"x": spans({"c": place})},
            {"r": "x"},
            query_table(["q"]),
            "chunk_id",
        )
        .answer_hits([("r", 1)], documents, answer_table({"q": ["10", "ten crowns"]}))["r", 1][
            "answer_hit"
        ]
        .to_pylist()
        for place in (own, outer)
    ]
    assert values == [[0.0], [1.0]]


def test_nobody_has_answers() -> None:
    assert hits({"q1": ["a"]}, dict.fromkeys(UNITS, "art"), {}) == {
        k: dict.fromkeys(QUERIES) for k in CUTOFFS
    }


@pytest.mark.real_data
def test_gold_paragraphs_of_squad(shared_data: Callable[[str], Path]) -> None:
    """Nearly every gold paragraph holds its answer; deleted punctuation glues the others."""
    file = shared_data("squad_dev_v2") / "dev-v2.0.rebuilt.json"
    dataset = load_experiment(file).dataset
    documents, queries = dataset.read_documents().table, dataset.read_queries().table
    texts = dict(
        zip(documents["document_id"].to_pylist(), documents["text"].to_pylist(), strict=True)
    )
    facts = {q["query_id"]: json.loads(q["metadata"]) for q in queries.to_pylist()}
    gold = {query: [fields["paragraph"]] for query, fields in facts.items()}
    answers = {query: fields.get("answers", []) for query, fields in facts.items()}
    contexts = spans({name: (name, 0, len(text)) for name, text in texts.items()})
    returned = ReturnedTexts(
        {"r": run_table(gold)}, {"x": contexts}, {"r": "x"}, queries, "unit_id"
    )
    table = returned.answer_hits([("r", 1)], texts, answer_table(answers))["r", 1]
    values = table["answer_hit"].to_pylist()
    assert (values.count(1.0), values.count(0.0), values.count(None)) == (5894, 34, 5945)
