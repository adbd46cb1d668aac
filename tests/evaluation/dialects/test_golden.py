"""The dialects against the numbers of the real packages: those stored, and those installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rag_assets.evaluation.dialects import DIALECTS
from rag_assets.evaluation.dialects.beir import DECIMALS
from rag_assets.evaluation.dialects.tools import ToolInput, ToolQuery
from tests.evaluation.dialects.tools import TOOLS, Numbers, Sample

GOLDEN: dict[str, Any] = json.loads(
    Path(__file__).with_name("golden.json").read_text(encoding="utf-8")
)
CASES = [
    (tool, sample) for tool, section in GOLDEN["tools"].items() for sample in section["numbers"]
]


def given(sample: Sample) -> ToolInput:
    """A sample as our readers hand it on."""
    ids = {query: [item for item, _ in hits] for query, hits in sample["run"].items()}
    judged = (
        ToolQuery(
            query_id=query,
            ranking=ids.get(query, []),
            in_run=query in ids,
            groups=tuple(map(tuple, groups)),
            grades=sample["grades"][query],
            scores=dict(sample["run"].get(query, ())),
        )
        for query, groups in sample["groups"].items()
    )
    strangers = [
        ToolQuery(query, ids[query], scores=dict(hits))
        for query, hits in sample["run"].items()
        if query not in sample["groups"]
    ]
    return ToolInput(tuple(judged), tuple(strangers))


def assert_equal(tool: str, sample: Sample, expected: Numbers) -> None:
    dialect, data = DIALECTS[tool], given(sample)
    # BEIR rounds what it says of a single query too.
    within = 0.51 * 10**-DECIMALS if tool == "beir" else 1e-9
    for name, numbers in expected.items():
        outcome = dialect.outcome(data, dialect.parse(name))
        if "error" in numbers:
            assert outcome.mean is None, name
            assert numbers["error"] in str(outcome.problem), name
            continue
        assert outcome.mean == about(numbers["mean"], 1e-9), name
        for query, value in numbers.get("per_query", {}).items():
            assert outcome.per_query[query] == about(value, within), (name, query)


def about(value: float | None, within: float) -> Any:
    return None if value is None else pytest.approx(value, abs=within)


def test_beir_leaves_a_query_alone_that_the_run_lacks() -> None:
    beir = DIALECTS["beir"]
    found = ToolQuery("q1", ["a"], grades={"a": 1}, scores={"a": 1.0})
    none = ToolQuery("q2", [], in_run=False, grades={"b": 0})
    outcome = beir.outcome(ToolInput((found, none)), beir.parse("R_cap@1"))
    assert (outcome.mean, outcome.per_query) == (0.5, {"q1": 1.0, "q2": 0.0})
    empty = ToolQuery("q2", ["a"], grades={"b": 0}, scores={"a": 1.0})
    outcome = beir.outcome(ToolInput((found, empty)), beir.parse("R_cap@1"))
    assert (outcome.mean, outcome.per_query) == (None, {"q1": 1.0, "q2": None})
    assert "query 'q2': no document is relevant" in str(outcome.problem)


def test_every_dialect_has_golden_values_of_the_version_that_it_names() -> None:
    assert set(GOLDEN["tools"]) == set(DIALECTS) == set(TOOLS)
    for name, section in GOLDEN["tools"].items():
        assert DIALECTS[name].package == f"{section['package']} {section['version']}"
        covered = {metric for found in section["numbers"].values() for metric in found}
        measures = {DIALECTS[name].parse(metric).measure for metric in covered}
        assert measures == set(DIALECTS[name].measures)


@pytest.mark.parametrize(("tool", "sample"), CASES)
def test_stored_numbers(tool: str, sample: str) -> None:
    assert_equal(tool, GOLDEN["samples"][sample], GOLDEN["tools"][tool]["numbers"][sample])


@pytest.mark.parametrize("tool", TOOLS)
def test_numbers_of_the_installed_package(tool: str) -> None:
    """With the samples again: a new version of a tool that changed its mind is found here."""
    distribution, numbers = TOOLS[tool]
    for name, sample in GOLDEN["samples"].items():
        if tool in sample["tools"]:
            try:
                found = numbers(sample)
            except ImportError as error:
                pytest.skip(f"{distribution} is not installed ({error})")
            assert found, name
            assert_equal(tool, sample, found)
