"""Questions that ask nearly the same as an earlier one.

Similarity is Jaccard's of their sets of words; questions about other numbers ("in 1999", "in 2001")
are never alike. Exact: two sets of similarity t or more share one of
the ``n - ceil(t * n) + 1`` rarest words of each, n its size (prefix filtering: Bayardo, Ma and
Srikant, "Scaling Up All Pairs Similarity Search", WWW 2007), so only those are looked up.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

THRESHOLD = 0.8


def near_earlier(
    questions: Sequence[frozenset[str]], threshold: float = THRESHOLD
) -> dict[int, int]:
    """Return for each question that is to be dropped the earlier one that it is like.

    A question is compared with those before it that are kept themselves.

    Args:
        questions: the words of each; one without words is like none.
        threshold: lowest similarity of a near duplicate, above 0, at most 1.
    """
    frequency = Counter(word for words in questions for word in words)
    holders: dict[str, list[int]] = defaultdict(list)
    dropped: dict[int, int] = {}
    for number, words in enumerate(questions):
        rarest = sorted(words, key=lambda word: (frequency[word], word))
        # The rounding error of t * n must not shorten the prefix.
        shared = max(math.ceil(threshold * len(words) - 1e-9), 1)
        prefix = rarest[: len(words) - shared + 1]
        candidates = sorted({earlier for word in prefix for earlier in holders[word]})
        like = (c for c in candidates if _alike(words, questions[c], threshold))
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
