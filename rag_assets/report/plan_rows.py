"""A plan as a list of rows for programs."""

from __future__ import annotations

from dataclasses import asdict

from rag_assets.pipeline.plan import Plan
from rag_assets.report.rows import Row
from rag_assets.store.artifacts import ArtifactKey


def plan_rows(plan: Plan) -> list[Row]:
    """Return one mapping a partition: asset, partition, action, reasons; what it costs, if known.

    ``partition`` maps dimensions to values, and a reason has ``what``, ``old`` and ``new``.
    ``same_as`` stands at a partition whose artifact is that of an earlier one.
    """
    return [
        {
            "asset": step.key.asset,
            "partition": dict(step.key.partition),
            "action": step.action,
            "reasons": [asdict(reason) for reason in step.reasons],
            **(step.work or {}),
            **({"same_as": dict(step.same_as.partition)} if step.same_as else {}),
        }
        for step in plan.steps
    ]


def flat_plan_rows(plan: Plan) -> list[Row]:
    """Return the same with texts in place of the mapping and the list: for CSV and Markdown."""
    return [
        {
            "asset": step.key.asset,
            "partition": _partition(step.key),
            "action": step.action,
            "reasons": "; ".join(reason.text for reason in step.reasons),
            **(step.work or {}),
            **({"same_as": _partition(step.same_as)} if step.same_as else {}),
        }
        for step in plan.steps
    ]


def _partition(key: ArtifactKey) -> str:
    return ", ".join(f"{name}={value}" for name, value in key.partition)
