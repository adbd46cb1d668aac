"""The metric that a person asks for."""

from __future__ import annotations

from rag_assets.evaluation.metric_names import Metric, parse_metric


def metric_at(name: str, primary: Metric) -> Metric:
    """Return the metric of a name; one without a cut-off is taken at that of the primary one.

    Raises:
        UsageError: there is no such metric.
    """
    metric = parse_metric(name)
    return metric if metric.cutoff is not None else metric._replace(cutoff=primary.cutoff)
