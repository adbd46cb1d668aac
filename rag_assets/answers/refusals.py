"""When an answer refuses: the texts that say "no answer".

The list has a version, which a metric's table names: a longer list moves abstention, EM and F1 of
the same answers.
"""

from __future__ import annotations

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

_TURNS = frozenset({"but", "however", "though", "although"})
_ENDS = " .!\"'()[]\u3002\uff01"


def is_refusal(text: str) -> bool:
    """Return whether a text is empty or says that there is no answer.

    Case, white space, curly apostrophes and punctuation at the ends do not matter.
    """
    form = " ".join(text.lower().replace("\u2019", "'").split()).strip(_ENDS)
    if not form or form in WHOLE:
        return True
    opens = any(f"{form} ".startswith((f"{p} ", f"{p}.", f"{p},")) for p in OPENINGS)
    return opens and _TURNS.isdisjoint(word.strip(",.;:") for word in form.split())
