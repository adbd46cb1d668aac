"""What answerers said to some queries, what became of each answer, and from which context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.report.page.query_results import Unit
from rag_assets.report.result import EvaluationResult
from rag_assets.store.artifacts import ArtifactKey


@dataclass(frozen=True)
class QueryAnswer:
    """The answer of one answerer to one query.

    Attributes:
        text: empty: it refused; None: it failed.
        error: why it failed.
        em: of the answer; None where it is not defined.
        f1: as ``em``.
        outcome: its class in the waterfall; None where there is none.
        context: the units of the context, in their order; None: not known.
    """

    text: str | None
    error: str | None
    em: float | None
    f1: float | None
    outcome: str | None
    context: list[Unit] | None


def gold_answers(result: EvaluationResult, query_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return query -> the answers that are right."""
    facts = _of_queries(result, QUERY_FACTS_KEY, query_ids)
    return {row["query_id"]: row["answers"] for row in facts}


def answers_to(
    result: EvaluationResult, query_ids: Sequence[str]
) -> dict[str, dict[str, QueryAnswer]]:
    """Return answerer (``name@k``) -> query -> its answer, in the order of the experiment."""
    found = {}
    for entry in result.evaluation.entries_of("answers"):
        answerer = entry.partition["answerer"]
        metrics = _rows(result, "answer_metrics", answerer, query_ids)
        outcomes = _rows(result, "answer_waterfall", answerer, query_ids)
        contexts = _contexts(result, answerer, query_ids)
        found[answerer] = {
            row["query_id"]: QueryAnswer(
                row["answer"],
                row["error"],
                metrics.get(row["query_id"], {}).get("answer_em"),
                metrics.get(row["query_id"], {}).get("answer_f1"),
                outcomes.get(row["query_id"], {}).get("outcome"),
                None if contexts is None else contexts.get(row["query_id"], []),
            )
            for row in _of_queries(result, entry.key, query_ids)
        }
    return found


def _contexts(
    result: EvaluationResult, answerer: str, query_ids: Sequence[str]
) -> dict[str, list[Unit]] | None:
    key = ArtifactKey.of("answer_contexts", answerer=answerer)
    if key not in {entry.key for entry in result.evaluation.entries_of(key.asset)}:
        return None
    contexts: dict[str, list[Unit]] = {}
    for row in sorted(_of_queries(result, key, query_ids), key=lambda row: int(row["position"])):
        unit = Unit(row["document_id"], row["start"], row["end"])
        contexts.setdefault(row["query_id"], []).append(unit)
    return contexts


def _rows(
    result: EvaluationResult, asset: str, answerer: str, query_ids: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return query -> row of a table that an evaluation may lack."""
    key = ArtifactKey.of(asset, answerer=answerer)
    if key not in {entry.key for entry in result.evaluation.entries_of(asset)}:
        return {}
    return {row["query_id"]: row for row in _of_queries(result, key, query_ids)}


def _of_queries(
    result: EvaluationResult, key: ArtifactKey, query_ids: Sequence[str]
) -> list[dict[str, Any]]:
    table = result.table(key)
    rows: list[dict[str, Any]] = table.filter(
        pc.is_in(table["query_id"], pa.array(query_ids, pa.string()))
    ).to_pylist()
    return rows
