"""`checks` in an experiment.yaml: read, checked, and part of no fingerprint."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rag_assets.experiment import Experiment
from rag_assets.experiment.config import ChecksConfig, DriftConfig
from rag_assets.pipeline.evaluation_record import configuration_of

Load = Callable[[str | bytes], Experiment]
Problem = Callable[[str | bytes], str]


def test_checks_are_read(load: Load) -> None:
    text = "checks: {regression: error, drift: {psi: 0.1, far_below: {bm25: 2}}}\n"
    found = load(f"retrievers: {{bm25: {{type: bm25}}}}\n{text}")
    drift = DriftConfig(psi=0.1, far_below={"bm25": 2})
    assert found.config.checks == ChecksConfig(regression="error", drift=drift)
    assert load("top_k: [3]\n").config.checks.drift.severity == "warning"


def test_no_configuration_of_an_evaluation_holds_them(load: Load) -> None:
    plain, strict = load("top_k: [3]\n"), load("top_k: [3]\nchecks: {drift: {psi: 0.1}}\n")
    assert configuration_of(plain) == configuration_of(strict)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("checks: {drift: {psi: 0}}\n", ":1: `checks.drift.psi`: "),
        ("checks:\n  drift:\n    far_share: 1.5\n", ":3: `checks.drift.far_share`: "),
        ("checks: {drift: {severity: fatal}}\n", ":1: `checks.drift.severity`: "),
        (
            "retrievers: {bm25: {type: bm25}}\nchecks: {drift: {far_below: {bm2: 1}}}\n",
            ":2: `checks.drift.far_below.bm2`: unknown retriever 'bm2' (did you mean 'bm25'?)",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_line(problem: Problem, text: str, expected: str) -> None:
    assert problem(text).startswith(expected)
