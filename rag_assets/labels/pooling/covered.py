"""Which judged spans say what a shorter one says already.

A pool of several chunkings holds overlapping spans of one passage. If each relevant one became an
evidence of its own, R would count the passage as often as there are chunkings; and a long relevant
span would make every chunk inside it relevant. A unit satisfies an evidence when it holds half of
it, so the shortest relevant span of a passage is enough: longer ones satisfy it.
"""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]


def covered_spans(spans: Iterable[Span], labelled: Iterable[Span] = ()) -> set[Span]:
    """Return the spans that share at least half of the shorter one with one that is kept.

    Args:
        spans: relevant spans ``[start, end)`` of one document for one query. The shortest is kept
            first, among equals the one that begins first.
        labelled: relevant spans that the labels hold already; all are kept.
    """
    kept = list(labelled)
    covered: set[Span] = set()
    for span in sorted(set(spans), key=lambda s: (s[1] - s[0], s)):
        if any(_share_half(span, other) for other in kept):
            covered.add(span)
        else:
            kept.append(span)
    return covered


def _share_half(one: Span, other: Span) -> bool:
    shared = min(one[1], other[1]) - max(one[0], other[0])
    return shared > 0 and 2 * shared >= min(one[1] - one[0], other[1] - other[0])
