"""Measures of trec_eval beside ours: formulas, and lists of names.

The formulas are those of its ``m_*.c``, carried over to evidence as those of
:mod:`rag_assets.evaluation.measures` are. What is no value of a question is there to score a run
alone, as functions of a caller are: of the grades of the ranked units (None: not judged; below 0:
pooled and not judged) and of R.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import exp, fsum, log, log2
from typing import Annotated

from pydantic import Field

from rag_assets.evaluation.measure import JudgedRanking, RankedMetric, RankingMeasure

CUTOFFS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
RECALLS = tuple(f"{level / 10:.2f}" for level in range(11))
LEAST = 0.00001
"""What a geometric mean takes for 0, and infAP for nothing judged."""


def _precisions(ranking: JudgedRanking) -> Iterator[tuple[int, float]]:
    """Yield the evidences satisfied so far and the precision at each rank that is relevant."""
    satisfied, n_satisfied, n_hits = Counter(e.rank for e in ranking.evidences), 0, 0
    for rank, grade in enumerate(ranking.grades, 1):
        if (grade or 0) > 0:
            n_satisfied, n_hits = n_satisfied + satisfied[rank], n_hits + 1
            yield n_satisfied, n_hits / rank


def _interpolated(ranking: JudgedRanking, recall: float) -> float:
    """Return the best precision at this recall or more, as ``m_iprec_at_recall.c`` rounds it."""
    needed = max(1, int(recall * len(ranking.evidences) + 0.9))
    return max((value for n, value in _precisions(ranking) if n >= needed), default=0.0)


def _dcg(gains: Sequence[int]) -> list[float]:
    """Return the discounted cumulative gain down to each rank."""
    sums, total = [], 0.0
    for rank, gain in enumerate(gains, 1):
        total += gain / log2(rank + 1)
        sums.append(total)
    return sums


class InterpolatedPrecision(RankingMeasure):
    """``recall`` is the share of the evidences that must be satisfied."""

    name = "iprec"
    formula = "highest precision at a rank <= k where the recall is at least `recall`"
    source = "trec_eval's iprec_at_recall_0.10 is iprec(recall=0.1)"

    recall: Annotated[float, Field(ge=0, le=1)] = 0.0

    def value(self, ranking: JudgedRanking, k: int) -> float:
        """Return the precision; 0 where so much is not found."""
        return _interpolated(ranking, self.recall)


class ElevenPoints(RankingMeasure):
    """Interpolated precision at eleven levels."""

    name = "eleven_pt_avg"
    formula = "mean of `iprec` at recall 0, 0.1, ..., 1"
    aliases = ("11pt_avg",)

    def value(self, ranking: JudgedRanking, k: int) -> float:
        """Return the mean."""
        return fsum(_interpolated(ranking, float(level)) for level in RECALLS) / len(RECALLS)


class NdcgAtRelevant(RankingMeasure):
    """Mean of nDCG at the ranks that matter."""

    name = "ndcg_rel"
    formula = (
        "mean over evidences of nDCG at the rank that first satisfies it, or at the end of the "
        "first k where none does"
    )
    source = "trec_eval's ndcg_rel"

    def value(self, ranking: JudgedRanking, k: int) -> float:
        """Return the mean."""
        best, gained, r = _dcg(ranking.ideal()), _dcg(ranking.gains()), len(ranking.evidences)
        ranks = [evidence.rank for evidence in ranking.evidences if evidence.rank is not None]
        values = [gained[rank - 1] / best[min(rank, r) - 1] for rank in ranks]
        at_end = gained[-1] / best[-1] if gained else 0.0
        return (fsum(values) + (r - len(values)) * at_end) / r


class NdcgAtLevels(RankingMeasure):
    """As in ``m_Rndcg.c`` the end counts where it is two ranks or more below R."""

    name = "rndcg"
    formula = "mean of nDCG at the ranks where the ideal goes to a lower grade, and at the end"
    source = "trec_eval's Rndcg"

    def value(self, ranking: JudgedRanking, k: int) -> float:
        """Return the mean."""
        best, gained = _dcg(ranking.ideal()), _dcg(ranking.gains()) or [0.0]
        grades = [*ranking.ideal(), 0]
        ends = [rank for rank in range(1, len(grades)) if grades[rank] < grades[rank - 1]]
        values = [gained[min(rank, len(gained)) - 1] / best[rank - 1] for rank in ends]
        values += [gained[-1] / best[-1]] if len(gained) > len(best) + 1 else []
        return fsum(values) / len(values)


TREC_MEASURES = (InterpolatedPrecision, ElevenPoints, NdcgAtRelevant, NdcgAtLevels)


def _inferred_precision(ranked: Sequence[int | None], r: int) -> float:
    """Return the AP that is expected of a sampled pool (Yilmaz and Aslam 2006)."""
    total, relevant, others, open_units = 0.0, 0, 0, 0
    for above, grade in enumerate(ranked):
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
    return total / r


SINGLE: Mapping[str, RankedMetric] = {
    "num_ret": lambda ranked, r: float(len(ranked)),
    "num_rel": lambda ranked, r: float(r),
    "num_nonrel_judged_ret": lambda ranked, r: float(sum(grade == 0 for grade in ranked)),
    "infAP": _inferred_precision,
}
"""Name -> the value of a query with something relevant; an experiment has no such metric."""

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

_PREFERENCES = "computed from preferences between documents, another kind of labels"
NO_METRICS: Mapping[str, str] = {
    QUERIES: "how many questions are averaged; `n_queries` stands beside each mean",
    "num_ret": "how many documents are retrieved, right or not; ask for `fp` and `tp`",
    "num_rel": "a sum over the labels, the same for each run",
    "num_nonrel_judged_ret": "a sum over the questions of a run; ask for `judged` and `precision`",
    "gm_map": "a geometric mean over the questions of a run; ask for `map`",
    "gm_bpref": "a geometric mean over the questions of a run; ask for `bpref`",
    "infAP": "an estimate from a pool of which a sample was judged; ask for `map`",
    "iprec_at_recall": "a list of eleven metrics; name some, as `iprec_at_recall_0.10`",
    "official": "a list of metrics, some of them sums over a run; name those that you want",
    "all_trec": "a list of metrics, some of them sums over a run; name those that you want",
    "set": "a list of metrics; name some, as `set_P`",
    "runid": "the name of a run, no number",
    "relstring": "a text, the grades of the first documents; `score` gives them to a function",
    "relative_P": "the number that `recall_cap@k` is",
    "set_relative_P": "precision or recall of all that is retrieved, the higher of the two",
    "Rprec_mult": "precision at several multiples of R; ask for `r_precision`",
    "utility": "a sum with four weights that only its user knows; write it as a function",
    "G": "an experiment of 2008 between `map` and `ndcg`; ask for one of these",
    "binG": "an experiment of 2008 between `map` and `ndcg`; ask for one of these",
    "prefs": _PREFERENCES,
    "all_prefs": _PREFERENCES,
    "qrels_jg": _PREFERENCES,
}
"""Name of trec_eval -> what it is, for which reason no experiment has it as a metric."""


def what_is_no_metric(name: str) -> str | None:
    """Return what a name of trec_eval stands for, with or without parameters; None: a metric."""
    measure = re.sub(r"[._@][-0-9.,]+$", "", name)
    return NO_METRICS.get("prefs" if measure.startswith("prefs_") else measure)


def geometric_mean(values: Sequence[float]) -> float | None:
    """Return exp of the mean of logarithms, of nothing below :data:`LEAST`; None without values."""
    if not values:
        return None
    return exp(fsum(log(max(value, LEAST)) for value in values) / len(values))
