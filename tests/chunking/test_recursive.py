"""Strategies ``recursive``, ``markdown`` and ``parent``."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from semantic_text_splitter import TextSplitter
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from rag_assets.chunking.chunker import Piece, cut_documents, trimmed
from rag_assets.chunking.index_texts import indexed_texts
from rag_assets.chunking.markdown import headings, sections
from rag_assets.chunking.recursive import (
    LINE,
    PARAGRAPH,
    SENTENCE,
    WORD,
    TokenStarts,
    edges,
    token_cutter,
)
from rag_assets.models.model_names import DEFAULT_MODEL, load_tokenizer
from rag_assets.testing.chunkers import documents
from tests.chunking.chunk_checks import TEXTS, cutter

TEXT = "The first paragraph has words.\n\nThe second one, too. And a sentence more.\n\nThird."


def test_characters_cut_at_paragraphs_and_sentences() -> None:
    [pieces] = cutter("recursive", max_characters=31)([TEXT])
    assert [TEXT[p.start : p.end] for p in pieces] == [
        "The first paragraph has words.",
        "The second one, too.",
        "And a sentence more.\n\nThird.",
    ]


HANDBOOK = Path(__file__).resolve().parents[2] / "data" / "handbook"
TRAINING = ["the ferry leaves the harbour at six, the crew is on board. " * 3, "naïve 今天天气很好"]


def byte_level() -> Tokenizer:
    """A tokenizer as GPT-2's: blanks belong to the word behind them, characters are bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TRAINING, trainer)
    return tokenizer


def with_block() -> Tokenizer:
    """A tokenizer as SentencePiece's: each word begins with a mark, also the first."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=60, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(TRAINING, trainer)
    return tokenizer


TOKENIZERS = {
    "wordpiece": load_tokenizer(DEFAULT_MODEL),
    "byte level": byte_level(),
    "metaspace": with_block(),
}
STARTS = {name: TokenStarts(tokenizer) for name, tokenizer in TOKENIZERS.items()}


def chunks(text: str, name: str, capacity: int, overlap: int = 0) -> list[Piece]:
    [pieces] = token_cutter(STARTS[name], capacity, overlap)([text])
    return list(pieces)


def n_tokens(text: str, name: str) -> int:
    return len(TOKENIZERS[name].encode(text, add_special_tokens=False))


def test_only_bert_counts_words_apart() -> None:
    assert [name for name, starts in STARTS.items() if starts.adds_up] == ["wordpiece"]


@settings(deadline=None, max_examples=150)
@given(text=TEXTS, data=st.data())
def test_between_words_the_sum_is_the_count(text: str, data: st.DataObject) -> None:
    words = edges(text)[WORD]
    start, end = sorted(data.draw(st.tuples(st.sampled_from(words), st.sampled_from(words))))
    [starts] = STARTS["wordpiece"].of([text])
    assert sum(start <= each < end for each in starts) == n_tokens(text[start:end], "wordpiece")


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(deadline=None)
@given(text=TEXTS, capacity=st.integers(1, 12), data=st.data())
def test_no_chunk_is_too_large_and_no_text_is_lost(
    name: str, text: str, capacity: int, data: st.DataObject
) -> None:
    pieces = chunks(text, name, capacity, data.draw(st.integers(0, capacity - 1)))
    for piece in pieces:
        part = text[piece.start : piece.end]
        assert n_tokens(part, name) <= capacity or len(part) == 1
    assert all(a.start < b.start and a.end < b.end for a, b in pairwise(pieces))
    covered = {n for piece in pieces for n in range(piece.start, piece.end)}
    assert not "".join(c for n, c in enumerate(text) if n not in covered).strip()


@settings(deadline=None)
@given(text=TEXTS, capacity=st.integers(1, 12))
def test_without_overlap_chunks_tile_the_text(text: str, capacity: int) -> None:
    """Blanks are no tokens here, so no chunk is blank, unless all of the text is."""
    pieces = chunks(text, "wordpiece", capacity)
    assert not "".join([text[a.end : b.start] for a, b in pairwise(pieces)]).strip()
    body = text.strip()
    if all(body[a:b].strip() for a, b in pairwise(edges(body)[WORD])) and body:
        first, last = trimmed(text, 0, len(text))
        assert [first, *(p.end for p in pieces)] == [*(p.start for p in pieces), last]


def test_blanks_around_a_text_change_no_chunk_but_its_place() -> None:
    text = "One ferry leaves.\n\nThe other one stays."
    inside = chunks(text, "wordpiece", 5)
    around = chunks(f" \n{text}\n\x0b ", "wordpiece", 5)
    assert [(p.start + 2, p.end + 2) for p in inside] == [(p.start, p.end) for p in around]


@pytest.mark.parametrize(("capacity", "overlap"), [(200, 30), (60, 0)])
def test_the_cuts_are_those_of_semantic_text_splitter(capacity: int, overlap: int) -> None:
    tokenizer = TOKENIZERS["wordpiece"]
    texts = [path.read_text(encoding="utf-8") for path in sorted(HANDBOOK.glob("*/*.md"))]
    library = TextSplitter.from_huggingface_tokenizer(tokenizer, capacity, overlap)
    alike = total = 0
    for text, found in zip(texts, library.chunk_all_indices(texts), strict=True):
        old = {(start, start + len(part)) for start, part in found}
        new = {trimmed(text, p.start, p.end) for p in chunks(text, "wordpiece", capacity, overlap)}
        alike, total = alike + len(old & new), total + len(old)
    assert alike >= (total if capacity == 200 else 0.9 * total)


def test_edges() -> None:
    text = "One. Two e.g. three!\nFour\n\nFive. \u4eca\u5929\u3002\u660e\u5929"
    found = edges(text)
    assert found[PARAGRAPH] == [0, 27, len(text)]
    assert found[LINE] == [0, 21, 27, len(text)]
    assert found[SENTENCE] == [0, 5, 21, 27, 33, 36, len(text)]
    assert all(set(larger) < set(smaller) for larger, smaller in pairwise(found))


@pytest.mark.parametrize("text", ["\n" * 50_000, "." * 50_000, " " * 50_000, "\r" * 50_000 + "a"])
def test_long_runs_are_read_once(text: str) -> None:
    """A pattern that looks back would take minutes."""
    assert edges(text)[WORD][-1] == len(text)


def test_a_character_and_its_marks_stay_together() -> None:
    text = "e\u0301" * 20
    for piece in chunks(text, "byte level", 4):
        assert text[piece.start] == "e"
    assert [p.end for p in chunks("\U0001f600\U0001f600", "byte level", 2)] == [1, 2]


GUIDE = """Before any heading.

# Guide

Welcome.

## Install

### Linux

```sh
# not a heading
pip install it
```

### *Mac* `OS` [link](x.md)

Drag it.

Use
---

Run it.
"""


def cut(text: str, capacity: int = 1_000, max_level: int = 6) -> list[tuple[str, tuple[str, ...]]]:
    [pieces] = cutter("markdown", max_characters=capacity, max_level=max_level)([text])
    return [(text[p.start : p.end], p.headings) for p in pieces]


def test_a_section_knows_the_headings_above_it() -> None:
    chunks = cut(GUIDE)
    paths = ["", "Guide", "Guide > Install > Linux", "Guide > Install > Mac OS link", "Guide > Use"]
    assert [" > ".join(path) for _, path in chunks] == paths
    assert chunks[2][0].startswith("## Install\n\n### Linux\n\n```sh\n# not a heading")


def test_deeper_headings_begin_no_section() -> None:
    assert [path for _, path in cut(GUIDE, max_level=1)] == [(), ("Guide",)]


def test_what_is_no_heading() -> None:
    text = (
        "~~~\n# fence\n~~~\n\n    # indented\n\n> # quote\n\n- # item\n\n"
        "<div>\n# html\n</div>\n\n#tag"
    )
    assert list(headings(text)) == []
    assert sections(text, 6)[0][:2] == (0, len(text))


def test_line_ends_of_all_kinds() -> None:
    text = "# A\r\n\r\nx\r\n# B\ry\n# C\n"
    assert [text[h.start : h.end] for h in headings(text)] == ["# A\r\n", "# B\r", "# C\n"]


def test_a_heading_without_words_is_not_in_the_path() -> None:
    paths = [path for _, path in cut("# A\n\nx\n\n##\n\ny\n\n### C\n\nz")]
    assert paths == [("A",), ("A",), ("A", "C")]


def test_a_heading_without_text_stays_when_no_subsection_follows() -> None:
    assert cut("# A\n\n# B\n\n## C\n") == [("# A", ("A",)), ("# B\n\n## C", ("B", "C"))]


TABLE = "| a | b |\n|---|---|\n| one | two |\n| three | four |"
CODE = "```py\nx = 1\n\n# a comment\ny = 2\n```"


@pytest.mark.parametrize("whole", [TABLE, CODE])
def test_a_long_section_is_cut_further_and_what_fits_stays_whole(whole: str) -> None:
    text = f"# T\n\n{'Words before it. ' * 4}\n\n{whole}\n\n{'Words after. ' * 6}"
    chunks = cut(text, capacity=80)
    assert any(whole in chunk for chunk, _ in chunks)
    assert len(chunks) > 2
    assert all(len(chunk) <= 80 and path == ("T",) for chunk, path in chunks)


def test_what_is_indexed() -> None:
    table = documents("# Guide\n\nHello.\n\n## Use\n\nRun it.\n", title="Guide")
    chunks = cut_documents(table, cutter("markdown", max_characters=100))
    assert chunks.column("heading_path").to_pylist() == ["Guide", "Guide > Use"]
    assert indexed_texts(chunks, headings=True).to_pylist() == [
        "Guide\n# Guide\n\nHello.",
        "Guide\nUse\n## Use\n\nRun it.",
    ]
    titled = ["Guide\n# Guide\n\nHello.", "Guide\n## Use\n\nRun it."]
    assert indexed_texts(chunks).to_pylist() == titled
