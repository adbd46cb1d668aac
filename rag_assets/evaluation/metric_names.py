"""Names of metrics: ours are canonical, those of ir_measures and trec_eval are aliases.

A metric is a measure and, often, a cut-off: ``ndcg@10``. A measure without a cut-off is taken at
each top_k of an experiment, or over the whole ranking by ``score``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rag_assets.errors import UsageError, allowed_names

MEASURES = ("hit_rate", "mrr", "ndcg", "recall", "precision", "map", "answer_hit")
"""Canonical measures. Each is computed by :mod:`rag_assets.evaluation.metrics`, ``answer_hit`` by
:mod:`rag_assets.evaluation.answer_hits`."""

ALIASES = {
    # ir_measures
    "success": "hit_rate",
    "rr": "mrr",
    "r": "recall",
    "p": "precision",
    "ap": "map",
    # trec_eval
    "recip_rank": "mrr",
    "ndcg_cut": "ndcg",
    "map_cut": "map",
    # common speech
    "hit": "hit_rate",
    "hits": "hit_rate",
}

LARGEST_CUTOFF = 2**31 - 1
"""What a column of top_k can hold."""

_PATTERN = re.compile(r"(?P<measure>[A-Za-z_]+?)(?:[@_](?P<cutoff>[0-9]+))?")


class Metric(NamedTuple):
    """A measure, and the rank at which the ranking is cut (None: not cut)."""

    measure: str
    cutoff: int | None

    def __str__(self) -> str:
        """Return the canonical name, such as ``ndcg@10``."""
        return self.measure if self.cutoff is None else f"{self.measure}@{self.cutoff}"


def parse_metric(name: str) -> Metric:
    """Return the metric that ``name`` means, in any of the three vocabularies.

    Examples: ``ndcg@10``, ``nDCG@10``, ``ndcg_cut_10``, ``P_5``, ``recip_rank``, ``Success@1``.

    Raises:
        UsageError: the measure is unknown, or the cut-off is out of range.
    """
    match = _PATTERN.fullmatch(name.strip())
    measure = match["measure"].lower() if match else name
    measure = ALIASES.get(measure, measure)
    if match is None or measure not in MEASURES:
        raise UsageError(f"unknown metric {allowed_names(name, MEASURES)}, each with or without @k")
    cutoff = int(match["cutoff"]) if match["cutoff"] else None
    if cutoff is not None and not 1 <= cutoff <= LARGEST_CUTOFF:
        problem = f"the cut-off must be at least 1 and at most {LARGEST_CUTOFF}"
        raise UsageError(f"metric '{name}': {problem}")
    return Metric(measure, cutoff)
