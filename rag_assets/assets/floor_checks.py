"""Floors as checks of the assets whose means they are about.

A floor that cannot be read does not pass: it warns, or is named beside those that fail. What reads
means is imported where it is used: it is not needed to load a code location.
"""

from __future__ import annotations

from datetime import UTC, datetime

from rag_assets.checks.check import Check, CheckOutcome, Partition
from rag_assets.experiment.config import FloorConfig
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.evaluation_record import snapshot

ASSETS = {
    "Retrieval": "leaderboard",
    "Answers": "answer_summary",
    "JudgedAnswers": "calibrated_means",
    "SampledLabels": "sampled_estimates",
}
"""Kind of metric -> the asset that shows its means."""


def floors_at(experiment: Experiment, asset: str, judge: str | None = None) -> list[FloorConfig]:
    """Return the floors about the means of an asset; of one judge where it is named."""
    if asset not in ASSETS.values() or not experiment.config.floors:
        return []
    from rag_assets.analysis.metric_sources import JudgedAnswers, named_source

    floors = []
    for floor in experiment.config.floors:
        source = named_source(floor.metric, experiment.primary)
        judges = source.judge if isinstance(source, JudgedAnswers) else ""
        if ASSETS[type(source).__name__] == asset and (judge is None or judges in ("", judge)):
            floors.append(floor)
    return floors


def floor_check(experiment: Experiment, asset: str) -> tuple[Check, ...]:
    """Return the check of an asset whose means have a floor; most have none."""
    floors = floors_at(experiment, asset)
    meaning = f"Every floor of experiment.yaml is reached: {'; '.join(map(str, floors))}."
    return (Check("floors", meaning, _floors),) if floors else ()


def _floors(at: Partition) -> CheckOutcome | None:
    from rag_assets.analysis.floors import floor_checks
    from rag_assets.analysis.result import EvaluationResult

    floors = floors_at(at.experiment, at.key.asset, dict(at.key.partition).get("judge"))
    if not floors:
        return None
    pipeline = at.inputs.pipeline
    result = EvaluationResult(pipeline.root, snapshot(pipeline, started=datetime.now(UTC)))
    checks, unreadable = floor_checks(result, floors)
    failed = [check.problem for check in checks if check.problem]
    if unreadable and not failed:
        return CheckOutcome(not_checked="; ".join(unreadable))
    return CheckOutcome([*failed, *unreadable], numbers={"below_floor": len(failed)})
