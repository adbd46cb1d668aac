"""The fixture ``metric_floor`` of pytest: a test fails, with the table, when a metric drops.

pytest loads this module in every project of an environment, so all else is imported by a test that
uses the fixture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rag_assets.evaluation.score import Scores
    from rag_assets.report.evaluation_table import EvaluationTable

OPTION = "--rag-assets-store-metrics"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that keeps the values of now."""
    parser.getgroup("rag-assets").addoption(
        OPTION,
        action="store_true",
        help="Keep the metrics of now as those that metric_floor compares with (not with xdist).",
    )


class MetricFloor:
    """What the fixture gives; see :meth:`__call__`."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        """Take the test that asks."""
        self._request = request

    def __call__(
        self,
        result: EvaluationTable | Scores,
        metrics: Mapping[str, float] | Sequence[str],
        *,
        retriever: str | None = None,
        tolerance: float = 0.0,
    ) -> None:
        """Fail the test when a metric lies below its floor, or queries failed.

        Args:
            result: of ``rag_assets.evaluate``, or of ``rag_assets.metrics`` and ``score``.
            metrics: metric -> the mean that it must reach, ``{"ndcg@10": 0.6}``. Or names,
                ``["ndcg@10"]``: each must reach the value that is kept in
                ``<test file>.metrics.json``, which ``pytest --rag-assets-store-metrics`` writes.
            retriever: whose metrics; may be left out where there is one alone.
            tolerance: how far below its floor a mean may lie.

        Raises:
            UsageError: a metric or the retriever is unknown, or no value is kept.
        """
        __tracebackhide__ = True
        from rag_assets.live.metric_floors import MetricFile, drop_report, values_of

        values = values_of(result, metrics, retriever)
        if isinstance(metrics, Mapping):
            floors = dict(metrics)
        else:
            file = self._request.path
            kept = MetricFile(file.with_name(f"{file.stem}.metrics.json"))
            whose = f" {retriever}" if retriever is not None else ""
            test = f"{self._request.node.nodeid.partition('::')[2]}{whose}"
            if self._request.config.getoption(OPTION):
                kept.keep(test, values)
            floors = kept.floors(test, metrics)
        report = drop_report(result, values, floors, tolerance, retriever)
        if report is not None:
            pytest.fail(report, pytrace=False)


@pytest.fixture
def metric_floor(request: pytest.FixtureRequest) -> MetricFloor:
    """Return what fails the test when a metric lies below a declared or kept value."""
    return MetricFloor(request)
