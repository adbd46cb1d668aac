"""The queries that two systems differ most on: ranks of what is relevant, or both answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.stage import answers_key
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.report.comparisons import Compared
from rag_assets.report.result import EvaluationResult, Row, pairs_of
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.statistics.units import SAME

Ranks = dict[tuple[str, str], int]
"""(query, evidence) -> the rank of the first unit that satisfies it."""


def most_changed(compared: Compared, a: str, b: str, n: int) -> tuple[list[Row], list[Row]]:
    """Return the ``n`` queries that b wins most, and those that it loses most, largest first.

    Each has ``query_id``, ``text``, ``value_a``, ``value_b`` and ``difference``. For retrievers
    ``moves`` has each relevant evidence with its ``rank_a`` and ``rank_b`` (None: the deepest run
    does not have it). For answerers ``golds`` are the right answers, ``unanswerable`` is whether
    the data says that nothing is right, and ``answer_a`` and ``answer_b`` what they answer (empty:
    refused; None: failed).
    """
    values_a, values_b = compared.values(a), compared.values(b)
    gained = {q: values_b[q] - values_a[q] for q in values_a.keys() & values_b.keys()}
    ordered = sorted(gained, key=lambda query: (-abs(gained[query]), query))
    won = [query for query in ordered if gained[query] > SAME][:n]
    lost = [query for query in ordered if gained[query] < -SAME][:n]
    rows = _rows(compared, a, b, [*won, *lost])
    return rows[: len(won)], rows[len(won) :]


def _rows(compared: Compared, a: str, b: str, query_ids: Sequence[str]) -> list[Row]:
    values_a, values_b = compared.values(a), compared.values(b)
    texts = pairs_of(compared.result.queries, "query_id", "text")
    details = _answers if compared.source.is_of_answers else _moves
    of_query = details(compared, a, b, query_ids)
    return [
        {
            "query_id": query,
            "text": texts[query],
            "value_a": values_a[query],
            "value_b": values_b[query],
            **of_query[query],
            "difference": values_b[query] - values_a[query],
        }
        for query in query_ids
    ]


def _answers(compared: Compared, a: str, b: str, query_ids: Sequence[str]) -> dict[str, Row]:
    result = compared.result
    answers_a, answers_b = (
        pairs_of(result.table(answers_key(name)), "query_id", "answer") for name in (a, b)
    )
    golds = pairs_of(result.table(QUERY_FACTS_KEY), "query_id", "answers")
    return {
        query: {
            "golds": tuple(golds[query]),
            "unanswerable": not golds[query] and result.answerable[query] is False,
            "answer_a": answers_a.get(query),
            "answer_b": answers_b.get(query),
        }
        for query in query_ids
    }


def answer_text(answer: str | None) -> str:
    """Return an answer in one line, as people read it."""
    if answer is None:
        return "(failed)"
    return " ".join(answer.split()) or "(refused)"


def right_text(row: Row) -> str:
    """Return what is right, of a row of answerers."""
    missing = "(unanswerable)" if row["unanswerable"] else "(not labelled)"
    return " | ".join(row["golds"]) or missing


def _moves(compared: Compared, a: str, b: str, query_ids: Sequence[str]) -> dict[str, Row]:
    chosen = set(query_ids)
    cutoff = compared.metric.cutoff or 0
    ranks = {name: _ranks(compared.result, name, cutoff, chosen) for name in (a, b)}
    return {
        query: {
            "moves": tuple(
                {
                    "evidence": label,
                    "rank_a": ranks[a].get((query, evidence)),
                    "rank_b": ranks[b].get((query, evidence)),
                }
                for evidence, label in labels.items()
            )
        }
        for query, labels in _labels(compared.result, chosen).items()
    }


def _ranks(
    result: EvaluationResult, retriever: str, cutoff: int, query_ids: Collection[str]
) -> Ranks:
    """Return ranks in the run that was scored, and of what lies deeper, in the deepest one."""
    keys = result.run_keys(retriever)
    scored, deepest = (result.table(keys[top_k]) for top_k in (cutoff, max(keys)))
    rank_of: dict[tuple[str, str], int] = {}
    for run, first in ((scored, 1), (deepest, cutoff + 1)):
        for row in _of_queries(run, query_ids):
            if row["rank"] >= first:
                rank_of.setdefault((row["query_id"], row["unit_id"]), row["rank"])
    ranks: Ranks = {}
    for row in _of_queries(result.table(relevant_units_key(retriever)), query_ids):
        rank = rank_of.get((row["query_id"], row["unit_id"]))
        if rank is not None and row["grade"] > 0:
            place = (row["query_id"], row["evidence_id"])
            ranks[place] = min(rank, ranks.get(place, rank))
    return ranks


def _labels(result: EvaluationResult, query_ids: Collection[str]) -> dict[str, dict[str, str]]:
    """Return query -> evidence -> its documents; two that share them have their own id behind."""
    documents: dict[str, dict[str, dict[str, None]]] = {query: {} for query in query_ids}
    for row in _of_queries(result.table(QRELS_KEY), query_ids):
        if row["grade"] > 0:
            of_query = documents[row["query_id"]]
            of_query.setdefault(row["evidence_id"], {})[row["document_id"]] = None
    labels = {}
    for query_id, evidences in documents.items():
        names = {evidence: " or ".join(ids) for evidence, ids in evidences.items()}
        every = list(names.values())
        labels[query_id] = {
            evidence: f"{name} ({evidence})" if every.count(name) > 1 else name
            for evidence, name in names.items()
        }
    return labels


def _of_queries(table: pa.Table, query_ids: Collection[str]) -> list[Row]:
    ids = pa.array(sorted(query_ids), pa.string())
    rows: list[Row] = table.filter(pc.is_in(table["query_id"], ids)).to_pylist()
    return rows
