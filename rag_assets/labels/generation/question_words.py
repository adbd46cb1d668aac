"""Questions and texts as words, so that copies can be counted."""

from __future__ import annotations

from rag_assets.retrieval.lexical.analyzers.words import split_cjk, words


def question_words(text: str) -> list[str]:
    """Return the words of a text in order, lower-cased; each CJK character is a word."""
    return [part for word in words(text) for part in split_cjk(word)]


def copied_share(question: list[str], text: list[str], n: int) -> float:
    """Return the share of the question's runs of ``n`` words that stand in the text as well.

    0 for a question of fewer words.
    """
    grams = [tuple(question[start : start + n]) for start in range(len(question) - n + 1)]
    if not grams:
        return 0.0
    known = {tuple(text[start : start + n]) for start in range(len(text) - n + 1)}
    return sum(gram in known for gram in grams) / len(grams)


def contains_words(text: list[str], part: list[str]) -> bool:
    """Return whether ``part``, not empty, stands in ``text`` as one run of words."""
    size = len(part)
    starts = range(len(text) - size + 1)
    return bool(part) and any(text[start : start + size] == part for start in starts)
