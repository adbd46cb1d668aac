"""The fusions: sums of points for ranks, and sums of normalised scores.

``type: rrf``: reciprocal rank fusion.

Cormack, Clarke and Buettcher: Reciprocal Rank Fusion outperforms Condorcet and individual Rank
Learning Methods, SIGIR 2009: ``score(d) = sum over inputs of 1 / (k + rank(d))``, ranks from 1. An
item that an input does not hold gets nothing from it, and one that it holds twice counts once, at
its best rank. With weights, each input's term is multiplied by its weight.

``type: borda`` and ``type: isr``: sums of points for ranks.

- Borda (Aslam and Montague: Models for Metasearch, SIGIR 2001): of c candidates in the union of the
  inputs, an input gives the item at rank r the points c - r + 1; those that it does not hold share
  its remaining points evenly.
- ISR (Mourao, Martins and Magalhaes: NovaSearch at TREC 2013 Federated Web Search Track): the sum
  of 1 / rank^2, times how many inputs hold the item.

``type: comb_sum``, ``comb_mnz`` and ``convex``: sums of normalised scores.

- CombSUM: the sum of the normalised scores (Fox and Shaw: Combination of Multiple Searches, TREC-2,
  1994); with weights that sum to 1 it is the convex combination.
- CombMNZ: that sum, times how many inputs hold the item (same paper).

The scores of one input for one query are normalised. A normalised score is 0 for the worst that an
input could say of an item, so that an item which the input does not hold, and which gets nothing,
never stands above one that it holds.

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

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import isclose
from typing import ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, ValidationInfo, field_validator, model_validator

from rag_assets.options import Number
from rag_assets.retrieval.derived import FusedRetriever, Weight
from rag_assets.retrieval.fusion.sum_of_values import (
    Contributions,
    Floats,
    Numbers,
    ValueOf,
    fuse,
)


class SumFusion(FusedRetriever, ABC):
    """A fusion by the sum of what each input gives an item."""

    times_held: ClassVar[bool] = False
    """Whether a sum is multiplied by how many inputs hold the item."""
    packages: ClassVar[tuple[str, ...]] = ("numpy",)

    @abstractmethod
    def value(self, held: Contributions) -> Floats:
        """Return what an input gives an item, for each contribution."""

    def lowest_scores(self) -> Sequence[float] | None:
        """Return the lowest score that each input could give; None where that is not needed."""
        return None

    def fuse(self, rankings: Sequence[pa.Table], *, candidates: int, depth: int) -> pa.Table:
        """Fuse rankings by the sum of the values."""
        return fuse(
            rankings,
            value=self.value,
            times_held=self.times_held,
            candidates=candidates,
            depth=depth,
            weights=self.weights,
            minima=self.lowest_scores(),
        )


class RRF(SumFusion):
    """Reciprocal rank fusion of other retrievers: the sum of weight / (k + rank).

    ``candidates`` is the depth to which each input is read: a number, or ``top_k`` to fuse the
    lists already cut at the cell's top_k.
    """

    type: Literal["rrf"]
    k: Number = Field(default=60, gt=0)

    def value(self, held: Contributions) -> Floats:
        """Return 1 / (k + rank)."""
        return 1 / (self.k + held.ranks)


class Borda(SumFusion):
    """Borda count: points for every item that an input ranks lower, or does not hold."""

    type: Literal["borda"]

    def value(self, held: Contributions) -> Floats:
        """Return Borda points above those of an absent item."""
        union = np.bincount(held.queries[held.firsts])[held.queries]
        of_input = np.bincount(held.lists)[held.lists]
        return (union - held.ranks + 1) - (union - of_input + 1) / 2


class InverseSquareRank(SumFusion):
    """Inverse square rank: the sum of 1 / rank^2, times how many inputs hold the item."""

    times_held: ClassVar[bool] = True

    type: Literal["isr"]

    def value(self, held: Contributions) -> Floats:
        """Return 1 / rank^2."""
        return 1 / held.ranks**2


Normalisation = Literal["min_max", "theoretical_min_max", "z_score", "distribution", "none"]


class ScoreSum(SumFusion):
    """A fusion of scores.

    ``normalisation`` makes the scores of the inputs comparable; ``theoretical_min_max`` needs
    ``minima``: the lowest score that each input could give, such as -1 for a cosine, 0 for BM25.
    """

    normalisation: Normalisation = "min_max"
    minima: tuple[Number, ...] | None = Field(default=None, min_length=2)

    @model_validator(mode="after")
    def _has_minima(self) -> Self:
        required = len(self.inputs) if self.normalisation == "theoretical_min_max" else 0
        given = len(self.minima or ())
        if given != required:
            raise ValueError(
                f"normalisation {self.normalisation} takes {required} minima, one an input; "
                f"found {given}"
                if required
                else f"minima belong to normalisation theoretical_min_max, not {self.normalisation}"
            )
        return self

    def value(self, held: Contributions) -> Floats:
        """Return the normalised scores."""
        return NORMALISED[self.normalisation](held)

    def lowest_scores(self) -> Sequence[float] | None:
        """Return ``minima``."""
        return self.minima


class CombSum(ScoreSum):
    """CombSUM: the sum of the normalised scores, times the weights."""

    type: Literal["comb_sum"]


class CombMnz(ScoreSum):
    """CombMNZ: the sum of the normalised scores, times how many inputs hold the item."""

    times_held: ClassVar[bool] = True

    type: Literal["comb_mnz"]


class Convex(CombSum):
    """Convex combination: the sum of weight times normalised score; the weights sum to 1.

    Without ``weights`` every input has the same.
    """

    type: Literal["convex"]  # type: ignore[assignment]
    weights: tuple[Weight, ...] | None = None

    @field_validator("weights")
    @classmethod
    def _sum_to_one(
        cls, weights: tuple[float, ...] | None, info: ValidationInfo
    ) -> tuple[float, ...] | None:
        if weights is not None and not isclose(sum(weights), 1, abs_tol=1e-9):
            raise ValueError(f"must sum to 1; they sum to {sum(weights):g}")
        if weights is None and info.data.get("inputs"):
            return (1 / len(info.data["inputs"]),) * len(info.data["inputs"])
        return weights


def _above(held: Contributions, low: Floats, whole: Floats) -> Floats:
    return _share(held.scores - low, whole, 1.0)


def _distribution(held: Contributions) -> Floats:
    mean, sd = _mean_and_sd(held)
    return np.clip(_share(held.scores - (mean - 3 * sd), 6 * sd, 0.5), 0, 1)


NORMALISED: Mapping[Normalisation, ValueOf] = {
    "min_max": lambda held: _above(held, held.lowest, held.highest - held.lowest),
    "theoretical_min_max": lambda held: _above(held, held.minima, held.highest - held.minima),
    "z_score": lambda held: _above(held, held.lowest, _mean_and_sd(held)[1]),
    "distribution": _distribution,
    "none": lambda held: held.scores,
}
"""Normalisation -> the scores that it makes."""


def _mean_and_sd(held: Contributions) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of each row's list; 0 where all are equal."""
    lists = held.lists
    mean = _means(held.scores, lists)
    sd = np.sqrt(_means((held.scores - mean) ** 2, lists))
    return mean, np.where(held.lowest == held.highest, 0.0, sd)


def _means(values: Floats, lists: Numbers) -> Floats:
    sizes = np.maximum(np.bincount(lists), 1)
    sums = np.bincount(lists, weights=values).astype(np.float64)
    return (sums / sizes)[lists]


def _share(part: Floats, whole: Floats, otherwise: float) -> Floats:
    """Return part / whole, and something else where the whole is 0."""
    shares = np.full(part.size, otherwise)
    np.divide(part, whole, out=shares, where=whole != 0)
    return shares
