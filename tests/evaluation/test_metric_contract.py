"""Every metric keeps the contract that those of other packages inherit."""

from __future__ import annotations

import pytest

from rag_assets.evaluation.metric_names import RANKING_MEASURES
from rag_assets.testing import MetricContract


class TestEveryMetric(MetricContract):
    @pytest.fixture(params=[*RANKING_MEASURES, "rbp(p=0.5,rel=2)"])
    def name(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)
