from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from hypothesis import strategies as st

from rag_assets.schemas import DOCUMENTS


def documents(*texts: str, title: str = "") -> pa.Table:
    """Documents d0, d1, ... with these texts."""
    rows: list[dict[str, object]] = [
        {"document_id": f"d{n}", "title": title, "text": text, "metadata": "{}"}
        for n, text in enumerate(texts)
    ]
    return DOCUMENTS.from_rows(rows)


_MARKS = [
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
]
TEXTS = st.lists(
    st.sampled_from(_MARKS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    max_size=25,
).map("".join)
"""Texts of all scripts, line ends and Markdown marks, and of anything else."""


def check_chunks(texts: Sequence[str], chunks: pa.Table) -> None:
    """Each chunk is exactly its slice, ids are unique, and nothing but white space is lost."""
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
