from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from rag_assets.chunking import none, recursive
from rag_assets.chunking.spans import chunks_table, indexed_texts
from rag_assets.embedding.models import DEFAULT_MODEL, load_tokenizer, resolve_model
from rag_assets.schemas import DOCUMENTS

PIECES = [
    "word",
    "Sentence one. ",
    "A longer sentence, with commas; and more! ",
    " ",
    "\n",
    "\n\n",
    "\t",
    "\u00a0",
    "e\u0301",  # a letter and a combining accent
    "na\u00efve caf\u00e9 ",
    "\U0001f600",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # a family: five code points, one glyph
    "\U0001f1e9\U0001f1ea",  # a flag
    "\u4e2d\u6587\u6bb5\u843d\u3002",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 ",
    "# Title\n",
    "| a | b |\n",
    "unbelievablylongwordwithoutanyblank",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def documents(texts: Sequence[str], title: str = "") -> pa.Table:
    return DOCUMENTS.from_rows(
        [
            {"document_id": f"d{n}", "title": title, "text": text, "metadata": "{}"}
            for n, text in enumerate(texts)
        ]
    )


@cache
def model_folder() -> str:
    """Where the default model lies; by its name it would be verified, at each cut."""
    return str(resolve_model(DEFAULT_MODEL).path)


@cache
def tokenizer() -> Tokenizer:
    return load_tokenizer(model_folder())


def count_tokens(text: str) -> int:
    return len(tokenizer().encode(text, add_special_tokens=False).ids)


def cut(texts: Sequence[str], max_tokens: int, overlap: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = recursive.cut(
        documents(texts), max_tokens=max_tokens, overlap=overlap, tokenizer=model_folder()
    ).to_pylist()
    return rows


@settings(max_examples=40, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=5), st.integers(2, 20), st.integers(0, 1))
def test_recursive_chunks_are_spans_that_cover_all_text(
    texts: list[str], max_tokens: int, overlapping: int
) -> None:
    overlap = overlapping * (max_tokens // 2)
    rows = cut(texts, max_tokens, overlap)
    ids = [row["chunk_id"] for row in rows]
    assert len(set(ids)) == len(ids)
    for n, text in enumerate(texts):
        own = [row for row in rows if row["document_id"] == f"d{n}"]
        assert own
        spans = [(int(str(row["start"])), int(str(row["end"]))) for row in own]
        assert spans == sorted(spans)
        for row, (start, end) in zip(own, spans, strict=True):
            assert row["text"] == text[start:end]
            assert row["chunk_id"] == f"d{n}#{start}-{end}"
            assert count_tokens(text[start:end]) <= max_tokens
        covered = {position for start, end in spans for position in range(start, end)}
        missing = [c for position, c in enumerate(text) if position not in covered]
        assert all(character.isspace() for character in missing), missing
        for (_, end), (start, _) in pairwise(spans):
            assert count_tokens(text[start:end]) <= overlap


def test_recursive_overlap_repeats_text() -> None:
    words = " ".join(f"word{n}" for n in range(60))
    apart, lapping = cut([words], 20, 0), cut([words], 20, 8)
    assert len(lapping) > len(apart) > 1
    ends = [row["end"] for row in lapping[:-1]]
    starts = [row["start"] for row in lapping[1:]]
    assert all(int(str(s)) < int(str(e)) for s, e in zip(starts, ends, strict=True))
    assert all(int(str(b["start"])) >= int(str(a["end"])) for a, b in pairwise(apart))


def test_recursive_prefers_whole_paragraphs() -> None:
    paragraphs = ["One two three four five six.", "Seven eight nine ten.", "Eleven twelve."]
    assert [row["text"] for row in cut(["\n\n".join(paragraphs)], 7, 0)] == paragraphs


def test_recursive_keeps_a_short_text_whole() -> None:
    assert [row["text"] for row in cut(["One.\n\nTwo."], 200, 30)] == ["One.\n\nTwo."]


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_recursive_empty_document_is_one_empty_chunk(text: str) -> None:
    (row,) = cut([text], 10, 0)
    assert (row["chunk_id"], row["start"], row["end"], row["text"]) == ("d0#0-0", 0, 0, "")


def test_no_documents() -> None:
    assert cut([], 10, 0) == []
    assert none.cut(documents([])).num_rows == 0


@given(st.lists(st.text(max_size=30), max_size=5))
def test_none_keeps_documents_and_their_ids(texts: list[str]) -> None:
    rows = none.cut(documents(texts, "Title")).to_pylist()
    assert rows == [
        {
            "chunk_id": f"d{n}",
            "document_id": f"d{n}",
            "start": 0,
            "end": len(text),
            "title": "Title",
            "text": text,
        }
        for n, text in enumerate(texts)
    ]


def test_spans_count_characters_not_bytes() -> None:
    table = chunks_table(documents(["\U0001f600\u00e9ab"]), [[(0, 1), (1, 3)]])
    assert table["text"].to_pylist() == ["\U0001f600", "\u00e9a"]
    assert table["chunk_id"].to_pylist() == ["d0#0-1", "d0#1-3"]


def test_one_list_of_spans_a_document_is_needed() -> None:
    with pytest.raises(ValueError, match="argument"):
        chunks_table(documents(["a", "b"]), [[(0, 1)]])


def test_indexed_text_is_title_newline_text() -> None:
    assert indexed_texts(none.cut(documents(["body", ""], "Title"))) == ["Title\nbody", "Title\n"]
    assert indexed_texts(none.cut(documents(["body", ""]))) == ["body", ""]
