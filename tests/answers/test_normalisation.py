from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.answers.answer_text import LANGUAGES, Language, normal_form, words

OFFICIAL = [
    ("The  U.S.A.", "usa"),
    ("a", ""),
    ("$3.5 million", "35 million"),
    ("A-team", "ateam"),
    ("the-end", "theend"),
    ("10th\u201311th", "10th\u201311th"),
    ("\u201cquoted\u201d", "\u201cquoted\u201d"),
    ("\u0130stanbul", "i\u0307stanbul"),
    ("\uff11\uff12", "\uff11\uff12"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "form"), OFFICIAL)
def test_the_official_form(text: str, form: str) -> None:
    assert normal_form(text) == form


def in_steps(text: str) -> str:
    """The published description, one step a line."""
    lower = text.lower()
    plain = "".join(character for character in lower if character not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", plain).split())


@given(st.text(alphabet=st.sampled_from("aAnN thTHe-.,'\u00e9\u4eac 1\t\n\u201c")))
def test_it_is_the_published_description(text: str) -> None:
    assert normal_form(text) == in_steps(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("北京大学", ["北", "京", "大", "学"]),
        ("北京 大学。", ["北", "京", "大", "学"]),
        ("１９９８年", ["1998", "年"]),
        ("「東京」、カナ", ["東", "京", "カ", "ナ"]),
        ("iPhone 4S 手机", ["iphone", "4s", "手", "机"]),
        ("the 大", ["the", "大"]),
        ("$40 元", ["40", "元"]),
        ("。", []),
    ],
)
def test_cjk_has_a_word_a_character(text: str, expected: list[str]) -> None:
    assert words(text, "cjk") == expected


@pytest.mark.parametrize("language", LANGUAGES)
@given(text=st.text())
def test_a_normal_form_has_its_words_with_one_blank_between(text: str, language: Language) -> None:
    form = normal_form(text, language)
    assert form.split() == words(text, language)
