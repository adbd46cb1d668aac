"""Holm's correction: p-values of several tests, made safe to read side by side.

Of twenty comparisons of equals one falls below .05. With the family's p-values in ascending order,
p_(1) to p_(m), the adjusted ones are max over j <= i of (m - j + 1) * p_(j), at most 1: the chance
of even one false alarm in the family then stays below the level (Holm, "A simple sequentially
rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979). It assumes nothing
about how the tests depend on each other, and rejects whatever Bonferroni's does.
"""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the adjusted p-values, in the order given; a test without p is not of the family."""
    tested = [(p, place) for place, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for done, (p, place) in enumerate(sorted(tested)):
        highest = max(highest, min(1.0, (len(tested) - done) * p))
        adjusted[place] = highest
    return adjusted
