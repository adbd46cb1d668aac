"""Where evidence was found or lost: rows for programs, terminal tables, the section of the page."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

import pyarrow as pa
from rich.console import Group, RenderableType
from rich.text import Text

from rag_assets.evaluation.attribution import FOUND, PLACES, Places, places
from rag_assets.evaluation.query_facts import ALL
from rag_assets.report.formats import Row
from rag_assets.report.result import EvaluationResult
from rag_assets.report.slices import members_by
from rag_assets.report.terminal_table import (
    FittedTable,
    count_cell,
    number_cell,
    plain_cell,
    title_line,
)
from rag_assets.report.view import Context, View

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
    weights = {name: result.attributed_weights(name, chosen) for name in tables}
    if by is None:
        counts = ((name, places(table, weights[name])) for name, table in tables.items())
        return [
            _row({"retriever": name, "split": chosen}, counted, result)
            for name, counted in counts
            if counted
        ]
    return [
        _row({by: value, "retriever": name, "split": chosen}, counted, result)
        for value, query_ids in sorted(members_by(by, result.table_of).items())
        for name, table in tables.items()
        if (counted := places(table, weights[name].keys() & set(query_ids)))
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


HEADERS = {
    "found": "found",
    "cut_at_k": "cut\nat k",
    "lost_in_reranking": "lost in\nrerank.",
    "lost_in_fusion": "lost in\nfusion",
    "below_candidates": "below\ncand.",
    "no_chunk": "no\nchunk",
    "not_in_corpus": "not in\ncorpus",
}
_WITH_SHARES = 5
"""So many places fit 80 columns with their shares."""


def attribution_view(experiment: str, rows: Sequence[Row], by: str | None = None) -> RenderableType:
    """Return one row a retriever, or a slice and retriever: evidences by place.

    Places at which nothing is are left out.

    Args:
        experiment: its name.
        rows: as :func:`rag_assets.report.attribution.attribution_rows` gives.
        by: the criterion of the slices.
    """
    shown = [place for place in PLACES if place == FOUND or any(row[place] for row in rows)]
    shares = by is None and len(shown) <= _WITH_SHARES
    table = FittedTable(narrow=True)
    for name in [*([by] if by else []), "retriever"]:
        table.text_column(name, min_width=8)
    headers = ["evi-\ndences", *[HEADERS[place] for place in shown], "recall", "ceil-\ning"]
    for header in headers:
        table.number_column(header)
    for row in rows:
        lead = [plain_cell(row[name]) for name in ([by] if by else []) + ["retriever"]]
        counts = [_count(row, place, share=shares) for place in shown]
        ends = [number_cell(row["recall"]), number_cell(row["ceiling"])]
        table.add_row(*lead, str(row["n_evidences"]), *counts, *ends)
    split = "" if rows[0]["split"] == ALL else f", {rows[0]['split']}"
    title = f"{experiment}: where the evidences are, at top_k {rows[0]['top_k']}{split}"
    return Group(title_line(title), table)


def lost_view(rows: Sequence[Row]) -> RenderableType:
    """Return one table a retriever: every evidence that it did not find.

    Args:
        rows: as :func:`rag_assets.report.attribution.lost_rows` gives.
    """
    parts: list[RenderableType] = []
    for name, lost in groupby(rows, lambda row: str(row["retriever"])):
        parts += ["", _lost_table(name, list(lost))]
    return Group(*parts)


def _lost_table(retriever: str, rows: Sequence[Row]) -> RenderableType:
    inputs = [name for name in rows[0] if name.startswith(RANK_IN)]
    table = FittedTable(narrow=True)
    table.text_column("query")
    table.add_column("lost at", no_wrap=True)
    table.number_column("rank")
    for number, _ in enumerate(inputs, 1):
        table.number_column(f"in {number}")
    table.text_column("question and evidence")
    for row in rows:
        what = plain_cell(row["query"]).append(f"\n{plain_cell(row['evidence_id'])}", style="dim")
        ranks = [count_cell(row[name]) for name in ("rank", *inputs)]
        table.add_row(plain_cell(row["query_id"]), str(row["lost_at"]), *ranks, what)
    names = [f"in {n}: {name.removeprefix(RANK_IN)}" for n, name in enumerate(inputs, 1)]
    title = f"{retriever}: {len(rows)} lost"
    return Group(Text(f"{title} ({', '.join(names)})" if names else title, style="bold"), table)


def _count(row: Row, place: str, *, share: bool) -> str:
    number = str(row[place])
    return f"{number} {number_cell(row[f'{place}_share'], '.0%'):>4}" if share else number


LOSSES = {
    "not_in_corpus": "no such document",
    "no_chunk": "in no chunk",
    "below_candidates": "not retrieved",
    "lost_in_fusion": "lost by the fusion",
    "lost_in_reranking": "lost by the reranker",
    "cut_at_k": "ranked below the cut",
}
"""Place -> what it is called, in the order of the stages."""

LEFT = {
    "not_in_corpus": "in the corpus",
    "no_chunk": "in a chunk",
    "below_candidates": "retrieved",
    "lost_in_fusion": "kept by the fusion",
    "lost_in_reranking": "kept by the reranker",
    "cut_at_k": "found",
}
"""Place -> what is left behind it."""


def stages(view: View) -> Context | None:
    """Return a row a retriever, and its flow; None without attributions."""
    if not view.result.evaluation.entries_of("attributions"):
        return None
    rows = attribution_rows(view.result, view.retrievers)
    if not rows:
        return None
    order = {name: number for number, name in enumerate(view.retrievers)}
    rows.sort(key=lambda row: order[str(row["retriever"])])
    used = [place for place in LOSSES if any(row[place] for row in rows)]
    return {
        "rows": rows,
        "places": [(place, LOSSES[place]) for place in used],
        "top_k": view.result.attributed_top_k,
        "data": {
            "retrievers": [row["retriever"] for row in rows],
            "flows": [_flow(row) for row in rows],
        },
    }


def _flow(row: Context) -> Context:
    """Return the number of evidences, and of each stage that loses some what it loses and leaves.

    The last stage is named as such where nothing is lost at the end.
    """
    left = row["n_evidences"]
    steps = []
    for place, name in LOSSES.items():
        if row[place]:
            left -= row[place]
            steps.append({"lost": name, "n_lost": row[place], "left": LEFT[place], "n_left": left})
    if steps:
        steps[-1]["left"] = LEFT["cut_at_k"]
    return {"n": row["n_evidences"], "found": row[FOUND], "steps": steps}
