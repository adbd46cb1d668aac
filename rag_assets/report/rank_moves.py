"""The queries that two retrievers differ most on, and where each puts what is relevant."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.report.comparisons import Compared
from rag_assets.report.formats import Row
from rag_assets.report.result import EvaluationResult
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.statistics.units import SAME

Ranks = dict[tuple[str, str], int]
"""(query, evidence) -> the rank of the first unit that satisfies it."""


@dataclass(frozen=True)
class Move:
    """One relevant evidence: where it lies, and its rank in either; None: not retrieved."""

    evidence: str
    rank_a: int | None
    rank_b: int | None


@dataclass(frozen=True)
class MovedQuery:
    """One query, the metric of either retriever, and what became of each relevant evidence."""

    query_id: str
    text: str
    value_a: float
    value_b: float
    moves: tuple[Move, ...]

    def row(self) -> Row:
        """Return it for programs."""
        return {**asdict(self), "difference": self.value_b - self.value_a}


def moved_queries(
    compared: Compared, a: str, b: str, n: int
) -> tuple[list[MovedQuery], list[MovedQuery]]:
    """Return the ``n`` queries that b wins most, and those that it loses most, largest first."""
    won, lost = most_moved(compared, a, b, n)
    queries = _moves(compared, a, b, [*won, *lost])
    return queries[: len(won)], queries[len(won) :]


def move_rows(compared: Compared, a: str, b: str) -> list[Row]:
    """Return one mapping a query and relevant evidence: what b won most first, the lost last.

    Each has ``query_id``, ``outcome`` of b (``won``, ``tied``, ``lost``), ``difference``,
    ``value_a``, ``value_b``, ``evidence`` and its ranks, ``rank_a`` and ``rank_b``: None where the
    deepest run does not have it.
    """
    gained = gains(compared, a, b)
    rows: list[Row] = []
    for query in _moves(compared, a, b, list(gained)):
        difference = gained[query.query_id]
        lead: Row = {"query_id": query.query_id, "outcome": outcome(difference)}
        lead |= {"difference": difference}
        lead |= {"value_a": query.value_a, "value_b": query.value_b}
        rows += [{**lead, **asdict(move)} for move in query.moves]
    return rows


def gains(compared: Compared, a: str, b: str) -> dict[str, float]:
    """Return query -> value of b minus that of a, where both have one; the most won first."""
    values_a, values_b = compared.values(a), compared.values(b)
    gained = {q: values_b[q] - values_a[q] for q in values_a.keys() & values_b.keys()}
    ordered = sorted(gained, key=lambda q: (-gained[q] if abs(gained[q]) > SAME else 0.0, q))
    return {q: gained[q] for q in ordered}


def outcome(difference: float) -> str:
    """Return what became of a query: ``won``, ``tied`` or ``lost``."""
    return "tied" if abs(difference) <= SAME else "won" if difference > 0 else "lost"


def most_moved(compared: Compared, a: str, b: str, n: int) -> tuple[list[str], list[str]]:
    """Return the ``n`` queries that b wins most, and those that it loses most, largest first."""
    gained = gains(compared, a, b)
    won = [q for q in gained if outcome(gained[q]) == "won"][:n]
    lost = sorted((q for q in gained if outcome(gained[q]) == "lost"), key=lambda q: (gained[q], q))
    return won, lost[:n]


def _moves(compared: Compared, a: str, b: str, query_ids: Sequence[str]) -> list[MovedQuery]:
    values_a, values_b = compared.values(a), compared.values(b)
    chosen = set(query_ids)
    cutoff = compared.metric.cutoff or 0
    ranks = {name: _ranks(compared.result, name, cutoff, chosen) for name in (a, b)}
    labels = _labels(compared.result, chosen)
    texts = _pairs(compared.result.queries, "query_id", "text")

    def moved(query_id: str) -> MovedQuery:
        moves = [
            Move(label, ranks[a].get((query_id, evidence)), ranks[b].get((query_id, evidence)))
            for evidence, label in labels[query_id].items()
        ]
        values = values_a[query_id], values_b[query_id]
        return MovedQuery(query_id, texts[query_id], *values, tuple(moves))

    return [moved(query_id) for query_id in query_ids]


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
    documents: dict[str, dict[str, dict[str, None]]] = {}
    for row in _of_queries(result.table(QRELS_KEY), query_ids):
        if row["grade"] > 0:
            of_query = documents.setdefault(row["query_id"], {})
            of_query.setdefault(row["evidence_id"], {})[row["document_id"]] = None
    labels: dict[str, dict[str, str]] = {query_id: {} for query_id in query_ids}
    for query_id, evidences in documents.items():
        names = {evidence: " or ".join(found) for evidence, found in evidences.items()}
        shared = [name for name in names.values() if list(names.values()).count(name) > 1]
        labels[query_id] = {
            evidence: f"{name} ({evidence})" if name in shared else name
            for evidence, name in names.items()
        }
    return labels


def _of_queries(table: pa.Table, query_ids: Collection[str]) -> list[dict[str, Any]]:
    ids = pa.array(sorted(query_ids), pa.string())
    rows: list[dict[str, Any]] = table.filter(pc.is_in(table["query_id"], ids)).to_pylist()
    return rows


def _pairs(table: pa.Table, key: str, value: str) -> dict[str, str]:
    return dict(zip(table[key].to_pylist(), table[value].to_pylist(), strict=True))
