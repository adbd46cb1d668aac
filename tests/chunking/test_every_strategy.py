from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.chunking import markdown, parent, recursive, semantic, windows
from rag_assets.chunking.chunker import Size
from rag_assets.chunking.pieces import Cutter, cut_documents
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.testing import ChunkerContract
from rag_assets.testing.chunkers import check_chunks, documents, letter_vectors
from tests.chunking.chunk_checks import TEXTS

TINY, TOKENS = Size(7, 3), Size(6, 2, DEFAULT_MODEL)
SENTENCES = windows.sentence_cutter(2, 1, "en")
SEMANTIC = semantic.cutter(letter_vectors, percentile=60, buffer=1, language="en")
CUTTERS: dict[str, Cutter] = {
    "none": windows.whole_texts,
    "recursive characters": recursive.cutter(TINY),
    "recursive tokens": recursive.cutter(TOKENS),
    "fixed characters": windows.window_cutter(TINY),
    "fixed tokens": windows.window_cutter(TOKENS),
    "sentences": SENTENCES,
    "markdown characters": markdown.cutter(Size(25), max_level=6),
    "markdown overlapping tokens": markdown.cutter(TOKENS, max_level=2),
    "semantic": SEMANTIC,
    "semantic limited": semantic.cutter(
        letter_vectors, percentile=60, buffer=0, language="en", limit=Size(9)
    ),
    "parent sections": parent.cutter(SENTENCES, markdown.cutter(Size(40), max_level=3)),
    "parent overlapping": parent.cutter(
        recursive.cutter(TINY), windows.window_cutter(Size(20, 10))
    ),
    "parent whole": parent.cutter(SEMANTIC, windows.whole_texts),
}


@pytest.mark.parametrize("name", CUTTERS)
@settings(deadline=None, max_examples=50)
@given(texts=st.lists(TEXTS, min_size=1, max_size=3))
def test_chunks_are_slices_and_hold_all_text(name: str, texts: list[str]) -> None:
    table = documents(*texts)
    chunks = cut_documents(table, CUTTERS[name])
    check_chunks(texts, chunks)
    assert chunks.equals(cut_documents(table, CUTTERS[name]))


class TestEveryStrategy(ChunkerContract):
    @pytest.fixture(params=CUTTERS)
    def cut(self, request: pytest.FixtureRequest) -> Cutter:
        return CUTTERS[request.param]


@pytest.mark.parametrize("name", CUTTERS)
def test_a_blank_chunk_has_a_parent_where_others_have_one(name: str) -> None:
    chunks = cut_documents(documents(""), CUTTERS[name])
    assert (chunks.column("parent_chunk_id").null_count == 0) == name.startswith("parent")


def test_more_documents_than_are_cut_at_once() -> None:
    texts = [f"Text {n}. More." for n in range(2_500)]
    chunks = cut_documents(documents(*texts), SENTENCES)
    check_chunks(texts, chunks)
    assert chunks.column("document_id").to_pylist() == [f"d{n}" for n in range(2_500)]
    assert isinstance(chunks, pa.Table)


def test_whole_documents_keep_their_id() -> None:
    chunks = cut_documents(documents("a", "b"), windows.whole_texts, whole=True)
    assert chunks.column("chunk_id").to_pylist() == ["d0", "d1"]
