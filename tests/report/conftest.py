"""One small evaluation that several files of tests read."""

from __future__ import annotations

import pytest

from rag_assets.analysis.result import EvaluationResult
from tests.tiny_experiment import Tiny


@pytest.fixture(scope="session")
def tiny_result(tmp_path_factory: pytest.TempPathFactory) -> EvaluationResult:
    tiny = Tiny(tmp_path_factory.mktemp("report_of_tiny"))
    tiny.config["top_k"] = [1, 3, 5]
    tiny.write().run()
    return EvaluationResult(tiny.artifacts, tiny.snapshot())
