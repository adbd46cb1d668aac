"""What users did with what a search showed them: means, differences, interleaving, agreement.

Of a search: ``ctr``, the share of the results that were clicked (of all results together in a
mean); ``reciprocal_rank`` of the first result clicked, 0 without one; ``abandonment``, whether
nothing was clicked. Users are the independent units.

**Differences.** The influence of a user on a mean sum(S) / sum(W) is (S_u - mean * W_u) / sum(W),
on a difference that on the second less that on the first. The n users count as the values
difference + n * influence: whoever saw both retrievers is a pair, and nobody has to. Two extreme
users are added as in :mod:`rag_assets.statistics.intervals`.

**Team-draft interleaving** (Radlinski, Kurup and Joachims, How does clickthrough data reflect
retrieval quality?, CIKM 2008). The retriever that has added fewer results, or a coin where both
have added as many, adds its best one that is not there yet. The one whose results get more clicks
wins. The mean is of 1/2 (the second won), 0 and -1/2; the test flips users at random.

**Agreement** is the share of pairs of retrievers that two metrics order alike: a U-statistic, whose
variance is at most that of n // 2 independent pairs of n retrievers (Hoeffding 1963), so its
interval is Wilson's of so many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from rag_assets.evaluation.metric_names import is_gain
from rag_assets.statistics.comparisons import holm
from rag_assets.statistics.intervals import bounded_intervals, number_or_none, wilson
from rag_assets.statistics.paired_differences import PairedDifferences
from rag_assets.statistics.paired_tests import spread
from rag_assets.statistics.units import Counted, Floats, Resampling, Units, units_of, weighted_mean

Row = dict[str, Any]

LEVEL = 0.95
ONLINE_METRICS = ("ctr", "reciprocal_rank", "abandonment")


def online_values(rows: Sequence[Row]) -> tuple[Floats, Floats]:
    """Return values and weights of searches, shape (rows, :data:`ONLINE_METRICS`)."""
    n, clicks = (np.array([float(len(row[key])) for row in rows]) for key in ("results", "clicks"))
    first = [1 / min(row["clicks"], default=np.inf) for row in rows]
    values = np.column_stack([clicks / np.maximum(n, 1), first, clicks == 0])
    return values, np.column_stack([n, np.ones((len(rows), 2))])


def means(names: Sequence[str], values: Floats, weights: Floats, users: Sequence[str]) -> Row:
    """Return the mean of each named column, in [0, 1], with its 95 % interval."""
    units = units_of(values, weights, users)
    row: Row = {"n": int(weights[:, -1].sum()), "users": len(set(users))}
    bounds = zip(*bounded_intervals(units, LEVEL, 0.0, _most(values)), strict=True)
    for number, (name, ends) in enumerate(zip(names, bounds, strict=True)):
        row |= _bounded(name, weighted_mean(*units.column(number)), *ends)
    return row


def _most(values: Floats) -> Floats:
    """Return the largest value of a search, of each column; 1 where there is none above 0."""
    most = values.max(axis=0, initial=0.0)
    return np.where(most > 0, most, 1.0)


def _bounded(name: str, value: float | None, low: float, high: float) -> Row:
    ends = {f"{name}_low": number_or_none(low), f"{name}_high": number_or_none(high)}
    return {name: value, **ends}


def differences(searches: Mapping[str, Sequence[Row]]) -> list[Row]:
    """Return a row a metric and pair of retrievers: the second minus the first."""
    rows: list[Row] = []
    for a, b in combinations(searches, 2):
        both = [*searches[a], *searches[b]]
        values, weights = online_values(both)
        second = np.arange(len(both))[:, None] >= len(searches[a])
        sides = [np.where(second, np.nan, values), np.where(second, values, np.nan)]
        users = [row["user"] for row in both]
        units = units_of(np.hstack(sides), np.hstack([weights, weights]), users)
        for number, metric in enumerate(ONLINE_METRICS):
            at = [number, number + len(ONLINE_METRICS)]
            reach = float(_most(values)[number])
            compared = user_difference(units.sums[:, at], units.weights[:, at], reach)
            rows.append({"retriever_a": a, "retriever_b": b, "metric": metric, **compared})
    for metric in ONLINE_METRICS:
        _adjust([row for row in rows if row["metric"] == metric])
    return rows


def _adjust(family: Sequence[Row]) -> None:
    for row, p in zip(family, holm([row["p"] for row in family]), strict=True):
        row["p_adjusted"] = p


def user_difference(sums: Floats, weights: Floats, reach: float = 1.0) -> Row:
    """Return the difference of two means, at most ``reach``.

    ``sums`` and ``weights`` are those of each user, shape (users, 2).
    """
    from scipy.special import stdtr

    saw, n = weights > 0, len(weights)
    row = {"design": "paired" if saw.all(axis=1).any() else "unpaired", "users": n}
    if saw.sum(axis=0).min() < 2:
        return row | _bounded("difference", None, np.nan, np.nan) | {"p": None}
    total = weights.sum(axis=0)
    means = sums.sum(axis=0) / total
    difference = float(means[1] - means[0])
    influence = np.diff((sums - means * weights) / total)
    units = Units(difference + n * influence, np.ones((n, 1)))
    (low,), (high,) = bounded_intervals(units, LEVEL, -reach, reach)
    wide = spread(np.append(units.sums, [-reach, reach]), np.ones(n + 2))
    p = float(2 * stdtr(n + 1, -abs(wide.mean) / wide.error)) if wide else None
    return row | _bounded("difference", difference, low, high) | {"p": p}


def team_draft(
    first: Sequence[str], second: Sequence[str], top_k: int, coins: Iterator[int]
) -> tuple[list[str], list[int]]:
    """Return an interleaved list, and of each result which retriever added it, 0 or 1.

    Where one has nothing left to add the other goes on. ``coins`` are asked where both added as
    many.
    """
    results: list[str] = []
    teams: list[int] = []
    while len(results) < top_k:
        left = [[unit for unit in ranking if unit not in results] for ranking in (first, second)]
        lead = teams.count(0) - teams.count(1)
        team = next(coins) if lead == 0 else int(lead > 0)
        team = team if left[team] else 1 - team
        if not left[team]:
            break
        results.append(left[team][0])
        teams.append(team)
    return results, teams


def coin_throws(n_lists: int, top_k: int, seed: int) -> list[list[int]]:
    """Return the coins of some lists: each throw stands beside its opposite.

    So equal rankings win equally often, however few lists there are.
    """
    drawn = np.random.Generator(np.random.PCG64(seed)).integers(0, 2, (n_lists, 1, top_k))
    throws: list[list[int]] = np.hstack([drawn, 1 - drawn]).reshape(-1, top_k)[:n_lists].tolist()
    return throws


def preferences(searches: Sequence[Row], resampling: Resampling) -> list[Row]:
    """Return a row a pair of retrievers whose results were interleaved."""
    pairs: dict[tuple[str, ...], list[tuple[str, float]]] = {}
    for row in searches:
        a, b = pair = tuple(sorted(row["names"]))
        added = [row["names"][row["teams"][rank - 1]] for rank in row["clicks"]]
        won = float(np.sign(added.count(b) - added.count(a)) / 2)
        pairs.setdefault(pair, []).append((row["user"], won))
    rows: list[Row] = []
    for (a, b), of_pair in sorted(pairs.items()):
        users, values = zip(*of_pair, strict=True)
        counted = Counted("all", users, np.ones(len(users)), users)
        tested = PairedDifferences(counted, np.array(values)[:, None])
        (low,), (high,) = tested.intervals(LEVEL, 0.5)
        wins = {"wins_a": values.count(-0.5), "wins_b": values.count(0.5)}
        row = {"retriever_a": a, "retriever_b": b, "metric": "interleaving", "n": len(users)}
        row |= wins | _bounded("difference", sum(values) / len(values), low, high)
        rows.append({**row, "users": len(set(users)), "p": tested.p_values(resampling)[0]})
    _adjust(rows)
    return rows


def agreement(metric: str, offline: Mapping[str, float], online: Sequence[Row]) -> Row | None:
    """Return how many pairs both order alike; None where no pair has an order in both.

    Args:
        metric: the offline one.
        offline: its value of each retriever.
        online: differences of an online metric.
    """
    signs: dict[tuple[str, str], bool] = {}
    for row in online:
        a, b = pair = row["retriever_a"], row["retriever_b"]
        if row["difference"] and {a, b} <= offline.keys() and offline[a] != offline[b]:
            is_online_gain = (row["difference"] > 0) != (row["metric"] == "abandonment")
            signs[pair] = is_online_gain == is_gain(metric, offline[b] - offline[a])
    if not signs:
        return None
    share, n = sum(signs.values()) / len(signs), len({name for pair in signs for name in pair})
    bounds = wilson(share, n // 2, LEVEL)
    return {"pairs": len(signs), "retrievers": n, **_bounded("agreement", share, *bounds)}
