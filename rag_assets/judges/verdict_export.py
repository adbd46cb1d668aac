"""A file of a judge's verdicts with the replies behind them, as ``type: recorded`` reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.judges.base import Item, RelevanceItem, item_digest
from rag_assets.judges.registry import RecordedJudge
from rag_assets.judges.verdicts_stage import (
    answer_verdicts_key,
    asked_model,
    judged_items,
    relevance_verdicts_key,
)
from rag_assets.llm.replies import reply_key
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.stages import STAGES
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.atomic import write_text


def export_verdicts(pipeline: Pipeline, judge: str, out: Path) -> int:
    """Write the verdicts of a judge that are up to date; return how many.

    Raises:
        UsageError: there is no such judge, or its verdicts are of a file.
        NotEvaluated: its verdicts are not up to date.
        StoreError: the file cannot be written.
    """
    judges = pipeline.experiment.judges
    if judge not in judges:
        raise UsageError(f"--judge: unknown judge {allowed_names(judge, judges)}")
    options = judges[judge]
    if isinstance(options, RecordedJudge):
        raise UsageError(f"--judge: the verdicts of '{judge}' are recorded: {options.path}")
    lines: list[str] = []
    for key in (relevance_verdicts_key(judge), answer_verdicts_key(judge)):
        if key in STAGES[key.asset].keys(pipeline.experiment):
            lines += [json.dumps(row, ensure_ascii=False) for row in _rows(pipeline, key)]
    write_text(out, "".join(f"{line}\n" for line in lines))
    return len(lines)


def _rows(pipeline: Pipeline, key: ArtifactKey) -> Iterator[Mapping[str, Any]]:
    artifact = pipeline.current(key)
    if artifact is None:
        raise NotEvaluated(f"{key} is not up to date; run `rag-assets evaluate` first")
    items = judged_items(pipeline, key)
    replies = _replies(pipeline, key, items)
    verdicts = {_place(row): row for row in artifact.table().to_pylist()}
    for item in items:
        place = {name: item._asdict()[name] for name in PLACE if name in item._fields}
        row = verdicts[_place(place)]
        if isinstance(item, RelevanceItem):
            verdict = {"grade": row["grade"]}
        else:
            verdict = {"correct": None if row["correct"] is None else bool(row["correct"])}
        problem = {"problem": row["problem"]} if row["problem"] is not None else {}
        reply = {"reply": replies[row["reply"]]} if row["reply"] in replies else {}
        yield {**place, **verdict, **problem, **reply, "digest": item_digest(item)}


PLACE = ("query_id", "document_id", "start", "end", "answer")


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(map(row.get, PLACE))


def _replies(pipeline: Pipeline, key: ArtifactKey, items: Sequence[Item]) -> Mapping[str, str]:
    """Return the raw replies about items by their keys; none where no model was asked."""
    asked = asked_model(pipeline.experiment, key)
    if asked is None:
        return {}
    identity = asked[1].identity()
    requests = [*asked[0].requests(items), *asked[0].requests_again(items)]
    pairs = zip(requests, pipeline.replies.get(identity, requests), strict=True)
    return {reply_key(identity, request): reply.text for request, reply in pairs if reply}
