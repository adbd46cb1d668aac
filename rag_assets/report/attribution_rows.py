"""Where evidence was found or lost, as rows for programs: counts, and the lost ones by name."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

from rag_assets.evaluation.attribution import FOUND, PLACES, Places, places
from rag_assets.report.result import EvaluationResult
from rag_assets.report.rows import Row
from rag_assets.report.slices import members_by

RANK_IN = "rank_in_"


def attribution_rows(
    result: EvaluationResult,
    retrievers: Collection[str],
    by: str | None = None,
    split: str | None = None,
) -> list[Row]:
    """Return one mapping a retriever, or with ``by`` one a slice of the queries and retriever.

    Keys: ``retriever``, ``split``, ``top_k``, ``n_queries``, ``n_evidences``; of each place its
    number and, as ``<place>_share``, its part of all evidences; ``recall``, the mean over queries
    of the share found; ``ceiling``, that of the candidates, None for a retriever that reads no
    other. A slice without an evidence is left out, and so are queries on which a retriever failed.

    Args:
        result: the evaluation.
        retrievers: whose rows.
        by: ``tag``, ``query.<field>`` or ``document.<field>``.
        split: whose queries to count; the one that the leaderboard shows when absent.

    Raises:
        NotEvaluated: the evaluation has no attributions.
        UsageError: ``by`` is none of these, no query or document has the field, or the queries are
            not split.
    """
    chosen = result.chosen_split(split)
    tables = {name: table for name, table in result.attributions.items() if name in retrievers}
    counted = {name: result.attributed_weights(name, chosen) for name in tables}
    if by is None:
        each = ((name, places(table, counted[name])) for name, table in tables.items())
        return [
            _row({"retriever": name, "split": chosen}, found, result)
            for name, found in each
            if found
        ]
    return [
        _row({by: value, "retriever": name, "split": chosen}, found, result)
        for value, query_ids in sorted(members_by(by, result.table_of).items())
        for name, table in tables.items()
        if (found := places(table, counted[name].keys() & set(query_ids)))
    ]


def _row(lead: Row, found: Places, result: EvaluationResult) -> Row:
    row: Row = {
        **lead,
        "top_k": result.attributed_top_k,
        "n_queries": found.n_queries,
        "n_evidences": found.n_evidences,
    }
    for place in PLACES:
        row |= {place: found.counts[place], f"{place}_share": found.share(place)}
    return {**row, "recall": found.recall, "ceiling": found.ceiling}


def lost_rows(
    result: EvaluationResult, retrievers: Collection[str], split: str | None = None
) -> list[Row]:
    """Return one mapping an evidence that a retriever did not find, by place and query.

    Keys: ``retriever``, ``query_id``, ``evidence_id``, ``lost_at``, ``rank``, ``query`` (its text),
    and ``rank_in_<input>`` for each retriever that this one reads. Queries are those that
    :func:`attribution_rows` counts.

    Raises:
        NotEvaluated: the evaluation has no attributions.
        UsageError: the queries are not split.
    """
    chosen = result.chosen_split(split)
    texts = {row["query_id"]: row["text"] for row in result.queries.to_pylist()}
    rows: list[Row] = []
    for name, table in result.attributions.items():
        if name in retrievers:
            counted = result.attributed_weights(name, chosen)
            lost = [row for row in _lost(name, table, texts) if row["query_id"] in counted]
            rows += sorted(lost, key=_order)
    return rows


def _lost(retriever: str, table: pa.Table, texts: dict[str, str]) -> Iterator[Row]:
    for row in table.to_pylist():
        if row["lost_at"] != FOUND:
            ranks = zip(row["inputs"], row["input_ranks"], strict=True)
            yield {
                "retriever": retriever,
                **{name: row[name] for name in ("query_id", "evidence_id", "lost_at", "rank")},
                "query": texts.get(row["query_id"], ""),
                **{f"{RANK_IN}{name}": rank for name, rank in ranks},
            }


def _order(row: Row) -> tuple[int, str, str]:
    return PLACES.index(str(row["lost_at"])), str(row["query_id"]), str(row["evidence_id"])
