"""What is right for each question, the metrics of an answerer's answers to all, and their means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.cases import cases_of
from rag_assets.answers.metrics import METRICS, metrics_of
from rag_assets.answers.normalisation import Language
from rag_assets.answers.tables import ANSWER_METRICS, GOLDS
from rag_assets.evaluation.leaderboard import mean
from rag_assets.evaluation.query_facts import answerable_queries


def answer_metrics(
    answers: pa.Table,
    golds: pa.Table,
    contexts: pa.Table | None,
    names: Sequence[str],
    language: Language = "standard",
) -> pa.Table:
    """Return the metrics of every question.

    Args:
        answers: table of :data:`~rag_assets.answers.tables.ANSWERS`. A question that it
            lacks failed; one that ``golds`` lacks is not looked at.
        golds: table of :data:`~rag_assets.answers.tables.GOLDS`, one row a question.
        contexts: table of :data:`~rag_assets.answers.tables.ANSWER_CONTEXTS`; a question
            without a row had an empty context. None: the contexts are not known.
        names: of :data:`~rag_assets.answers.metrics.METRICS`.
        language: how texts become words.

    Returns:
        Table of :data:`~rag_assets.answers.tables.ANSWER_METRICS`, sorted by query id, with
        a column for each name; null where a metric is not defined.

    Raises:
        UsageError: a name is unknown.
    """
    metrics = metrics_of(names)
    cases = cases_of(answers, golds, contexts, language)
    columns = {
        "query_id": pa.array([case.question.query_id for case in cases], pa.string()),
        "failed": pa.array([case.answer is None for case in cases], pa.bool_()),
        "answerable": pa.array([case.question.answerable for case in cases], pa.bool_()),
    }
    for metric in metrics:
        values = [metric.of(case) for case in cases]
        columns[metric.name] = pa.array(values, pa.float64())
    return ANSWER_METRICS.check(pa.table(columns))


class AnswerMean(NamedTuple):
    """One metric over some questions: None without a question for which it is defined."""

    mean: float | None
    n: int


def answer_means(
    table: pa.Table, names: Iterable[str], weights: Mapping[str, float] | None = None
) -> dict[str, AnswerMean]:
    """Return the mean of every metric over the questions of a table.

    Args:
        table: of :func:`answer_metrics`.
        names: of its columns.
        weights: query id -> how much it counts; each 1 without them.
    """
    means = {}
    query_ids = table["query_id"].to_pylist()
    for name in names:
        metric, values = METRICS[name](), table[name].to_pylist()
        counts = [
            (weights or {}).get(query_id, 1.0) * (1.0 if v is None else metric.multiplicity(v))
            for query_id, v in zip(query_ids, values, strict=True)
        ]
        means[name] = AnswerMean(mean(values, counts), sum(v is not None for v in values))
    return means


def golds_of(
    facts: pa.Table, qrels: pa.Table | None, judge: str, chunks: pa.Table | None = None
) -> pa.Table:
    """Return what is right for every question.

    A question is answerable when a right answer is known, or a label has a positive grade; whether
    another one is not, :func:`~rag_assets.evaluation.query_facts.answerable_queries` says. Its
    evidence is as large as what is judged: of a judged document, the whole of it, also where the
    label has a span; of a judged chunk, the characters of the chunk.

    Args:
        facts: ``query_id``, ``answers`` and ``unanswerable`` of
            :data:`rag_assets.schemas.QUERY_FACTS`.
        qrels: table of :data:`rag_assets.schemas.QRELS`; None: there are no labels.
        judge: ``document``, ``chunk`` or ``evidence``.
        chunks: table of :data:`rag_assets.schemas.CHUNKS` of all chunkings; needed where chunks are
            judged. A label of a chunk that it lacks stays, and no context holds it.

    Returns:
        Table of :data:`~rag_assets.answers.tables.GOLDS`, in the order of ``facts``.
    """
    places: dict[str, dict[str, Any]] = {}
    if judge == "chunk" and chunks is not None:
        spans = chunks.select(["chunk_id", "document_id", "start", "end"]).to_pylist()
        places = {row.pop("chunk_id"): row for row in spans}
    evidence: dict[str, list[dict[str, Any]]] = {}
    if qrels is not None:
        for row in qrels.filter(pc.greater(qrels["grade"], 0)).to_pylist():
            place = {name: row[name] for name in ("evidence_id", "document_id", "start", "end")}
            if judge == "document":
                place |= {"start": None, "end": None}
            evidence.setdefault(row["query_id"], []).append(
                place | places.get(row["document_id"], {})
            )
    said = answerable_queries(facts, qrels)
    return GOLDS.from_rows(
        [
            {
                "query_id": row["query_id"],
                "answers": row["answers"],
                "answerable": True if row["answers"] else said[row["query_id"]],
                "evidence": evidence.get(row["query_id"], []),
            }
            for row in facts.select(["query_id", "answers"]).to_pylist()
        ]
    )
