from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.chunking import fixed, markdown, none, parent, recursive, semantic, sentences
from rag_assets.chunking.chunk_table import cut_documents, indexed_texts
from rag_assets.chunking.pieces import Cutter
from rag_assets.chunking.size import Size
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.models.unit_vectors import Vectors
from tests.chunking.chunk_checks import TEXTS, check_chunks, documents


def letter_vectors(texts: Sequence[str]) -> Vectors:
    """Stand-in for a model: how often each residue of code points occurs, length 1."""
    counts = np.ones((len(texts), 8), dtype=np.float32)
    for row, text in enumerate(texts):
        for character in text:
            counts[row, ord(character) % 8] += 1
    vectors: Vectors = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    return vectors


TINY, TOKENS = Size(7, 3), Size(6, 2, DEFAULT_MODEL)
SENTENCES = sentences.cutter(sentences=2, overlap=1, language="en")
SEMANTIC = semantic.cutter(letter_vectors, percentile=60, buffer=1, language="en")
CUTTERS: dict[str, Cutter] = {
    "none": none.cut,
    "recursive characters": recursive.cutter(TINY),
    "recursive tokens": recursive.cutter(TOKENS),
    "fixed characters": fixed.cutter(TINY),
    "fixed tokens": fixed.cutter(TOKENS),
    "sentences": SENTENCES,
    "markdown characters": markdown.cutter(Size(25), max_level=6),
    "markdown overlapping tokens": markdown.cutter(TOKENS, max_level=2),
    "semantic": SEMANTIC,
    "semantic limited": semantic.cutter(
        letter_vectors, percentile=60, buffer=0, language="en", limit=Size(9)
    ),
    "parent sections": parent.cutter(SENTENCES, markdown.cutter(Size(40), max_level=3)),
    "parent overlapping": parent.cutter(recursive.cutter(TINY), fixed.cutter(Size(20, 10))),
    "parent whole": parent.cutter(SEMANTIC, none.cut),
}


@pytest.mark.parametrize("name", CUTTERS)
@settings(deadline=None, max_examples=50)
@given(texts=st.lists(TEXTS, min_size=1, max_size=3))
def test_chunks_are_slices_and_hold_all_text(name: str, texts: list[str]) -> None:
    table = documents(*texts)
    chunks = cut_documents(table, CUTTERS[name])
    check_chunks(texts, chunks)
    assert chunks.equals(cut_documents(table, CUTTERS[name]))


@pytest.mark.parametrize("name", CUTTERS)
def test_a_blank_document_is_one_empty_chunk(name: str) -> None:
    chunks = cut_documents(documents("", title="Only a title"), CUTTERS[name])
    assert chunks.select(["start", "end", "text"]).to_pylist() == [
        {"start": 0, "end": 0, "text": ""}
    ]
    assert indexed_texts(chunks) == ["Only a title\n"]
    assert (chunks.column("parent_chunk_id").null_count == 0) == name.startswith("parent")


@pytest.mark.parametrize("name", CUTTERS)
def test_a_document_is_cut_alike_alone_and_among_others(name: str) -> None:
    texts = ["One. Two! Three?\n\nFour.", "# A\n\nfive\n\n## B\n\nsix seven", "", "x" * 30]
    together = cut_documents(documents(*texts), CUTTERS[name])
    alone = [cut_documents(documents(text), CUTTERS[name]) for text in texts]
    spans = [list(zip(t["start"].to_pylist(), t["end"].to_pylist(), strict=True)) for t in alone]
    assert [span for each in spans for span in each] == list(
        zip(together["start"].to_pylist(), together["end"].to_pylist(), strict=True)
    )


def test_no_documents_are_no_chunks() -> None:
    for cut in CUTTERS.values():
        assert cut_documents(documents(), cut).num_rows == 0


def test_more_documents_than_are_cut_at_once() -> None:
    texts = [f"Text {n}. More." for n in range(2_500)]
    chunks = cut_documents(documents(*texts), SENTENCES)
    check_chunks(texts, chunks)
    assert chunks.column("document_id").to_pylist() == [f"d{n}" for n in range(2_500)]
    assert isinstance(chunks, pa.Table)


def test_whole_documents_keep_their_id() -> None:
    chunks = cut_documents(documents("a", "b"), none.cut, whole=True)
    assert chunks.column("chunk_id").to_pylist() == ["d0", "d1"]
