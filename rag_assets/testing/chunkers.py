"""What every chunking strategy keeps to."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rag_assets.chunking.chunker import CHUNKING_TYPES, Cutter, Embed, cut_documents
from rag_assets.chunking.index_texts import indexed_texts
from rag_assets.models.cache_fill import Vectors
from rag_assets.schemas import DOCUMENTS

MARKS = (
    "# Heading\n",
    "\n## Deeper\n\n",
    "Title\n===\n",
    "```\n# no heading\n```\n",
    "> # quoted\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n",
    "- item\n",
    "\n\n",
    "\r\n",
    "\r",
    "\t",
    "\u2028",
    "\x0b",
    ". ",
    "! ",
    "\u3002",
    "\uff1f\u201d",
    "Dr. Smith",
    "3.14",
    "e\u0301",
    "\U0001f600",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002",
    "word ",
    "(a. b.) ",
    "\u200b",
    "\ufeff",
    "\x00",
    "\ufffd",
    "\u0e01\u0e33",
    "\u0627\u061f ",
)
"""Parts of texts of all scripts, line ends and Markdown marks."""


def awkward_texts(number: int = 60, longest: int = 25) -> list[str]:
    """Return texts that are drawn from :data:`MARKS`, always the same; the first one is empty."""
    draw = random.Random(0)
    lengths = (draw.randrange(longest) for _ in range(number - 1))
    return ["", *("".join(draw.choices(MARKS, k=length)) for length in lengths)]


def documents(*texts: str, title: str = "") -> pa.Table:
    """Return documents d0, d1, ... with these texts."""
    rows: list[dict[str, object]] = [
        {"document_id": f"d{n}", "title": title, "text": text, "metadata": "{}"}
        for n, text in enumerate(texts)
    ]
    return DOCUMENTS.from_rows(rows)


def letter_vectors(texts: Sequence[str]) -> Vectors:
    """Return vectors of no model: how often each residue of code points occurs, length 1."""
    counts = np.ones((len(texts), 8), dtype=np.float32)
    for row, text in enumerate(texts):
        for character in text:
            counts[row, ord(character) % 8] += 1
    vectors: Vectors = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    return vectors


def check_chunks(texts: Sequence[str], chunks: pa.Table) -> None:
    """Check that each chunk is its slice, ids are unique, and only white space is lost.

    Args:
        texts: of the documents d0, d1, ...
        chunks: ``CHUNKS``.
    """
    rows = chunks.to_pylist()
    assert len({row["chunk_id"] for row in rows}) == len(rows)
    covered = [[not character.strip() for character in text] for text in texts]
    for row in rows:
        number = int(row["document_id"].removeprefix("d"))
        start, end = row["start"], row["end"]
        assert 0 <= start <= end <= len(texts[number])
        assert row["text"] == texts[number][start:end]
        covered[number][start:end] = [True] * (end - start)
        if row["parent_chunk_id"] is not None:
            assert row["parent_start"] <= start <= end <= row["parent_end"] <= len(texts[number])
    for text, marks in zip(texts, covered, strict=True):
        lost = [(n, text[n]) for n, mark in enumerate(marks) if not mark]
        assert not lost
    assert {row["document_id"] for row in rows} == {f"d{n}" for n in range(len(texts))}


class ChunkerContract:
    """Offsets, empty texts, unicode, and that a document is cut alike whatever is beside it."""

    @pytest.fixture
    def options(self) -> Mapping[str, Any]:
        """Give the block of an ``experiment.yaml``, such as ``{"strategy": "lines"}``."""
        raise NotImplementedError

    @pytest.fixture
    def cut(self, options: Mapping[str, Any]) -> Cutter:
        """Give the function that cuts."""
        chunker = CHUNKING_TYPES[options["strategy"]].model_validate(dict(options))
        return chunker.cutter(self.embed_by)

    @staticmethod
    def embed_by(model: str) -> Embed:
        """Return what embeds texts, without a model."""
        return letter_vectors

    def test_chunks_are_slices_that_hold_all_text(self, cut: Cutter) -> None:
        """Each chunk is exactly its slice, and no visible character is lost."""
        texts = awkward_texts()
        check_chunks(texts, cut_documents(documents(*texts), cut))

    def test_equal_documents_give_equal_chunks(self, cut: Cutter) -> None:
        """Cutting twice gives the same."""
        table = documents(*awkward_texts())
        assert cut_documents(table, cut).equals(cut_documents(table, cut))

    def test_a_document_is_cut_alike_alone_and_among_others(self, cut: Cutter) -> None:
        """What else is cut changes no chunk."""
        texts = ["One. Two! Three?\n\nFour.", "# A\n\nfive\n\n## B\n\nsix seven", "", "x" * 30]
        together = _spans(cut_documents(documents(*texts), cut))
        alone = [_spans(cut_documents(documents(text), cut)) for text in texts]
        assert [span for spans in alone for span in spans] == together

    def test_a_blank_document_is_one_empty_chunk(self, cut: Cutter) -> None:
        """Its title can still be found."""
        chunks = cut_documents(documents("", title="Only a title"), cut)
        assert chunks.select(["start", "end", "text"]).to_pylist() == [
            {"start": 0, "end": 0, "text": ""}
        ]
        assert indexed_texts(chunks).to_pylist() == ["Only a title\n"]

    def test_no_documents_are_no_chunks(self, cut: Cutter) -> None:
        """An empty corpus is none."""
        assert cut_documents(documents(), cut).num_rows == 0


def _spans(chunks: pa.Table) -> list[tuple[int, int]]:
    return list(zip(chunks["start"].to_pylist(), chunks["end"].to_pylist(), strict=True))
