"""The fusions: sums of points for ranks, and sums of normalised scores.

Each input gives each of its items a value, and the values are summed. An item that an input does
not hold gets nothing from it, and one that it holds twice counts once, at its best rank. Values are
summed in their own order: the last bit of a sum depends neither on threads nor on which input gave
which value, so items with the same values tie exactly.

``type: rrf``: reciprocal rank fusion.

Cormack, Clarke and Buettcher: Reciprocal Rank Fusion outperforms Condorcet and individual Rank
Learning Methods, SIGIR 2009: ``score(d) = sum over inputs of 1 / (k + rank(d))``, ranks from
1. With weights, each input's term is multiplied by its weight.

``type: borda`` (Aslam and Montague: Models for Metasearch, SIGIR 2001): of c candidates in the
union of the inputs, an input gives the item at rank r the points c - r + 1; those that it does not
hold share its remaining points evenly.

``type: comb_sum``, ``comb_mnz`` and ``convex``: sums of normalised scores.

- CombSUM: the sum of the normalised scores (Fox and Shaw: Combination of Multiple Searches, TREC-2,
  1994); with weights that sum to 1 it is the convex combination.
- CombMNZ: that sum, times how many inputs hold the item (same paper).

The scores of one input for one query are normalised over its candidates. A normalised score is 0
for the worst that an input could say of an item, so that an item which the input does not hold, and
which gets nothing, never stands above one that it holds.

- ``min_max``: (s - min) / (max - min); 1 when all are equal.
- ``z_score``: (s - mean) / sd of the population, counted from the lowest of the list; 1 when all
  are equal. Counting from the lowest shifts all items of a list by one constant and changes no
  order among them.
- ``none``: the scores as they are.

The rankings of the variants of a query become one by the same rule, each variant an input
(:func:`fuse_variants`). With ``r_v(d)`` the rank and ``s_v(d)`` the score of unit d for variant v:

- ``rrf``: sum over v of ``1 / (k + r_v(d))``, k = 60: RAG-Fusion's use of reciprocal rank fusion;
- ``max``: the largest ``s_v(d)``; ``sum``: the sum of them (CombMAX and CombSUM of Fox and Shaw);
- ``weighted``: the sum of ``w_v * s_v(d)``.

A ranking that does not hold d adds nothing. Scores are taken as they are: they come from one
retriever, but those of a longer text may be larger, which ``rrf`` does not see.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import isclose
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, ValidationInfo, field_validator

from rag_assets.options import MAX_DEPTH, Number
from rag_assets.query_sets.variants import Method
from rag_assets.retrieval.fusion.base import FusedRetriever, Weight
from rag_assets.schemas import RUNS
from rag_assets.store.canonical import take_rows

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


class Contributions(NamedTuple):
    """A row for each query, item and input that holds it, sorted by these.

    Attributes:
        rows: where each row is in the stacked rankings, shape (rows,), as are all others.
        queries: number of the query, in the order of the ids' bytes.
        items: number of the item, in the same order.
        inputs: number of the input.
        ranks: from 1.
        scores: of the input.
    """

    rows: Numbers
    queries: Numbers
    items: Numbers
    inputs: Numbers
    ranks: Numbers
    scores: Floats

    @property
    def lists(self) -> Numbers:
        """Number of the list that a row is of: one query's items in one input."""
        n_inputs = 1 + int(self.inputs.max(initial=0))
        return self.queries * n_inputs + self.inputs

    @property
    def lowest(self) -> Floats:
        """The lowest score of each row's list."""
        low = np.full(1 + int(self.lists.max(initial=-1)), np.inf)
        np.minimum.at(low, self.lists, self.scores)
        return low[self.lists]

    @property
    def highest(self) -> Floats:
        """The highest score of each row's list."""
        high = np.full(1 + int(self.lists.max(initial=-1)), -np.inf)
        np.maximum.at(high, self.lists, self.scores)
        return high[self.lists]

    @property
    def firsts(self) -> Numbers:
        """The first row of each item of a query."""
        return np.flatnonzero(_changes(self.queries, self.items))

    @property
    def sizes(self) -> Numbers:
        """How many inputs hold each item of a query."""
        return np.diff(self.firsts, append=self.rows.size)


class SumFusion(FusedRetriever, ABC):
    """A fusion by the sum of what each input gives an item.

    Attributes:
        times_held: whether a sum is multiplied by how many inputs hold the item.
    """

    times_held: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ("numpy",)

    @abstractmethod
    def value(self, held: Contributions) -> Floats:
        """Return what an input gives an item, for each contribution."""

    def fuse(self, rankings: Sequence[pa.Table], *, candidates: int, depth: int) -> pa.Table:
        """Fuse rankings by the sum of the values."""
        stacked = pa.concat_tables(table.select(RUNS.arrow().names) for table in rankings)
        inputs = np.repeat(np.arange(len(rankings)), [table.num_rows for table in rankings])
        factors = np.array(self.weights or np.ones(len(rankings)), dtype=np.float64)
        held = _contributions(stacked, inputs, candidates)
        scores = _sums(self.value(held) * factors[held.inputs], held)
        if self.times_held:
            scores *= held.sizes
        return _ranked(stacked, held, scores, depth)


def _ranked(stacked: pa.Table, held: Contributions, scores: Floats, depth: int) -> pa.Table:
    """Return the first ranks of each query by the scores of its items, sorted by query id.

    The chunk of a fused unit is that of the input which ranks the unit highest; the first input
    wins a tie.
    """
    firsts = held.firsts
    queries = held.queries[firsts]
    order = np.lexsort((-held.items[firsts], -scores, queries))
    ranks = _places(queries[order]) + 1
    top = order[ranks <= depth]
    items = np.repeat(np.arange(firsts.size), held.sizes)
    highest = np.lexsort((held.ranks, items))[firsts]  # of equal ranks, that of the first input
    rows = held.rows[highest[top]]
    texts = {
        name: take_rows(stacked[name], rows)
        for name in ("query_id", "unit_id", "chunk_id", "document_id")
    }
    columns = {**texts, "rank": ranks[ranks <= depth], "score": scores[top]}
    return RUNS.check(pa.table(columns).select(RUNS.arrow().names).cast(RUNS.arrow()))


RRF_K = 60


def fuse_variants(
    rankings: pa.Table,
    variants: Numbers,
    method: Method,
    *,
    depth: int,
    weights: Sequence[float] = (),
) -> pa.Table:
    """Return the fused rankings of the variants of each query, as ``RUNS`` sorted by query id.

    Args:
        rankings: ``RUNS``, of all variants.
        variants: which one each row is of; 0 for the original text.
        method: how.
        depth: how many ranks are kept.
        weights: of ``weighted``, by the variant's number; the last one holds for all further
            variants. A ranking of weight 0 takes no part: with (0, 1) the original counts only
            for queries for which no other variant has hits.
    """
    held = _contributions(rankings, variants)
    values = 1 / (RRF_K + held.ranks) if method == "rrf" else held.scores
    if method == "weighted":
        factors = np.array(weights, dtype=np.float64)[np.minimum(held.inputs, len(weights) - 1)]
        most = np.zeros(1 + int(held.queries.max(initial=0)))
        np.maximum.at(most, held.queries, factors)
        factors = np.where(most[held.queries] > 0, factors, held.inputs == 0)
        values = (factors * values)[factors > 0]
        held = Contributions._make(column[factors > 0] for column in held)
    largest = method == "max"
    scores = np.maximum.reduceat(values, held.firsts) if largest else -_sums(-values, held)
    return _ranked(rankings, held, scores, depth)


class RRF(SumFusion):
    """Reciprocal rank fusion of other retrievers: the sum of weight / (k + rank).

    ``candidates`` is the depth to which each input is read: a number, or ``top_k`` to fuse the
    lists already cut at the cell's top_k.
    """

    type: Literal["rrf"]
    k: Number = Field(default=RRF_K, gt=0)

    def value(self, held: Contributions) -> Floats:
        return 1 / (self.k + held.ranks)


class Borda(SumFusion):
    """Borda count: points for every item that an input ranks lower, or does not hold."""

    type: Literal["borda"]

    def value(self, held: Contributions) -> Floats:
        union = np.bincount(held.queries[held.firsts])[held.queries]
        of_input = np.bincount(held.lists)[held.lists]
        return (union - held.ranks + 1) - (union - of_input + 1) / 2


class CombSum(SumFusion):
    """CombSUM: the sum of the normalised scores, times the weights.

    ``normalisation`` makes the scores of the inputs comparable.
    """

    type: Literal["comb_sum"]
    normalisation: Literal["min_max", "z_score", "none"] = "min_max"

    def value(self, held: Contributions) -> Floats:
        if self.normalisation == "none":
            return held.scores
        low, shares = held.lowest, np.ones(held.scores.size)
        spread = held.highest - low
        whole = spread if self.normalisation == "min_max" else _sd(held)
        np.divide(held.scores - low, whole, out=shares, where=(spread != 0) & (whole != 0))
        return shares


class CombMnz(CombSum):
    """CombMNZ: the sum of the normalised scores, times how many inputs hold the item."""

    times_held: ClassVar[bool] = True

    type: Literal["comb_mnz"]  # type: ignore[assignment]


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


def _sd(held: Contributions) -> Floats:
    """Return the standard deviation of each row's list."""
    lists = held.lists
    return np.sqrt(_means((held.scores - _means(held.scores, lists)) ** 2, lists))


def _means(values: Floats, lists: Numbers) -> Floats:
    sizes = np.maximum(np.bincount(lists), 1)
    sums = np.bincount(lists, weights=values).astype(np.float64)
    return (sums / sizes)[lists]


def _sums(values: Floats, held: Contributions) -> Floats:
    """Return the sum of each item's values, the largest first."""
    items = np.repeat(np.arange(held.firsts.size), held.sizes)
    order = np.lexsort((-values, items))
    return np.bincount(items, weights=values[order]).astype(np.float64)


def _places(queries: Numbers) -> Numbers:
    """Return the place of each row among those of its query, from 0; queries are in order."""
    starts = np.flatnonzero(np.diff(queries, prepend=-1))
    return np.arange(queries.size) - np.repeat(starts, np.diff(starts, append=queries.size))


def _contributions(
    stacked: pa.Table, inputs: Numbers, candidates: int = MAX_DEPTH
) -> Contributions:
    """Return what rankings hold.

    Args:
        stacked: tables of :data:`rag_assets.schemas.RUNS`, one below the other.
        inputs: number of the input of each row.
        candidates: how many ranks of each input are read.
    """
    ranks = stacked["rank"].to_numpy().astype(np.int64)
    rows = np.flatnonzero(ranks <= candidates)
    queries, items = _numbered(stacked["query_id"]), _numbered(stacked["unit_id"])
    rows = rows[np.lexsort((ranks[rows], inputs[rows], items[rows], queries[rows]))]
    rows = rows[_changes(queries[rows], items[rows], inputs[rows])]
    scores = stacked["score"].to_numpy()[rows]
    return Contributions(rows, queries[rows], items[rows], inputs[rows], ranks[rows], scores)


def _numbered(ids: pa.ChunkedArray) -> Numbers:
    """Return a number for each id, in the order of their UTF-8 bytes."""
    encoded = ids.dictionary_encode()
    if not len(encoded):
        return np.empty(0, dtype=np.int64)
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    order = pc.sort_indices(encoded.chunk(0).dictionary).to_numpy()
    places = np.empty(order.size, dtype=np.int64)
    places[order] = np.arange(order.size)
    return places.take(codes)


def _changes(*columns: Numbers) -> npt.NDArray[np.bool_]:
    """Return where any of the columns is another than in the row before."""
    changed = np.zeros(columns[0].size, dtype=bool)
    changed[:1] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return changed
