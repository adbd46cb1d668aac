from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from rag_assets.chunking import parent, windows
from rag_assets.chunking.chunker import Size
from rag_assets.chunking.pieces import cut_documents
from rag_assets.evaluation.contexts_stage import contexts, of_retriever
from rag_assets.evaluation.returned_texts import ReturnedTexts
from rag_assets.evaluation.units import context_column
from rag_assets.schemas import DOCUMENTS
from tests.context_tokens import context_table
from tests.made_tables import by_query, query_table, run_table

TEXTS = {"a": "one two three four five six", "b": "seven eight", "c": ""}


def documents() -> pa.Table:
    return DOCUMENTS.from_rows(
        [
            {"document_id": name, "title": "a title of many words", "text": text, "metadata": "{}"}
            for name, text in TEXTS.items()
        ]
    )


def words(texts: Sequence[str]) -> list[int]:
    assert len(set(texts)) == len(texts), "a text is counted twice"
    return [len(text.split()) for text in texts]


SMALL = windows.window_cutter(Size(14))
LARGE = windows.window_cutter(Size(20))


def test_without_parents_it_is_the_chunk_and_no_title() -> None:
    chunks = cut_documents(documents(), SMALL)
    table = contexts(chunks, {}, words)
    assert table["n_tokens"].to_pylist() == [len(t.split()) for t in chunks["text"].to_pylist()]
    assert table["unit_id"].equals(chunks["chunk_id"])
    assert table["start"].equals(chunks["start"])


def test_with_parents_it_is_the_parent() -> None:
    chunks = cut_documents(documents(), parent.cutter(SMALL, LARGE))
    rows = contexts(chunks, TEXTS, words).to_pylist()
    assert [row["chunk_id"] for row in rows] == chunks["chunk_id"].to_pylist()
    assert len({row["unit_id"] for row in rows}) < len(rows)
    for row, chunk in zip(rows, chunks.to_pylist(), strict=True):
        text = TEXTS[row["document_id"]][row["start"] : row["end"]]
        assert chunk["text"] in text
        assert (row["unit_id"], row["start"]) == (chunk["parent_chunk_id"], chunk["parent_start"])
        assert row["n_tokens"] == len(text.split())


@pytest.mark.parametrize("judge", ["document", "chunk", "evidence"])
def test_a_fusion_of_chunks_and_of_their_parents(judge: str) -> None:
    """The same chunk stands for itself in one input, and for its parent in the other."""
    alone = cut_documents(documents(), windows.window_cutter(Size(14)))
    inside = cut_documents(
        documents(), parent.cutter(windows.window_cutter(Size(14)), windows.whole_texts)
    )
    shared = "a#0-14"
    assert shared in alone["chunk_id"].to_pylist()
    assert shared in inside["chunk_id"].to_pylist()
    tables = [contexts(chunks, TEXTS, words) for chunks in (alone, inside)]
    for order in (tables, tables[::-1]):
        found = of_retriever(order, judge)
        tokens = dict(zip(*(found[n].to_pylist() for n in ("context_id", "n_tokens")), strict=True))
        assert len(tokens) == found.num_rows
        if context_column(judge) == "chunk_id":
            assert tokens[shared] == 6
        else:
            assert (tokens[shared], tokens["a#0-27"]) == (3, 6)


def test_tokens_of_the_first_k() -> None:
    run = run_table({"q1": ["a", "b", "c"], "q2": ["c"]})
    table = context_table({"a": 100, "b": 20, "c": 3, "d": 7})
    cells = [("r", 1), ("r", 2), ("r", 5), ("s", 2)]
    found = ReturnedTexts(
        {"r": run, "s": run_table({"q1": ["d"]})},
        {"x": table, "y": context_table({"d": 1})},
        {"r": "x", "s": "y"},
        query_table(["q2", "q1", "q3"]),
        "unit_id",
    ).tokens(cells)
    assert list(found) == cells
    counts = {cell: [row["tokens"] for row in t.to_pylist()] for cell, t in found.items()}
    assert counts == {
        ("r", 1): [100, 3, 0],
        ("r", 2): [120, 3, 0],
        ("r", 5): [123, 3, 0],
        ("s", 2): [1, 0, 0],
    }
    assert list(by_query(found["r", 1])) == ["q1", "q2", "q3"]
