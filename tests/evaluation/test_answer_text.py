from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from rag_assets.evaluation.returned_texts import bounded, normalised
from tests.evaluation.answer_text import holds

WORDS = st.sampled_from(
    ["art", "party", "the", "a", "an", "Paris", "1914", "\u5317", "\u4eac", "\u0e01", "x"]
)
GLUE = st.sampled_from([" ", "  ", "\n", "-", ".", "\u3002", "\u2013", "'", ""])
TEXTS = st.lists(st.tuples(WORDS, GLUE)).map(lambda parts: "".join(w + g for w, g in parts))


def has_sublist(words: list[str], wanted: list[str]) -> bool:
    """The rule once more, by lists of words."""
    starts = range(len(words) - len(wanted) + 1)
    return bool(wanted) and any(words[i : i + len(wanted)] == wanted for i in starts)


@given(st.one_of(TEXTS, st.text()), st.one_of(TEXTS, st.text(max_size=8)))
@example("\u0130 \u1e9e", "\u0130")
def test_an_answer_is_found_as_whole_words(text: str, answer: str) -> None:
    expected = has_sublist(normalised(text).split(" "), normalised(answer).split())
    assert holds(text, answer) == expected


@given(st.one_of(TEXTS, st.text()))
def test_normalising_again_changes_nothing(text: str) -> None:
    once = normalised(text)
    assert normalised(once) == once
    assert once == " ".join(once.split())
    assert not {"a", "an", "the"} & set(once.split())


def test_as_squad_does() -> None:
    assert normalised("The U.S., an  ally\tof\nthe U.K.!") == "us ally of uk"
    assert normalised("theatre of a thespian") == "theatre of thespian"
    assert normalised("$40-million") == "40million"
    assert bounded(normalised("Art")) not in bounded(normalised("Party"))
