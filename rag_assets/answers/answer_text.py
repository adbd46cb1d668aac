"""Texts of answers: the form in which they are compared, refusals, and markers of cited units.

``standard`` is the form of SQuAD's official evaluation (``evaluate-v2.0.py``, Rajpurkar, Jia and
Liang: Know What You Don't Know, ACL 2018), step by step: lower case; delete ASCII punctuation;
put a blank in place of the articles a, an and the; split at white space. Punctuation goes before
the articles, so ``the-end`` is one word, ``theend``; punctuation beyond ASCII stays.

``cjk`` is for languages that put no blanks between words, as CMRC 2018 (Cui et al., EMNLP 2019)
segments them: NFKC, so that wide and narrow forms are the same; lower case; delete the punctuation
of all scripts; every character of such a script is a word of its own, and what lies between them
is split at white space. Articles stay.

The list of refusals has a version, which a metric's table names: a longer list moves abstention, EM
and F1 of the same answers.

Markers of cited units are ``[2]`` or ``[1, 3]``, numbers of the context's units. The whole content
of a pair of brackets must be numbers of one to three digits with commas between, so neither
``[2019]`` nor ``[1-3]`` nor ``[page 4]`` is a marker; nor is the link ``[1](address)``.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Collection
from typing import Literal, get_args

from rag_assets.evaluation.returned_texts import WITHOUT_BLANKS

Language = Literal["standard", "cjk"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)


def words(text: str, language: Language = "standard") -> list[str]:
    """Return the words of a text that count, in order, with repetitions."""
    if language == "standard":
        return _ARTICLES.sub(" ", text.lower().translate(_ASCII_PUNCTUATION)).split()
    wide = unicodedata.normalize("NFKC", text).lower()
    letters = "".join(c for c in wide if not unicodedata.category(c).startswith("P"))
    return WITHOUT_BLANKS.sub(r" \1 ", letters.translate(_ASCII_PUNCTUATION)).split()


def normal_form(text: str, language: Language = "standard") -> str:
    """Return the words of a text with one blank between."""
    return " ".join(words(text, language))


VERSION = 1
"""Of the two lists below; a test holds it to them."""

WHOLE = (
    "n/a",
    "no answer",
    "none",
    "not answerable",
    "not given",
    "not known",
    "not mentioned",
    "not stated",
    "unanswerable",
    "unknown",
    "わかりません",
    "不明",
    "不知道",
    "分かりません",
    "我不知道",
    "无法回答",
    "沒有答案",
    "没有答案",
    "無法回答",
)
"""An answer that is one of these refuses."""

OPENINGS = (
    "cannot answer",
    "i am unable to answer",
    "i can't answer",
    "i can't find",
    "i cannot answer",
    "i cannot find",
    "i do not know",
    "i don't know",
    "i'm unable to answer",
    "insufficient information",
    "it cannot be determined",
    "it is not mentioned",
    "it is not stated",
    "no information",
    "not enough information",
    "the answer is not given",
    "the answer is not in the",
    "the answer is not stated",
    "the context does not",
    "the context doesn't",
    "the document does not",
    "the documents do not",
    "the given context does not",
    "the passage does not",
    "the passages do not",
    "the provided context does not",
    "the provided passages do not",
    "the question cannot be answered",
    "the text does not",
    "there is no answer",
    "there is no information",
    "there is not enough information",
    "this question cannot be answered",
)
"""An answer that begins with one of these refuses, unless it goes on with a ``but``."""

_OPENINGS = tuple(f"{opening}{end}" for opening in OPENINGS for end in " .,")
_TURNS = frozenset({"but", "however", "though", "although"})
_ENDS = " .!\"'()[]\u3002\uff01"


def is_refusal(text: str) -> bool:
    """Return whether a text is empty or says that there is no answer.

    Case, white space, curly apostrophes and punctuation at the ends do not matter.
    """
    form = " ".join(text.lower().replace("\u2019", "'").split()).strip(_ENDS)
    if not form or form in WHOLE:
        return True
    opens = f"{form} ".startswith(_OPENINGS)
    return opens and _TURNS.isdisjoint(word.strip(",.;:") for word in form.split())


_MARKER = re.compile(r"\[\s*([0-9]{1,3}(?:\s*,\s*[0-9]{1,3})*)\s*\](?!\()")


def cited_units(text: str) -> list[int]:
    """Return the different numbers that the markers of a text hold, in order.

    They are as they stand: also 0 and numbers of units that there are not.
    """
    return list(dict.fromkeys(n for marker in _MARKER.finditer(text) for n in _numbers(marker)))


def without_markers(text: str, cited: Collection[int]) -> str:
    """Return a text without its markers of ``cited`` units; other brackets are words of it."""
    return _MARKER.sub(lambda m: " " if set(_numbers(m)) <= set(cited) else m[0], text)


def _numbers(marker: re.Match[str]) -> list[int]:
    return [int(number) for number in marker[1].split(",")]
