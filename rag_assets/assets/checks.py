"""Checks in Dagster: declared beside the asset, evaluated in its own body, one result a partition.

So a run that makes a partition checks it too, whoever started the run, and a range costs one step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from rag_assets.assets.names import asset_key, partition_key
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.checks import CheckResult, checks_of
from rag_assets.pipeline.checks.check import MOST_EXAMPLES, WARNING
from rag_assets.pipeline.stage import Stage


def check_specs(
    stage: Stage, experiment: Experiment, partitions: dg.PartitionsDefinition | None
) -> list[dg.AssetCheckSpec]:
    """Return the checks of an asset, with the partitions of the asset."""
    return [
        dg.AssetCheckSpec(
            name=check.name,
            asset=asset_key(experiment.name, stage.name),
            description=check.meaning,
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
        found = result.found
        warns = found.severity == WARNING
        yield dg.AssetCheckEvaluation(
            asset_key=asset,
            check_name=result.check.name,
            passed=result.passed,
            severity=dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR,
            description=result.summary,
            metadata={**_numbers(result), **_problems(found.problems)},
            blocking=result.check.blocking and fails_run,
            partition=partition_key(result.key),
        )


def _numbers(result: CheckResult) -> dict[str, dg.MetadataValue]:
    numbers = {"problems": len(result.found.problems), **result.found.numbers}
    return {
        name: dg.MetadataValue.int(value)
        if isinstance(value, int)
        else dg.MetadataValue.float(float(value))
        for name, value in numbers.items()
    }


def _problems(problems: Sequence[str]) -> dict[str, dg.MetadataValue]:
    if not problems:
        return {}
    lines = [f"- {' '.join(problem.split())}" for problem in problems[:MOST_EXAMPLES]]
    rest = len(problems) - MOST_EXAMPLES
    lines += [f"- and {rest} more"] if rest > 0 else []
    return {"found": dg.MetadataValue.md("\n".join(lines))}
