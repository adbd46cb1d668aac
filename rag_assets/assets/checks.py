"""Checks in Dagster: declared beside the asset, evaluated in its own body, one result a partition.

So a run that makes a partition checks it too, whoever started the run, and a range costs one step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from rag_assets.assets.descriptions import first_line
from rag_assets.assets.metadata import DIGITS
from rag_assets.assets.names import asset_key, partition_key
from rag_assets.checks.asset_checks import checks_of
from rag_assets.checks.check import MOST_EXAMPLES, WARNING, CheckResult
from rag_assets.engine.stage import Stage
from rag_assets.experiment.experiment import Experiment
from rag_assets.plain_text import markdown

MOST_AT_ONCE = 5
"""Problems that stand beside the result; a click shows more of them."""


def check_specs(
    stage: Stage, experiment: Experiment, partitions: dg.PartitionsDefinition | None
) -> list[dg.AssetCheckSpec]:
    """Return the checks of an asset, with the partitions of the asset."""
    return [
        dg.AssetCheckSpec(
            name=check.name,
            asset=asset_key(experiment.name, stage.name),
            description=first_line(check.meaning),
            blocking=check.blocking,
            partitions_def=partitions,
        )
        for check in checks_of(stage)
    ]


def check_outputs(specs: Sequence[dg.AssetCheckSpec]) -> Iterator[dg.Output[Any]]:
    """Yield what Dagster waits for of a declared check: children in the same run depend on it."""
    for spec in specs:
        yield dg.Output(None, output_name=spec.get_python_identifier())


def evaluations(
    asset: dg.AssetKey, results: Sequence[CheckResult], *, fails_run: bool = False
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield results as events.

    Args:
        asset: whose checks they are.
        results: any number of partitions and checks.
        fails_run: whether a blocking check that failed ends the run, as Dagster has it for one
            partition; with several, the others would be stopped too.
    """
    for result in results:
        finding = result.found
        warns = result.severity == WARNING
        yield dg.AssetCheckEvaluation(
            asset_key=asset,
            check_name=result.check.name,
            passed=result.passed,
            severity=dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR,
            description=_description(result),
            metadata={**_numbers(result), **_problems(finding.problems), **_shown(finding.shown)},
            blocking=result.check.blocking and fails_run,
            partition=partition_key(result.key),
        )


def _description(result: CheckResult) -> str:
    """Return what the page shows at once: the first problems, as a list where there are several."""
    problems = result.found.problems
    if len(problems) < 2 or result.found.not_checked is not None:
        return markdown(result.summary) if problems else result.summary
    return _list(problems, MOST_AT_ONCE)


def _numbers(result: CheckResult) -> dict[str, dg.MetadataValue]:
    numbers = dict(result.found.numbers)
    if result.found.not_checked is None:
        numbers["problems"] = len(result.found.problems)
    return {
        name: dg.MetadataValue.int(value)
        if isinstance(value, int)
        else dg.MetadataValue.float(round(float(value), DIGITS))
        for name, value in numbers.items()
    }


def _shown(shown: Mapping[str, str]) -> dict[str, dg.MetadataValue]:
    return {title: dg.MetadataValue.md(text) for title, text in shown.items()}


def _problems(problems: Sequence[str]) -> dict[str, dg.MetadataValue]:
    if not problems:
        return {}
    return {"found": dg.MetadataValue.md(_list(problems, MOST_EXAMPLES))}


def _list(problems: Sequence[str], most: int) -> str:
    """Return the first problems as Markdown, and how many more there are."""
    lines = [f"- {markdown(' '.join(problem.split()))}" for problem in problems[:most]]
    rest = len(problems) - most
    return "\n".join(lines + ([f"- and {rest} more"] if rest > 0 else []))
