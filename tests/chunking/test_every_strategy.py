"""What every strategy keeps to, and the small ones: fixed, sentences, semantic."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.chunking.chunker import Cutter, cut_documents
from rag_assets.chunking.semantic import breakpoints
from rag_assets.chunking.sentences import sentence_spans
from rag_assets.models.encoder import Encoder
from rag_assets.models.model_names import DEFAULT_MODEL, load_tokenizer
from rag_assets.testing import ChunkerContract
from rag_assets.testing.chunkers import check_chunks, documents
from tests.chunking.chunk_checks import cutter

OPTIONS: dict[str, dict[str, object]] = {
    "none": {"strategy": "none"},
    "recursive characters": {"strategy": "recursive", "max_characters": 7, "overlap": 3},
    "recursive tokens": {"strategy": "recursive", "max_tokens": 6, "overlap": 2},
    "fixed characters": {"strategy": "fixed", "max_characters": 7, "overlap": 3},
    "fixed tokens": {"strategy": "fixed", "max_tokens": 6, "overlap": 2},
    "sentences": {"strategy": "sentences", "sentences": 2, "overlap": 1},
    "markdown characters": {"strategy": "markdown", "max_characters": 25},
    "markdown levels": {"strategy": "markdown", "max_tokens": 6, "overlap": 2, "max_level": 2},
    "semantic": {"strategy": "semantic", "percentile": 60, "buffer": 1},
    "semantic limited": {"strategy": "semantic", "percentile": 60, "max_tokens": 4},
}
OVERLAPPING = {"strategy": "fixed", "max_characters": 20, "overlap": 10}
PARENTS = {
    "parent sections": ("sentences", {"strategy": "markdown", "max_characters": 40}),
    "parent overlapping": ("recursive characters", OVERLAPPING),
    "parent whole": ("semantic", {"strategy": "none"}),
}
OPTIONS |= {
    name: {"strategy": "parent", "child": OPTIONS[child], "parent": parent}
    for name, (child, parent) in PARENTS.items()
}
CUTTERS: dict[str, Cutter] = {name: cutter(**options) for name, options in OPTIONS.items()}  # type: ignore[arg-type]
SENTENCES = CUTTERS["sentences"]


class TestEveryStrategy(ChunkerContract):
    @pytest.fixture(params=CUTTERS)
    def cut(self, request: pytest.FixtureRequest) -> Cutter:
        return CUTTERS[request.param]


def test_more_documents_than_are_cut_at_once() -> None:
    texts = [f"Text {n}. More." for n in range(2_500)]
    chunks = cut_documents(documents(*texts), SENTENCES)
    check_chunks(texts, chunks)
    assert chunks.column("document_id").to_pylist() == [f"d{n}" for n in range(2_500)]
    assert isinstance(chunks, pa.Table)


def test_whole_documents_keep_their_id() -> None:
    chunks = cut_documents(documents("a", "b"), CUTTERS["none"], whole=True)
    assert chunks.column("chunk_id").to_pylist() == ["d0", "d1"]


def test_blank_windows_are_left_out() -> None:
    [pieces] = cutter("fixed", max_characters=3)(["abc      def"])
    assert [(p.start, p.end) for p in pieces] == [(0, 3), (9, 12)]


@given(text=st.text("ab\U0001f600", min_size=1), size=st.integers(1, 9), overlap=st.integers(0, 8))
def test_every_window_but_the_last_is_full(text: str, size: int, overlap: int) -> None:
    overlap = min(overlap, size - 1)
    [pieces] = cutter("fixed", max_characters=size, overlap=overlap)([text])
    assert all(p.end - p.start == size for p in pieces[:-1])
    assert [p.start for p in pieces] == [n * (size - overlap) for n in range(len(pieces))]
    assert pieces[-1].end == len(text)


def test_windows_of_tokens() -> None:
    text = "Unbelievable harbours, and \U0001f600 ferries in the fog"
    tokens = load_tokenizer(DEFAULT_MODEL).encode(text, add_special_tokens=False)
    [pieces] = cutter("fixed", max_tokens=3, overlap=1)([text])
    starts = [start for start, _ in tokens.offsets]
    assert [p.start for p in pieces] == starts[: len(pieces) * 2 : 2]
    assert [p.end for p in pieces[:-1]] == starts[3 : len(pieces) * 2 + 1 : 2]
    assert pieces[-1].end == len(text)


def split(text: str, language: str = "en") -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text, language)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Dr. Smith paid $3.50 at 5 p.m. on Monday. He left!",
            ["Dr. Smith paid $3.50 at 5 p.m. on Monday.", "He left!"],
        ),
        (
            "The wind, e.g. in Jan. 2020, was strong. See Fig. 3.",
            ["The wind, e.g. in Jan. 2020, was strong.", "See Fig. 3."],
        ),
        ("A line that is\nbroken here. Next one.", ["A line that is\nbroken here.", "Next one."]),
        ("A heading\n\nA paragraph.", ["A heading", "A paragraph."]),
        (
            "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002\u6211\u4eec\u53bb\u516c\u56ed\u5427\uff01"
            "\u7248\u672c3.5\u53d1\u5e03\u4e86\u3002",
            [
                "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002",
                "\u6211\u4eec\u53bb\u516c\u56ed\u5427\uff01",
                "\u7248\u672c3.5\u53d1\u5e03\u4e86\u3002",
            ],
        ),
        (
            "Hi \U0001f600. \U0001f468\u200d\U0001f469 family!",
            ["Hi \U0001f600.", "\U0001f468\u200d\U0001f469 family!"],
        ),
        ("  \n\t ", []),
        ("", []),
    ],
)
def test_where_sentences_end(text: str, expected: list[str]) -> None:
    assert split(text) == expected


def test_abbreviations_are_those_of_the_language() -> None:
    text = "Das gilt bzw. Anderes gilt. Ende."
    assert split(text, "de") == ["Das gilt bzw. Anderes gilt.", "Ende."]
    assert len(split(text, "en")) == 3


@pytest.mark.parametrize(
    ("count", "overlap", "expected"),
    [
        (2, 0, ["A. B.", "C. D.", "E."]),
        (3, 1, ["A. B. C.", "C. D. E."]),
        (3, 2, ["A. B. C.", "B. C. D.", "C. D. E."]),
        (9, 3, ["A. B. C. D. E."]),
        (1, 0, ["A.", "B.", "C.", "D.", "E."]),
    ],
)
def test_sentences_a_chunk(count: int, overlap: int, expected: list[str]) -> None:
    text = "One went. Two went. Three went. Four went. Five went."
    names = dict(zip("ABCDE", ["One", "Two", "Three", "Four", "Five"], strict=True))
    [pieces] = cutter("sentences", sentences=count, overlap=overlap)([text])
    wanted = [" ".join(f"{names[c[0]]} went." for c in each.split()) for each in expected]
    assert [text[p.start : p.end] for p in pieces] == wanted


TEXT = (
    "The ferry leaves the harbour at six. The boat sails to the northern port. The ship returns in "
    "the evening. Photosynthesis turns light into sugar. Plants take carbon dioxide from the air. "
    "Leaves are green because of chlorophyll."
)


def test_breakpoints_are_above_the_percentile() -> None:
    angles = np.radians([0, 5, 90, 95, 100])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    assert breakpoints(vectors, 50) == [1]
    assert breakpoints(vectors[:2], 50) == []
    assert breakpoints(vectors[:1], 50) == []
    assert breakpoints(np.repeat(vectors[:1], 4, axis=0), 50) == []


@pytest.mark.parametrize("buffer", [0, 1])
def test_the_model_finds_the_change_of_subject(buffer: int, tmp_path: Path) -> None:
    def by_model(model: str) -> Any:
        return partial(Encoder(model, cache=tmp_path).encode, kind="document")

    cut = cutter("semantic", by_model, percentile=80, buffer=buffer)
    [pieces] = cut([TEXT])
    change = TEXT.index("Photosynthesis")
    assert len(pieces) == 2
    # Windows of several sentences blur the place of the change.
    place = pieces[1].start
    assert TEXT[min(change, place) : max(change, place)].count(".") <= buffer
    assert list(cut([TEXT, ""])) == [pieces, []]


def test_a_large_chunk_is_cut_further() -> None:
    def alike(texts: object) -> np.ndarray:
        assert isinstance(texts, list)
        return np.tile(np.array([[1, 0]], dtype=np.float32), (len(texts), 1))

    for limit, count in ((None, 1), (16, 4)):
        [pieces] = cutter("semantic", lambda _: alike, buffer=1, max_tokens=limit)([TEXT])
        assert len(pieces) == count
