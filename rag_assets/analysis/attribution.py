"""Where evidence was found or lost, and from corpus to answer what became of each question."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.analysis.slices import members_by
from rag_assets.answers.waterfall_stage import CLASSES, UNKNOWN, WITH, shares
from rag_assets.evaluation.attributions_stage import FOUND, PLACES, Places, places
from rag_assets.pipeline.stored_evaluation import pairs_of
from rag_assets.sheets.sheet import TEXT, Column, Sheet, of_split


def attribution_rows(
    result: EvaluationResult, retrievers: Collection[str], by: str | None = None
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

    Raises:
        NotEvaluated: the evaluation has no attributions.
        UsageError: ``by`` is none of these, or no query or document has the field.
    """
    tables = {name: table for name, table in result.attributions.items() if name in retrievers}
    weights = {name: result.attributed_weights(name) for name in tables}
    groups: list[tuple[Row, Collection[str] | None]] = [({}, None)]
    if by is not None:
        members = sorted(members_by(by, result.table_of).items())
        groups = [({by: value}, ids) for value, ids in members]
    return [
        {
            **{**lead, "retriever": name, "split": result.split},
            **{"top_k": result.cutoff, "n_queries": placed.n_queries},
            "n_evidences": placed.n_evidences,
            **{key: n for place in PLACES for key, n in _counts(placed, place).items()},
            **{"recall": placed.recall, "ceiling": placed.ceiling},
        }
        for lead, ids in groups
        for name, table in tables.items()
        for counted in (weights[name].keys() if ids is None else weights[name].keys() & set(ids),)
        if (placed := places(table, counted))
    ]


def _counts(of_place: Places, place: str) -> Row:
    return {place: of_place.counts[place], f"{place}_share": of_place.share(place)}


def lost_rows(result: EvaluationResult, retrievers: Collection[str]) -> list[Row]:
    """Return one mapping an evidence that a retriever did not find, by place and query.

    Keys: ``retriever``, ``query_id``, ``evidence_id``, ``lost_at``, ``rank``, ``query`` (its text).
    Queries are those that :func:`attribution_rows` counts.

    Raises:
        NotEvaluated: the evaluation has no attributions.
    """
    texts = pairs_of(result.queries, "query_id", "text")
    keys = ("query_id", "evidence_id", "lost_at", "rank")
    rows: list[Row] = []
    for name, table in result.attributions.items():
        counted = result.attributed_weights(name) if name in retrievers else {}
        of_retriever = [row for row in table.to_pylist() if row["query_id"] in counted]
        of_retriever.sort(key=lambda row: (PLACES.index(row["lost_at"]), *map(row.get, keys[:2])))
        rows += [
            {"retriever": name, **{key: row[key] for key in keys}, "query": texts[row["query_id"]]}
            for row in of_retriever
            if row["lost_at"] != FOUND
        ]
    return rows


HEADERS = {
    "found": "found",
    "cut_at_k": "cut\nat k",
    "lost_in_reranking": "lost in\nrerank.",
    "lost_in_fusion": "lost in\nfusion",
    "below_candidates": "below\ncand.",
    "no_chunk": "no\nchunk",
    "not_in_corpus": "not in\ncorpus",
}
"""Place -> its heading."""

MAX_WITH_SHARES = 5
"""Places that fit 80 columns with their shares."""

CEILING = "recall of the candidates that a fusion or reranker reads; no order of them finds more"


def attribution_sheet(
    experiment: str, rows: Sequence[Row], by: str | None = None, *, shares: bool = False
) -> Sheet:
    """Return one row a retriever, or a slice and retriever: evidences by place.

    Places at which nothing is are left out.
    """
    present = [place for place in PLACES if place == FOUND or any(row[place] for row in rows)]
    has_shares = shares or (by is None and len(present) <= MAX_WITH_SHARES)
    columns = (
        *([Column(by, by, TEXT, min_width=8)] if by else []),
        Column("retriever", "retriever", TEXT, min_width=8),
        Column("n_evidences", "evi-\ndences", "d"),
        *(
            Column(p, HEADERS[p], "d", help=LOSSES.get(p, ""), share=f"{p}_share" * has_shares)
            for p in present
        ),
        Column("recall", "recall"),
        Column("ceiling", "ceil-\ning", help=CEILING),
    )
    where = f"at top_k {rows[0]['top_k']}{of_split(str(rows[0]['split']))}"
    title = f"{experiment}: where the evidences are, {where}"
    return Sheet(title, columns, rows, is_narrow=True, name="stages")


def lost_sheet(rows: Sequence[Row]) -> Sheet:
    """Return every evidence that a retriever did not find, see :func:`lost_rows`."""
    columns = (
        Column("retriever", "retriever", TEXT),
        Column("query_id", "query", TEXT),
        Column("lost_at", "lost at", TEXT, is_whole=True),
        Column("rank", "rank", "d"),
        Column("query", "question", TEXT),
        Column("evidence_id", "evidence", TEXT),
    )
    return Sheet(f"{len(rows)} lost", columns, rows, is_narrow=True)


LOSSES = {
    "not_in_corpus": "no such document",
    "no_chunk": "in no chunk",
    "below_candidates": "not retrieved",
    "lost_in_fusion": "lost by the fusion",
    "lost_in_reranking": "lost by the reranker",
    "cut_at_k": "ranked below the cut",
}
"""Place -> what it is called, in the order of the stages."""


def stages(view: EvaluationResult) -> Row | None:
    """Return the section of the page; None without attributions."""
    if not view.evaluation.entries_of("attributions"):
        return None
    if not (rows := attribution_rows(view, view.retrievers)):
        return None
    rows.sort(key=lambda row: view.retrievers.index(str(row["retriever"])))
    sheet = attribution_sheet(view.evaluation.experiment, rows, shares=True)
    return {"sheet": sheet, "top_k": view.cutoff}


STAGE_NAMES = {**LOSSES, "dropped_from_context": "dropped by order or budget"}
_CONTEXT_NAMES = {WITH: "the context has it", UNKNOWN: "context not known"}

CLASS_NAMES = {
    "failed": "failed",
    "evidence_not_labelled": "evidence not labelled",
    "answer_not_labelled": "answer not labelled",
    "unanswerable_refused": "unanswerable, refused",
    "unanswerable_answered": "unanswerable, answered",
    "right_with_evidence": "right, with the evidence",
    "right_without_evidence": "right, without the evidence",
    "right_context_unknown": "right, context not known",
    **{
        f"{kind}_{place}": f"{kind}: {name}"
        for kind in ("wrong", "refused")
        for place, name in {**STAGE_NAMES, **_CONTEXT_NAMES}.items()
    },
}
"""Class -> what it is called."""


def waterfall_rows(result: EvaluationResult) -> list[Row]:
    """Return a row for each class of each answerer that has a question.

    Returns:
        ``answerer`` (``name@k``), ``split``, ``outcome`` (of
        :data:`rag_assets.answers.waterfall_stage.CLASSES`, in their order), ``n`` questions,
        ``share``
        of all by weight. The shares of an answerer sum to 1.
    """
    entries = result.evaluation.entries_of("answer_waterfall")
    weights = result.weights(result.split) if entries else {}
    rows: list[Row] = []
    for entry in entries:
        table = result.table(entry.key)
        counted = [query_id in weights for query_id in table["query_id"].to_pylist()]
        lead = {"answerer": entry.partition["answerer"], "split": result.split}
        rows += [{**lead, **row} for row in shares(table.filter(counted), weights)]
    return rows


def waterfall_sheet(title: str, rows: Sequence[Row]) -> Sheet:
    """Return a row a class and a column an answerer; rows as :func:`waterfall_rows` gives."""
    answerers = list(dict.fromkeys(row["answerer"] for row in rows))
    present = {row["outcome"] for row in rows}
    total: Row = {"class": "questions", **{f"share {name}": 1.0 for name in answerers}}
    total |= {f"n {name}": sum(r["n"] for r in rows if r["answerer"] == name) for name in answerers}
    nothing = {f"n {name}": 0 for name in answerers} | {f"share {name}": 0.0 for name in answerers}
    lines = {c: {"class": CLASS_NAMES[c], **nothing} for c in CLASSES if c in present}
    for row in rows:
        name = row["answerer"]
        lines[row["outcome"]] |= {f"n {name}": row["n"], f"share {name}": row["share"]}
    columns = (
        Column("class", "class", TEXT, min_width=22),
        *(Column(f"n {name}", name, "d", share=f"share {name}") for name in answerers),
    )
    title = f"{title}{of_split(rows[0]['split'])}"
    return Sheet(title, columns, [*lines.values(), total], name="waterfall")
