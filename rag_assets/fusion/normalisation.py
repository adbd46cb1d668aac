"""Normalisations of the scores of one input for one query, as SQL expressions.

A normalised score is 0 for the worst that an input could say of an item, so that an item which the
input does not hold, and which gets nothing, never stands above one that it holds.

- ``min_max``: (s - min) / (max - min) over the candidates; 1 when all are equal.
- ``theoretical_min_max``: (s - m) / (max - m) with m the lowest score that the retriever could give
  (Bruch, Gai and Ingber: An Analysis of Fusion Functions for Hybrid Retrieval, TOIS 2023).
- ``z_score``: (s - mean) / sd, counted from the lowest of the list; 1 when all are equal. Counting
  from the lowest shifts all items of a list by one constant and changes no order among them.
- ``distribution``: (s - (mean - 3 sd)) / (6 sd), cut to [0, 1]; 1/2 when all are equal
  (distribution-based score fusion: Mazzeschi, 2023).
- ``none``: the scores as they are.

sd is that of the population.
"""

from __future__ import annotations

from typing import Literal

Normalisation = Literal["min_max", "theoretical_min_max", "z_score", "distribution", "none"]

_LIST = "OVER (PARTITION BY query_id, input)"
_MEAN, _SD = f"avg(score) {_LIST}", f"stddev_pop(score) {_LIST}"
_LOW, _HIGH = f"min(score) {_LIST}", f"max(score) {_LIST}"

EXPRESSIONS: dict[Normalisation, str] = {
    "min_max": f"coalesce((score - {_LOW}) / nullif({_HIGH} - {_LOW}, 0), 1)",
    "theoretical_min_max": f"coalesce((score - minimum) / nullif({_HIGH} - minimum, 0), 1)",
    "z_score": f"coalesce((score - {_LOW}) / nullif({_SD}, 0), 1)",
    "distribution": (
        f"greatest(0, least(1, coalesce((score - ({_MEAN} - 3 * {_SD})) / nullif(6 * {_SD}, 0), "
        "0.5)))"
    ),
    "none": "score",
}
"""Normalisation -> SQL over ``score``, and ``minimum`` of the input."""
