"""What an evaluation would do: rows for programs, and a sheet."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from rag_assets.engine.measurements import duration_text
from rag_assets.engine.outgoing import Outgoing
from rag_assets.pipeline.plan import ACTIONS, CHECK, COMPUTE, REUSE, SEARCHED, Plan, Step
from rag_assets.sheets.formats import Row
from rag_assets.sheets.sheet import TEXT, Column, Sheet
from rag_assets.store.artifacts import ArtifactKey


def plan_rows(plan: Plan) -> list[Row]:
    """Return one mapping a partition: asset, partition, action, reasons; what it costs, if known.

    ``partition`` maps dimensions to values, and a reason has ``what``, ``old`` and ``new``.
    ``same_as`` stands at a partition whose artifact is that of an earlier one, ``search`` (lines of
    what would be run or asked) at one for which a search that is not ours is asked.
    """
    return [
        {
            **{"asset": step.key.asset, "partition": dict(step.key.partition)},
            "action": step.action,
            "reasons": [asdict(reason) for reason in step.reasons],
            **(step.work or {}),
            **({"same_as": dict(step.same_as.partition)} if step.same_as else {}),
            **_search(plan, step),
        }
        for step in plan.steps
    ]


def _search(plan: Plan, step: Step) -> dict[str, list[str]]:
    lines = plan.searches.get(dict(step.key.partition).get("retriever", ""), ())
    return {"search": list(lines)} if step.key.asset == SEARCHED and lines else {}


def flat_plan_rows(plan: Plan) -> list[Row]:
    """Return the same with texts in place of mappings and lists: for CSV and Markdown."""
    steps = zip(plan_rows(plan), plan.steps, strict=True)
    return [
        {
            **{name: value for name, value in row.items() if name != "search"},
            "partition": _partition(step.key),
            "reasons": "; ".join(reason.text for reason in step.reasons),
            **({"same_as": _partition(step.same_as)} if step.same_as else {}),
        }
        for row, step in steps
    ]


def _partition(key: ArtifactKey) -> str:
    return ", ".join(f"{name}={value}" for name, value in key.partition)


MAX_REASONS = 2
"""Reasons of an asset that are shown; with every partition on its own, all are."""

ACTION_STYLES = {COMPUTE: "bold", CHECK: "yellow", REUSE: "dim"}
"""Action -> how a terminal draws it."""


def plan_sheet(plan: Plan, *, each: bool = False) -> Sheet:
    """Return the table, and below it the sums."""
    columns = (
        Column("what", "partition" if each else "asset", TEXT),
        Column("does", "action" if each else "partitions", TEXT, is_whole=True),
        Column("why", "why", TEXT, missing=""),
    )
    rows = [*(_lines(plan.steps) if each else _groups(plan.artifacts))]
    return Sheet("", columns, rows, notes=["", *_sums(plan)])


def _lines(steps: Iterable[Step]) -> Iterator[dict[str, str]]:
    for step in steps:
        same = [f"once, with {step.same_as}"] if step.same_as is not None else []
        why = "; ".join([*same, *(reason.text for reason in step.reasons)])
        yield {"what": str(step.key), "does": step.action, "why": why}


def _groups(steps: Sequence[Step]) -> Iterator[dict[str, str]]:
    for asset in dict.fromkeys(step.key.asset for step in steps):
        of_asset = [step for step in steps if step.key.asset == asset]
        does = _counted(step.action for step in of_asset)
        yield {"what": asset, "does": does, "why": _why(of_asset)}


def _counted(actions: Iterable[str]) -> str:
    counts = Counter(actions)
    return ", ".join(f"{counts[action]} {action}" for action in ACTIONS if counts[action])


def _why(steps: Iterable[Step]) -> str:
    """Return the reasons that most partitions have; what is certain comes first."""
    ordered = sorted(steps, key=lambda step: ACTIONS.index(step.action))
    reasons = Counter(_of_assets(reason.text) for step in ordered for reason in step.reasons)
    texts = [text for text, _ in reasons.most_common(MAX_REASONS)]
    more = len(reasons) - len(texts)
    return "; ".join([*texts, *([f"and {more} more"] if more > 0 else [])])


def _of_assets(text: str) -> str:
    """Leave partitions out of what is said of an upstream: there may be a hundred of them."""
    return text if " -> " in text else re.sub(r"(?<=\w)\[[^\]]*\]", "", text)


def _sums(plan: Plan) -> Iterable[str]:
    names = ", ".join(plan.retrievers)
    yield f"{plan.experiment}: {_counted(step.action for step in plan.artifacts)}"
    yield f"retrievers: {len(plan.retrievers)}: {names}"
    for reason in plan.files:
        yield f"changed: {reason.text}"
    for name, lines in plan.searches.items():
        for line in lines:
            kind = "search" if name in plan.retrievers else "generator"
            yield f"{kind} {name}: {line}"
    if plan.count(CHECK):
        yield "check: computed only if its inputs change"
    if plan.times:
        rest = f"; not measured yet: {', '.join(plan.unmeasured)}" if plan.unmeasured else ""
        yield f"time: at most {duration_text(sum(plan.times.values()))}, as measured here{rest}"
    if (texts := plan.work("texts")) is not None:
        yield f"embeddings: at most {texts} texts; texts in the cache are not embedded again"
    if (pairs := plan.work("pairs")) is not None:
        yield f"reranking of all chunks: at most {pairs:,} pairs; cached scores are not computed"
    for outgoing in plan.outgoing:
        yield f"to {outgoing.host} ({outgoing.client}), at most: {_amounts(outgoing)}"


def _amounts(outgoing: Outgoing) -> str:
    names = ("requests", "questions", "passages", "tokens")
    amounts = {name: getattr(outgoing, name) for name in names}
    parts = [f"{value} {what}" for what, value in amounts.items() if value]
    is_asked = outgoing.requests != 0
    unknown = [what for what, value in amounts.items() if value is None and is_asked]
    parts += [f"{' and '.join(unknown)} not known yet"] if unknown else []
    parts += [f"cost {outgoing.cost:.4g}"] if outgoing.cost is not None else []
    limits = {"max_calls": outgoing.max_calls, "max_cost": outgoing.max_cost}
    given = [f"{name} {value:g}" for name, value in limits.items() if value is not None]
    given = given if given or outgoing.is_local else ["no limit"]
    return "; ".join([", ".join(parts) or "nothing", *given])
