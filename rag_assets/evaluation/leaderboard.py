"""Means of retrievers with the accounting that gives them their meaning, and their ranking.

A summary has a row for each split and cut-off of one retriever, the leaderboard those of all.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence, Set
from fractions import Fraction

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.query_facts import ALL, DEV, TEST, answerable_queries
from rag_assets.schemas import LEADERBOARD, METRICS_SUMMARY, column_values

TOKENS, UNIT_TOKENS = "tokens", "unit_tokens"
"""Columns of query metrics: the tokens of the units retrieved, together, and of each."""

TIE = 1e-12
"""Two means nearer than this are one value; the last bits of a sum carry no meaning."""


def is_tied(value: float | None, best: float | None) -> bool:
    """Return whether a mean equals the best of its column."""
    return value is not None and best is not None and abs(value - best) <= TIE


SPLITS = (ALL, TEST, DEV)
"""The order of the splits; the first that a board has is the one to show."""


def mean(values: Sequence[float | None], weights: Sequence[float] | None = None) -> float | None:
    """Return the mean of the values that are not None, sum(w v) / sum(w).

    Both sums are exact, so the order does not matter. Without weights each is 1.
    """
    if weights is None or set(weights) <= {1}:
        numbers = [value for value in values if value is not None]
        return math.fsum(numbers) / len(numbers) if numbers else None
    pairs = [(v, w) for v, w in zip(values, weights, strict=True) if v is not None]
    total = math.fsum(w for _, w in pairs)
    return float(sum(Fraction(v) * Fraction(w) for v, w in pairs)) / total if total else None


def summarise(
    cells: Mapping[int, pa.Table],
    measures: Mapping[int, Sequence[str]],
    counting: pa.Table,
    not_in_corpus: Mapping[str, int] | None = None,
    qrels: pa.Table | None = None,
) -> pa.Table:
    """Return one row for each split and cut-off of a retriever, sorted by split and top_k.

    Means are over answerable queries on which the retriever did not fail; one for which nothing was
    retrieved counts 0.

    Args:
        cells: top_k -> query metrics.
        measures: top_k -> the measures to average; others are null in that row.
        counting: query facts, a row for each query.
        not_in_corpus: query -> its positive evidences none of whose documents is in the corpus.
        qrels: queries with a grade of 0 and no higher one are unanswerable, those without a
            judgment unlabelled; None: no query has a grade of 0.
    """
    names = list(dict.fromkeys(name for chosen in measures.values() for name in chosen))
    fields = [pa.field(name, pa.float64()) for name in names]
    schema = pa.schema([*METRICS_SUMMARY.arrow(), *fields])
    answers = answerable_queries(counting, qrels).items()
    unanswerable = {query_id for query_id, answerable in answers if answerable is False}
    rows = []
    for split in sorted(set(counting.column("split").to_pylist())):
        chosen = counting.filter(pc.equal(counting["split"], split))
        weight_of: dict[str, float] = dict(column_values(chosen, "query_id", "weight"))
        for top_k, table in sorted(cells.items()):
            part = table.filter(pc.is_in(table["query_id"], value_set=chosen["query_id"].unique()))
            query_ids = part["query_id"].to_pylist()
            weights = [weight_of[query_id] for query_id in query_ids]
            counts = _accounting(part, weight_of, unanswerable, not_in_corpus or {})
            row = {"split": split, "top_k": top_k, **counts}
            row |= {name: mean(part[name].to_pylist(), weights) for name in measures[top_k]}
            rows.append(row)
    return METRICS_SUMMARY.check(pa.Table.from_pylist(rows, schema=schema))


def _accounting(
    cell: pa.Table,
    weight_of: Mapping[str, float],
    unanswerable: Set[str],
    not_in_corpus: Mapping[str, int],
) -> dict[str, object]:
    n_attempted, n_failed = cell.num_rows, _total(cell, "failed")
    has_labels, worked = pc.greater(cell["n_relevant"], 0), pc.invert(cell["failed"])
    averaged = cell.filter(pc.and_(has_labels, worked))
    ids = averaged["query_id"].to_pylist()
    weights = [weight_of[query_id] for query_id in ids]
    without = cell.filter(pc.invert(has_labels))["query_id"].to_pylist()
    n_unanswerable = len(unanswerable & {*without})
    n_answered = cell.filter(pc.and_(pc.greater(cell["n_retrieved"], 0), worked)).num_rows
    retrieved, judged = _total(cell, "n_retrieved"), _total(cell, "n_judged")
    ties = averaged["ties_at_cut"]
    return {
        "n_queries": averaged.num_rows,
        "weight": math.fsum(weights),
        "n_attempted": n_attempted,
        "n_answered": n_answered,
        "n_empty": n_attempted - n_answered - n_failed,
        "n_failed": n_failed,
        "n_unanswerable": n_unanswerable,
        "n_unlabelled": len(without) - n_unanswerable,
        "n_unreachable": _total(averaged, "n_unreachable"),
        "n_not_in_corpus": sum(not_in_corpus.get(query_id, 0) for query_id in ids),
        "n_unjudged": retrieved - judged,
        "judged": judged / retrieved if retrieved else None,
        # None: nobody knows
        "n_tied": None if ties.null_count else pc.sum(pc.greater(ties, 0), min_count=0).as_py(),
        "tokens": mean(averaged[TOKENS].to_pylist(), weights),
    }


def _total(table: pa.Table, column: str) -> int:
    return int(pc.sum(table[column], min_count=0).as_py())


def leaderboard(
    summaries: Mapping[str, pa.Table],
    primary: Metric,
    tuned: Collection[str] = (),
    perturbed: Collection[str] = (),
) -> pa.Table:
    """Return one row a cell and split; test before dev, and within a split the best first.

    A retriever without a cell of the primary metric comes last. Without a place come those of
    ``perturbed``, that search what nobody asked, and on dev those of ``tuned``, whose parameters
    were chosen there.
    """
    tables: list[pa.Table] = []
    for split in SPLITS:
        parts = {name: t.filter(pc.equal(t["split"], split)) for name, t in summaries.items()}
        parts = {name: part for name, part in parts.items() if part.num_rows}
        tables += _placed(parts, primary, {*perturbed, *(tuned if split == DEV else ())})
    if not tables:
        return LEADERBOARD.empty()
    return LEADERBOARD.check(pa.concat_tables(tables, promote_options="default").combine_chunks())


def splits_of(board: pa.Table) -> list[str]:
    """Return the splits of a leaderboard, the one to show first."""
    present = set(board.column("split").to_pylist())
    return [split for split in SPLITS if split in present]


def _placed(
    parts: Mapping[str, pa.Table], primary: Metric, unplaced: Collection[str]
) -> Sequence[pa.Table]:
    values = {}
    for name, table in parts.items():
        rows = [row for row in table.to_pylist() if row["top_k"] == primary.cutoff]
        value = rows[0].get(primary.column) if rows else None
        values[name] = float("-inf") if value is None else float(value)
    tables = []
    for name, position in positions(values, unplaced).items():
        table = parts[name]
        lead = {
            "position": pa.array([position] * table.num_rows, pa.int32()),
            "retriever": pa.array([name] * table.num_rows, pa.string()),
        }
        tables.append(pa.table({**lead, **{c: table.column(c) for c in table.column_names}}))
    return tables


def positions(values: Mapping[str, float], unplaced: Collection[str]) -> dict[str, int | None]:
    """Return name -> position, best first; those that are not ranked come last, and have None."""
    ranked = {name: value for name, value in values.items() if name not in unplaced}
    order = sorted(values, key=lambda name: (name not in ranked, -values[name], name))
    return {
        name: 1 + sum(other > values[name] + TIE for other in ranked.values())
        if name in ranked
        else None
        for name in order
    }
