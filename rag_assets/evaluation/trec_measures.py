"""Measures of trec_eval that a run is scored by beside ours: formulas, and lists of names.

They read what trec_eval reads: the grades of the retrieved units by rank, and all grades of the
qrels. A grade below 0 means pooled and not judged. The formulas are those of its ``m_*.c``. Metrics
that are functions of a caller read the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import exp, fsum, log, log2
from typing import NamedTuple

CUTOFFS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
RECALLS = tuple(f"{level / 10:.2f}" for level in range(11))
LEAST = 0.00001
"""What a geometric mean takes for 0, and infAP for nothing judged."""


class TrecQuery(NamedTuple):
    """One query as trec_eval sees it.

    Attributes:
        ranked: the grade of the unit at each rank; None: the qrels lack it.
        judged: all grades of the qrels.
    """

    ranked: Sequence[int | None]
    judged: Sequence[int]

    @property
    def r(self) -> int:
        """How many units are relevant."""
        return sum(grade > 0 for grade in self.judged)

    @property
    def hits(self) -> list[bool]:
        """Whether the unit at each rank is relevant."""
        return [(grade or 0) > 0 for grade in self.ranked]

    @property
    def ideal(self) -> list[int]:
        """The relevant grades, the highest first."""
        return sorted((grade for grade in self.judged if grade > 0), reverse=True)


def _precisions(query: TrecQuery) -> Iterator[float]:
    """Yield the precision at each rank that is relevant."""
    for number, rank in enumerate((i for i, hit in enumerate(query.hits, 1) if hit), 1):
        yield number / rank


def _set_precision(query: TrecQuery) -> float:
    return sum(query.hits) / len(query.ranked) if query.ranked else 0.0


def _set_recall(query: TrecQuery) -> float:
    return sum(query.hits) / query.r


def _set_f(query: TrecQuery) -> float:
    precision, recall = _set_precision(query), _set_recall(query)
    return 2 * precision * recall / (precision + recall) if recall else 0.0


def _interpolated(query: TrecQuery, recall: float) -> float:
    """Return the best precision at this recall or more, as ``m_iprec_at_recall.c`` rounds it."""
    needed = max(1, int(recall * query.r + 0.9))
    return max([*_precisions(query)][needed - 1 :], default=0.0)


def _eleven_points(query: TrecQuery) -> float:
    return fsum(_interpolated(query, float(level)) for level in RECALLS) / len(RECALLS)


def _inferred_precision(query: TrecQuery) -> float:
    """Return the AP that is expected of a sampled pool (Yilmaz and Aslam 2006)."""
    total, relevant, others, open_units = 0.0, 0, 0, 0
    for above, grade in enumerate(query.ranked):
        if grade is None:
            continue
        if grade < 0:
            open_units += 1
        elif grade == 0:
            others += 1
        else:
            pooled = (relevant + others + open_units) / above if above else 0.0
            share = (relevant + LEAST) / (relevant + others + 2 * LEAST)
            total += 1 / (above + 1) + above / (above + 1) * pooled * share
            relevant += 1
    return total / query.r


def _dcg(grades: Sequence[int | None]) -> list[float]:
    """Return the discounted cumulative gain down to each rank."""
    sums, total = [], 0.0
    for rank, grade in enumerate(grades, 1):
        total += max(grade or 0, 0) / log2(rank + 1)
        sums.append(total)
    return sums


def _ndcg_at_relevant(query: TrecQuery) -> float:
    """Return the mean of nDCG at the ranks of relevant units; at the end where one is not there."""
    best, gained = _dcg(query.ideal), _dcg(query.ranked)
    values = [gained[i] / best[min(i, query.r - 1)] for i, hit in enumerate(query.hits) if hit]
    at_end = gained[-1] / best[-1] if gained else 0.0
    return (fsum(values) + (query.r - len(values)) * at_end) / query.r


def _ndcg_at_levels(query: TrecQuery) -> float:
    """Return the mean of nDCG where the ideal ranking goes to a lower grade, and at the end.

    As in ``m_Rndcg.c`` the end counts where it is two ranks or more below the last relevant one.
    """
    best, gained = _dcg(query.ideal), _dcg(query.ranked) or [0.0]
    grades = [*query.ideal, 0]
    ends = [rank for rank in range(1, len(grades)) if grades[rank] < grades[rank - 1]]
    values = [gained[min(rank, len(gained)) - 1] / best[rank - 1] for rank in ends]
    values += [gained[-1] / best[-1]] if len(gained) > query.r + 1 else []
    return fsum(values) / len(values)


SINGLE: Mapping[str, Callable[[TrecQuery], float]] = {
    "num_ret": lambda query: float(len(query.ranked)),
    "num_rel": lambda query: float(query.r),
    "num_nonrel_judged_ret": lambda query: float(sum(grade == 0 for grade in query.ranked)),
    "set_P": _set_precision,
    "set_map": lambda query: _set_precision(query) * _set_recall(query),
    "set_F": _set_f,
    "11pt_avg": _eleven_points,
    **{
        f"iprec_at_recall_{level}": partial(_interpolated, recall=float(level)) for level in RECALLS
    },
    "infAP": _inferred_precision,
    "ndcg_rel": _ndcg_at_relevant,
    "Rndcg": _ndcg_at_levels,
}
"""Name -> the value of a query with something relevant."""

GEOMETRIC = {"gm_map": "map", "gm_bpref": "bpref"}
"""Name of a geometric mean -> the metric of a query."""

QUERIES = "num_q"
"""How many queries are averaged."""

OFFICIAL = (
    *(QUERIES, "num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref"),
    *("recip_rank", *(f"iprec_at_recall_{level}" for level in RECALLS)),
    *(f"P_{k}" for k in CUTOFFS),
)
LISTS = {
    "official": OFFICIAL,
    "iprec_at_recall": tuple(f"iprec_at_recall_{level}" for level in RECALLS),
    "all_trec": (
        *OFFICIAL,
        *("num_nonrel_judged_ret", "gm_bpref", "11pt_avg", "infAP", "ndcg", "ndcg_rel", "Rndcg"),
        *("set_P", "set_recall", "set_map", "set_F"),
        *(f"{name}_{k}" for name in ("recall", "ndcg_cut", "map_cut") for k in CUTOFFS),
        *(f"success_{k}" for k in (1, 5, 10)),
    ),
}
"""Names that stand for several, as with ``trec_eval -m``."""


def geometric_mean(values: Sequence[float]) -> float | None:
    """Return exp of the mean of logarithms, of nothing below :data:`LEAST`; None without values."""
    if not values:
        return None
    return exp(fsum(log(max(value, LEAST)) for value in values) / len(values))
