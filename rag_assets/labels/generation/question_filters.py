"""Which generated questions are worth a person's time: one reason for each that is not.

Of questions that ask nearly the same the earliest is kept. Similarity is Jaccard's of their sets of
words; questions about other numbers ("in 1999", "in 2001") are never alike. Exact: two sets of
similarity t or more share one of the ``n - ceil(t * n) + 1`` rarest words of each, n its size
(prefix filtering: Bayardo, Ma and Srikant, "Scaling Up All Pairs Similarity Search", WWW 2007), so
only those are looked up.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rag_assets.errors import UsageError
from rag_assets.retrieval.lexical.analyzers.words import split_cjk, words

TOO_SHORT = "too_short"
NOT_A_QUESTION = "not_a_question"
ABOUT_THE_PASSAGE = "about_the_passage"
COPIED = "copied_from_the_chunk"
ANSWER_INSIDE = "answer_in_the_question"
NEAR_DUPLICATE = "near_duplicate"
REASONS = (TOO_SHORT, NOT_A_QUESTION, ABOUT_THE_PASSAGE, COPIED, ANSWER_INSIDE, NEAR_DUPLICATE)
_PLAIN_ANSWERS = ("yes", "no", "true", "false")  # "no" inside a question gives nothing away

# Latin, full-width, Arabic, Greek (which looks like a semicolon), Armenian, Ethiopic
_QUESTION_MARK = re.compile("[?\uff1f\u061f\u037e\u055e\u1367][\"'\u201d\u2019\u300d)\\s]*$")
_SOURCE = "passage|excerpt|snippet|extract"
_ALSO = "text|document|article|paragraph|section|context|chapter|author|information"

_ABOUT = re.compile(
    rf"\b(?:(?:the|this|that|these|above|given|provided|following) (?:{_SOURCE})s?\b"
    rf"|(?:this|above|given|provided|following|(?:according|referring) to the|based on the"
    rf"|(?:mentioned|described|discussed|stated|provided|given|presented|written) (?:in|by) the"
    rf"|does the|did the|is the|in the|by the|of the) "
    rf"(?:(?:above|given|provided|following) )?(?:{_ALSO})s?(?=\s*(?:[?,.;:]|$"
    r"|mentions?|says?|said|states?|describes?|discuss(?:es)?|provides?|provided|above|given)))",
    re.IGNORECASE,
)

_ABOUT_CJK = re.compile(
    "\u672c\u6587|\u4e0a\u6587|\u6587\u4e2d|\u6587\u7ae0|\u8be5\u6587|\u8fd9\u6bb5|\u8be5\u6bb5"
    "|\u6bb5\u843d|\u4e0a\u8ff0(?:\u6587\u672c|\u5185\u5bb9)|\u7ed9\u5b9a\u7684?\u6587\u672c"
    "|\u672c\u6bb5|\u3053\u306e\u6587\u7ae0"
)
THRESHOLD = 0.8


@dataclass(frozen=True)
class Filters:
    """Bounds of what is kept.

    Attributes:
        min_words: fewest words of a question; each CJK character counts as one.
        max_copied: largest share of the question's runs of ``copied_words`` words that the chunk
            holds too: above, the question is a copy that any lexical search finds.
        copied_words: length of these runs.
        near_duplicate: Jaccard similarity of words from which on two questions are one.
    """

    min_words: int = 4
    max_copied: float = 0.8
    copied_words: int = 4
    near_duplicate: float = 0.8

    def __post_init__(self) -> None:
        """Raise UsageError for bounds that cannot be."""
        for name in ("min_words", "copied_words"):
            if getattr(self, name) < 1:
                raise UsageError(f"filter {name} is {getattr(self, name)}; it must be 1 or more")
        if not 0 <= self.max_copied <= 1:
            raise UsageError(f"filter max_copied is {self.max_copied}; it must be 0 to 1")
        if not 0 < self.near_duplicate <= 1:
            problem = "it must be above 0, at most 1"
            raise UsageError(f"filter near_duplicate is {self.near_duplicate}; {problem}")


def fault(question: str, answer: str | None, chunk: list[str], filters: Filters) -> str | None:
    """Return why a question is dropped, the first of :data:`REASONS` that holds; None: it is kept.

    Near duplicates are found among all questions, by :func:`near_earlier`.

    Args:
        question: as the model wrote it.
        answer: the model's own, None when it gave none.
        chunk: the words of the chunk that it was made from.
        filters: the bounds.
    """
    words = question_words(question)
    if len(words) < filters.min_words:
        return TOO_SHORT
    if not _QUESTION_MARK.search(question):
        return NOT_A_QUESTION
    if _ABOUT.search(question) or _ABOUT_CJK.search(question):
        return ABOUT_THE_PASSAGE
    if copied_share(words, chunk, filters.copied_words) > filters.max_copied:
        return COPIED
    if (answer or "").casefold().strip(". ") in _PLAIN_ANSWERS:
        return None
    if contains_words(words, question_words(answer or "")):
        return ANSWER_INSIDE
    return None


def near_earlier(
    questions: Sequence[frozenset[str]], threshold: float = THRESHOLD
) -> dict[int, int]:
    """Return for each question that is to be dropped the earlier one that it is like.

    A question is compared with those before it that are kept themselves.

    Args:
        questions: the words of each; one without words is like none.
        threshold: lowest similarity of a near duplicate, above 0, at most 1.
    """
    frequency = Counter(word for question in questions for word in question)
    holders: dict[str, list[int]] = defaultdict(list)
    dropped: dict[int, int] = {}
    for number, question in enumerate(questions):
        rarest = sorted(question, key=lambda word: (frequency[word], word))
        # The rounding error of t * n must not shorten the prefix.
        shared = max(math.ceil(threshold * len(question) - 1e-9), 1)
        prefix = rarest[: len(question) - shared + 1]
        candidates = sorted({earlier for word in prefix for earlier in holders[word]})
        like = (c for c in candidates if _alike(question, questions[c], threshold))
        first = next(like, None)
        if first is not None:
            dropped[number] = first
            continue
        for word in prefix:
            holders[word].append(number)
    return dropped


def _alike(a: frozenset[str], b: frozenset[str], threshold: float) -> bool:
    shared = len(a & b)
    if shared < threshold * (len(a) + len(b) - shared):
        return False
    return not any(character.isdigit() for word in a ^ b for character in word)


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
    text_grams = {tuple(text[start : start + n]) for start in range(len(text) - n + 1)}
    return sum(gram in text_grams for gram in grams) / len(grams)


def contains_words(text: list[str], part: list[str]) -> bool:
    """Return whether ``part``, not empty, stands in ``text`` as one run of words."""
    size = len(part)
    starts = range(len(text) - size + 1)
    return bool(part) and any(text[start : start + size] == part for start in starts)
