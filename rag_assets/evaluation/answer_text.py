r"""Texts in the form in which answers are compared: that of SQuAD's official evaluation.

Rajpurkar, Zhang, Lopyrev and Liang: SQuAD: 100,000+ Questions for Machine Comprehension of Text,
EMNLP 2016, section 6.1 and the script that is published with it: lower case, ASCII punctuation
deleted, the articles a, an and the left out, white space collapsed. Added here, since an answer is
looked for inside a text and not compared with one:

- punctuation beyond ASCII (quotation marks, dashes, the full stop of Chinese) becomes a blank: the
  script leaves it in, where it would glue itself to a word;
- each character of a script that puts no blanks between words (Chinese characters, kana, Thai, Lao,
  Khmer, Burmese) becomes a word of its own.
"""

from __future__ import annotations

import re
import string
import sys
import unicodedata
from functools import cache

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_DELETED = str.maketrans("", "", string.punctuation)
_WITHOUT_BLANKS = re.compile(
    "(["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Burmese
    "\u1780-\u17ff\u19e0-\u19ff"  # Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c"  # radicals, numerals
    "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3105-\u312f\u31a0-\u31bf"  # bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Chinese characters
    "\U0001aff0-\U0001b16f\U00020000-\U000323af"  # further kana and Chinese characters
    "])"
)


def normalised(text: str) -> str:
    """Return ``text`` as words with one blank between; the same again when applied again."""
    plain = text.lower().translate(_DELETED)
    if not plain.isascii():
        plain = _WITHOUT_BLANKS.sub(r" \1 ", plain.translate(_separators()))
    return " ".join(_ARTICLES.sub(" ", plain).split())


def bounded(text: str) -> str:
    """Put a blank on either side: then ``in`` between two normalised texts finds whole words only.

    So the answer ``art`` is not in ``party``. A character of a script without blanks is a word, so
    in such a script an answer is found wherever its characters stand one after the other.
    """
    return f" {text} "


def holds(text: str, answer: str) -> bool:
    """Return whether ``answer`` stands in ``text``, both as they are written.

    An answer of which normalisation leaves nothing, such as ``the`` or ``?``, stands nowhere.
    """
    wanted = normalised(answer)
    return bool(wanted) and bounded(wanted) in bounded(normalised(text))


@cache
def _separators() -> dict[int, str]:
    """Return the punctuation beyond ASCII (the categories P of Unicode), each as a blank."""
    codes = (code for code in range(0x80, sys.maxunicode + 1))
    return {code: " " for code in codes if unicodedata.category(chr(code)).startswith("P")}
