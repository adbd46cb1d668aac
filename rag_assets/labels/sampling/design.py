"""Which items are asked, in which order, and with what probability.

Each item has a permanent random number E, exponential with mean 1, made from a hash: of its
question, its span and a seed. It is asked when its hazard reaches E. Hazards grow with a clock,
each at the rate of its item, so an item was asked by a time with probability 1 - exp(-hazard),
whatever the others did. (Poisson sampling with permanent random numbers: Brewer, Early and Joyce
1972; Ohlsson 1995, "Coordination of samples using permanent random numbers".)

Seen one by one it is sampling without replacement in which the next item is each of the remaining
ones with probability rate / sum of their rates; so a sequence of looks can be analysed too.

The rate is the disagreement of the systems: the standard deviation over systems of the item's
discount 1 / log2(rank + 1), plus a floor. It never depends on a label. When systems join, an epoch
ends: rates go on, larger or equal, and new items start with hazard 0. What was asked stays asked.

The clock is that of the first item not yet asked. With that rule, sums weighted by 1 / probability
are unbiased also after a fixed number of judgments (Duffield, Lund and Thorup 2007, "Priority
sampling for estimation of arbitrary subset sums"; Cohen and Kaplan 2007, rank conditioning).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from rag_assets.errors import DataError
from rag_assets.labels.pool import Flags, Floats, Integers, PooledUnit
from rag_assets.sources.fields import Place
from rag_assets.sources.row_files import read_objects
from rag_assets.store.atomic import write_text
from rag_assets.store.canonical import canonical_json, permanent_hash

FLOOR = 0.6
"""Least rate, as a share of the mean disagreement: no probability is 0, and items that all systems
rank alike are asked often enough for the level of a system, not only for its differences. Chosen on
the even questions of Cranfield: the least with which the values of systems err by at most 5 % more
than with the best; the odd ones agree (benchmarks/label_sampling_floor.py)."""

ALMOST_ONE = 1 - 1e-9


@dataclass(frozen=True)
class Design:
    """Items, their random numbers, and how fast they were asked in each epoch.

    Attributes:
        items: in the order of the pool.
        numbers: E, shape (items,).
        rates: shape (epochs, items); 0 before an item was there.
        durations: of the epochs that have ended, one fewer than there are epochs.
        seed: of the random numbers.
    """

    items: tuple[PooledUnit, ...]
    numbers: Floats
    rates: Floats
    durations: tuple[float, ...] = ()
    seed: int = 0

    @property
    def starts(self) -> Floats:
        """The clock at the beginning of each epoch."""
        return np.concatenate([[0.0], np.cumsum(self.durations)])

    def hazards(self, clock: float) -> Floats:
        """Return the hazard of each item at a time."""
        lengths = np.clip(clock - self.starts, 0.0, [*self.durations, math.inf])
        return np.asarray(lengths @ self.rates)

    def probabilities(self, clock: float) -> Floats:
        """Return with what probability each item was asked by a time."""
        return np.asarray(-np.expm1(-self.hazards(clock)))

    def drawn_probabilities(self, answered: Flags) -> Floats:
        """Return with what probability each item was asked, by the last one that was answered.

        They are below 1 also where all were asked: in the log, 1 says that an item was not drawn.
        """
        return np.minimum(self.probabilities(self.clock(answered)), ALMOST_ONE)

    def arrivals(self) -> Floats:
        """Return the time at which each item is asked."""
        times = np.full(len(self.items), math.inf)
        hazard = np.zeros(len(self.items))
        epochs = zip(self.starts, [*self.durations, math.inf], self.rates, strict=True)
        for start, length, rates in epochs:
            is_new, never = np.isinf(times), np.full_like(times, math.inf)
            wait = np.divide(self.numbers - hazard, rates, out=never, where=rates > 0)
            times = np.where(is_new & (wait <= length), start + wait, times)
            if math.isfinite(length):
                hazard = hazard + rates * length
        return times

    def order(self) -> Integers:
        """Return the numbers of all items in the order in which they are asked."""
        return np.argsort(self.arrivals(), kind="stable")

    def clock(self, answered: Flags) -> float:
        """Return the time of the first item after the last one that was answered or skipped."""
        arrivals = self.arrivals()
        if not answered.any():
            return float(self.starts[-1])
        later = arrivals[arrivals > arrivals[answered].max()]
        return float(max(later.min(initial=math.inf), self.starts[-1]))

    def extended(
        self, items: Sequence[PooledUnit], weights: Floats, drawn: Collection[PooledUnit]
    ) -> Design:
        """Return the design for the systems that are there now: this one where none joined.

        Where some joined a new epoch begins, with rates that are not lower.

        Args:
            items: those of this design first, then the new ones.
            weights: the discounts of all systems that are there now, shape (systems, items).
            drawn: items that were asked so far.
        """
        n_old = len(self.items)
        if tuple(items[:n_old]) != self.items:
            raise ValueError("the items of a design must stay, in their order")
        rates = np.zeros((len(self.rates) + 1, len(items)))
        rates[:-1, :n_old] = self.rates
        rates[-1] = disagreement(weights)
        if n_old == len(items) and (rates[-1] <= self.rates[-1] + 1e-9).all():
            return self
        rates[-1, :n_old] = np.maximum(rates[-1, :n_old], self.rates[-1])
        is_drawn = np.array([item in drawn for item in self.items], np.bool_)
        now = max(float(self.arrivals()[is_drawn].max(initial=0.0)), float(self.starts[-1]))
        return replace(
            self,
            items=tuple(items),
            numbers=np.append(self.numbers, permanent_numbers(items[n_old:], self.seed)),
            rates=rates,
            durations=(*self.durations, now - float(self.starts[-1])),
        )


def new_design(items: Sequence[PooledUnit], weights: Floats, seed: int = 0) -> Design:
    """Return the design of a pool at its beginning; another seed asks other items.

    ``weights`` are the discounts of the systems, shape (systems, items).
    """
    numbers = permanent_numbers(items, seed)
    return Design(tuple(items), numbers, disagreement(weights)[None, :], (), seed)


def disagreement(weights: Floats, floor: float = FLOOR) -> Floats:
    """Return the rate of each item: the deviation over systems of its discount, plus a floor."""
    deviations = weights.std(axis=0) if len(weights) else np.zeros(weights.shape[1])
    mean = float(deviations.mean()) if deviations.size else 0.0
    return np.asarray(deviations + floor * mean) if mean > 0 else np.ones(weights.shape[1])


def permanent_numbers(items: Collection[PooledUnit], seed: int) -> Floats:
    """Return E of each item, which depends on nothing but the item and the seed."""
    numbers = np.empty(len(items))
    for place, item in enumerate(items):
        uniform = (int.from_bytes(permanent_hash(seed, *item)[:8], "big") + 0.5) / 2**64
        numbers[place] = -math.log(uniform)
    return numbers


class _Head(msgspec.Struct):
    seed: int
    durations: tuple[float, ...]


class _Item(msgspec.Struct):
    query_id: str
    document_id: str
    start: int
    end: int
    rates: list[Annotated[float, Meta(ge=0)]]


def write_design(design: Design, file: Path) -> None:
    """Write a design as JSON lines: a head with seed and durations, then a line for each item."""
    lines = [canonical_json({"seed": design.seed, "durations": list(design.durations)})]
    for item, rates in zip(design.items, design.rates.T.tolist(), strict=True):
        lines.append(canonical_json({**item._asdict(), "rates": rates}))
    write_text(file, "\n".join(lines) + "\n")


def read_design(file: Path) -> Design:
    """Read what :func:`write_design` wrote.

    Raises:
        DataError: the file cannot be read, or a line is not what was written.
    """
    lines = read_objects(file)
    place = Place(file, 1)
    try:
        head = msgspec.convert(next(lines)[1], _Head)
        items: list[PooledUnit] = []
        rates: list[list[float]] = []
        for place, row in lines:  # noqa: B007 (for the error)
            line = msgspec.convert(row, _Item)
            if len(line.rates) != len(head.durations) + 1:
                raise msgspec.ValidationError(f"{len(line.rates)} rates")
            items.append(PooledUnit(line.query_id, line.document_id, line.start, line.end))
            rates.append(line.rates)
    except (StopIteration, msgspec.ValidationError) as error:
        problem = f"is not a line of a sampling design ({error}); it was changed by hand"
        raise DataError(problem, file=file, line=place.line) from error
    table = np.array(rates, np.float64).reshape(len(items), len(head.durations) + 1).T
    numbers = permanent_numbers(items, head.seed)
    return Design(tuple(items), numbers, table, head.durations, head.seed)
