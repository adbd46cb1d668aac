from __future__ import annotations

from itertools import pairwise

import pytest

from rag_assets.chunking import recursive
from rag_assets.chunking.chunker import Size
from rag_assets.models.model_names import DEFAULT_MODEL, load_tokenizer

TEXT = "The first paragraph has words.\n\nThe second one, too. And a sentence more.\n\nThird."


@pytest.mark.parametrize(("capacity", "overlap"), [(5, 0), (8, 3), (40, 10)])
def test_no_chunk_has_more_tokens(capacity: int, overlap: int) -> None:
    tokenizer = load_tokenizer(DEFAULT_MODEL)
    [pieces] = recursive.cutter(Size(capacity, overlap, DEFAULT_MODEL))([TEXT])
    counts = [
        len(tokenizer.encode(TEXT[p.start : p.end], add_special_tokens=False).ids) for p in pieces
    ]
    assert max(counts) <= capacity
    assert (len(pieces) == 1) == (capacity == 40)


def test_characters_cut_at_paragraphs_and_sentences() -> None:
    [pieces] = recursive.cutter(Size(31))([TEXT])
    assert [TEXT[p.start : p.end] for p in pieces] == [
        "The first paragraph has words.",
        "The second one, too.",
        "And a sentence more.\n\nThird.",
    ]


def test_characters_are_code_points() -> None:
    text = "\u4eca\u5929\U0001f600\u0301 " * 4
    [pieces] = recursive.cutter(Size(5))([text])
    assert max(p.end - p.start for p in pieces) <= 5
    assert len(pieces) == 4


def test_overlap_repeats_the_end_of_the_chunk_before() -> None:
    [pieces] = recursive.cutter(Size(12, 5))(["aaaa bbbb cccc dddd eeee"])
    assert all(b.start < a.end for a, b in pairwise(pieces))
