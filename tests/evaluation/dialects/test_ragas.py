"""Ragas' context precision by its worked values; golden.json has those of the package."""

from __future__ import annotations

import pytest

from tests.evaluation.dialects.one_query import as_given, number

METRICS = ("llm_context_precision_with_reference", "llm_context_precision_without_reference")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("verdicts", "value"),
    [
        ([1, 0, 0], 1.0),
        ([1, 1, 1, 0, 0, 0], 1.0),
        ([0, 1], 0.5),
        ([1, 0, 1], (1 + 2 / 3) / 2),
        ([0, 0], 0.0),
        ([], 0.0),
    ],
)
def test_it_divides_by_what_is_relevant_among_the_retrieved(
    metric: str, verdicts: list[int], value: float
) -> None:
    grades = {f"d{rank}": verdict for rank, verdict in enumerate(verdicts)}
    data = as_given(grades, {**grades, "relevant, and never retrieved": 1})
    # The denominator is larger by 1e-10.
    assert number("ragas", metric, data) == pytest.approx(value, abs=2e-10)
    assert number("ragas", metric, data) != pytest.approx(value, abs=1e-12) or not value


def test_a_document_without_a_label_is_a_verdict_of_0() -> None:
    data = as_given(["unlabelled", "good"], {"good": 1})
    assert number("ragas", METRICS[0], data) == pytest.approx(0.5)
    assert number("ragas", f"{METRICS[0]}@1", data) == 0.0
