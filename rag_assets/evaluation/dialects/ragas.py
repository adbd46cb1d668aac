"""Ragas: context precision of a model's verdicts, with a reference and without.

Source: ``ragas/metrics/_context_precision.py`` of ragas 0.4.3
(https://github.com/explodinggradients/ragas). A model says of each retrieved context whether it was
useful to arrive at an answer: v is 1 or 0. The labels stand here for these verdicts: 1 is a grade
above 0, and a context that they lack counts as 0. Of a list of length n, all of it (Ragas has no
cut-off; ``@5`` is its metric of the list cut at 5):

    sum over i of v_i * (v_1 + ... + v_i) / i, divided by v_1 + ... + v_n + 1e-10

The two metrics are this one formula. With a reference the model is shown the gold answer; without
one it is shown the *answer* of the system in its place. An empty list scores 0, and so does a query
without a relevant document; a query that is not in the run is no row of Ragas' data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rag_assets.evaluation.dialects.dialect import Dialect, Measure, ToolMetric, ToolQuery


def _context_precision(query: ToolQuery, metric: ToolMetric) -> float | None:
    if not query.in_run:
        return None
    n_relevant, total = 0, 0.0
    for rank, item in enumerate(query.ranking[: metric.cutoff], 1):
        if item in query.relevant:
            n_relevant += 1
            total += n_relevant / rank
    return total / (n_relevant + 1e-10)


class Ragas(Dialect):
    """Ragas' context precision."""

    name = "ragas"
    package = "ragas 0.4.3"
    measures: ClassVar[Mapping[str, Measure]] = {
        "llm_context_precision_with_reference": _context_precision,
        "llm_context_precision_without_reference": _context_precision,
    }
    defaults = ("llm_context_precision_with_reference",)
    warning = (
        "context precision divides by what is relevant among the retrieved, so what was missed "
        "costs nothing; and verdicts of a model need calibration. Without a reference the answer "
        "is taken for the truth: a wrong one makes the passages right that misled it"
    )
