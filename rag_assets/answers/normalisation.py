"""The form in which answers are compared: the words of a text, by language.

``standard`` is the form of SQuAD's official evaluation (``evaluate-v2.0.py``, Rajpurkar, Jia and
Liang: Know What You Don't Know, ACL 2018), step by step: lower case; delete ASCII punctuation;
put a blank in place of the articles a, an and the; split at white space. Punctuation goes before
the articles, so ``the-end`` is one word, ``theend``; punctuation beyond ASCII stays.

``cjk`` is for languages that put no blanks between words, as CMRC 2018 (Cui et al., EMNLP 2019)
segments them: NFKC, so that wide and narrow forms are the same; lower case; delete the punctuation
of all scripts; every character of such a script is a word of its own, and what lies between them
is split at white space. Articles stay.
"""

from __future__ import annotations

import re
import string
import unicodedata
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
    kept = "".join(c for c in wide if not unicodedata.category(c).startswith("P"))
    return WITHOUT_BLANKS.sub(r" \1 ", kept.translate(_ASCII_PUNCTUATION)).split()


def normal_form(text: str, language: Language = "standard") -> str:
    """Return the words of a text with one blank between."""
    return " ".join(words(text, language))
