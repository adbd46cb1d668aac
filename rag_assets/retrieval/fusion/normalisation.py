"""Normalisations of the scores of one input for one query.

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

from collections.abc import Mapping
from typing import Literal

import numpy as np

from rag_assets.retrieval.fusion.contributions import Contributions, Floats, Numbers
from rag_assets.retrieval.fusion.sum_of_values import ValueOf

Normalisation = Literal["min_max", "theoretical_min_max", "z_score", "distribution", "none"]


def _min_max(found: Contributions) -> Floats:
    low, high = _bounds(found)
    return _share(found.scores - low, high - low, 1.0)


def _theoretical_min_max(found: Contributions) -> Floats:
    _, high = _bounds(found)
    return _share(found.scores - found.minima, high - found.minima, 1.0)


def _z_score(found: Contributions) -> Floats:
    low, _ = _bounds(found)
    return _share(found.scores - low, _mean_and_sd(found)[1], 1.0)


def _distribution(found: Contributions) -> Floats:
    mean, sd = _mean_and_sd(found)
    return np.clip(_share(found.scores - (mean - 3 * sd), 6 * sd, 0.5), 0, 1)


NORMALISED: Mapping[Normalisation, ValueOf] = {
    "min_max": _min_max,
    "theoretical_min_max": _theoretical_min_max,
    "z_score": _z_score,
    "distribution": _distribution,
    "none": lambda found: found.scores,
}
"""Normalisation -> the scores that it makes."""


def _bounds(found: Contributions) -> tuple[Floats, Floats]:
    """Return the lowest and the highest score of each row's list."""
    lists = found.lists
    n_lists = 1 + int(lists.max(initial=-1))
    low, high = np.full(n_lists, np.inf), np.full(n_lists, -np.inf)
    np.minimum.at(low, lists, found.scores)
    np.maximum.at(high, lists, found.scores)
    return low[lists], high[lists]


def _mean_and_sd(found: Contributions) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of each row's list; 0 where all are equal."""
    lists = found.lists
    low, high = _bounds(found)
    mean = _means(found.scores, lists)
    sd = np.sqrt(_means((found.scores - mean) ** 2, lists))
    return mean, np.where(low == high, 0.0, sd)


def _means(values: Floats, lists: Numbers) -> Floats:
    sizes = np.maximum(np.bincount(lists), 1)
    sums = np.bincount(lists, weights=values).astype(np.float64)
    return (sums / sizes)[lists]


def _share(part: Floats, whole: Floats, otherwise: float) -> Floats:
    """Return part / whole, and something else where the whole is 0."""
    shares = np.full(part.size, otherwise)
    np.divide(part, whole, out=shares, where=whole != 0)
    return shares
