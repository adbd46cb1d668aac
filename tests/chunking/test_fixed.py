from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag_assets.chunking import windows
from rag_assets.chunking.chunker import Size
from rag_assets.models.model_names import DEFAULT_MODEL, load_tokenizer


def test_windows_of_characters() -> None:
    [pieces] = windows.window_cutter(Size(4, 1))(["abcdefghij"])
    assert [(p.start, p.end) for p in pieces] == [(0, 4), (3, 7), (6, 10)]


def test_blank_windows_are_left_out() -> None:
    [pieces] = windows.window_cutter(Size(3))(["abc      def"])
    assert [(p.start, p.end) for p in pieces] == [(0, 3), (9, 12)]


@given(text=st.text("ab\U0001f600", min_size=1), size=st.integers(1, 9), overlap=st.integers(0, 8))
def test_every_window_but_the_last_is_full(text: str, size: int, overlap: int) -> None:
    overlap = min(overlap, size - 1)
    [pieces] = windows.window_cutter(Size(size, overlap))([text])
    assert all(p.end - p.start == size for p in pieces[:-1])
    assert [p.start for p in pieces] == [n * (size - overlap) for n in range(len(pieces))]
    assert pieces[-1].end == len(text)


def test_windows_of_tokens() -> None:
    text = "Unbelievable harbours, and \U0001f600 ferries in the fog"
    tokens = load_tokenizer(DEFAULT_MODEL).encode(text, add_special_tokens=False)
    [pieces] = windows.window_cutter(Size(3, 1, DEFAULT_MODEL))([text])
    starts = [start for start, _ in tokens.offsets]
    assert [p.start for p in pieces] == starts[: len(pieces) * 2 : 2]
    assert [p.end for p in pieces[:-1]] == starts[3 : len(pieces) * 2 + 1 : 2]
    assert pieces[-1].end == len(text)
