"""Where evidence was found or lost, and from corpus to answer what became of each question."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby

from rag_assets.answers.waterfall_stage import CLASSES, UNKNOWN, WITH, shares
from rag_assets.errors import NotEvaluated
from rag_assets.evaluation.attributions_stage import FOUND, PLACES, Places, places
from rag_assets.report.result import EvaluationResult, Row, pairs_of
from rag_assets.report.sheet import TEXT, Column, Sheet, of_split
from rag_assets.report.slices import members_by

RANK_IN = "rank_in_"


def attribution_rows(
    result: EvaluationResult,
    retrievers: Collection[str],
    by: str | None = None,
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
    weights = {name: result.attributed_weights(name, result.split) for name in tables}
    if by is None:
        counts = ((name, places(table, weights[name])) for name, table in tables.items())
        return [_row({"retriever": name}, counted, result) for name, counted in counts if counted]
    return [
        _row({by: value, "retriever": name}, counted, result)
        for value, query_ids in sorted(members_by(by, result.table_of).items())
        for name, table in tables.items()
        if (counted := places(table, weights[name].keys() & set(query_ids)))
    ]


def _row(lead: Row, of_place: Places, result: EvaluationResult) -> Row:
    row: Row = {
        **lead,
        "split": result.split,
        "top_k": result.attributed_top_k,
        "n_queries": of_place.n_queries,
        "n_evidences": of_place.n_evidences,
    }
    for place in PLACES:
        row |= {place: of_place.counts[place], f"{place}_share": of_place.share(place)}
    return {**row, "recall": of_place.recall, "ceiling": of_place.ceiling}


def lost_rows(result: EvaluationResult, retrievers: Collection[str]) -> list[Row]:
    """Return one mapping an evidence that a retriever did not find, by place and query.

    Keys: ``retriever``, ``query_id``, ``evidence_id``, ``lost_at``, ``rank``, ``query`` (its text),
    and ``rank_in_<input>`` for each retriever that this one reads. Queries are those that
    :func:`attribution_rows` counts.

    Raises:
        NotEvaluated: the evaluation has no attributions.
    """
    texts = pairs_of(result.queries, "query_id", "text")
    rows: list[Row] = []
    for name, table in result.attributions.items():
        if name not in retrievers:
            continue
        counted = result.attributed_weights(name, result.split)
        lost = [
            {
                "retriever": name,
                **{key: row[key] for key in ("query_id", "evidence_id", "lost_at", "rank")},
                "query": texts.get(row["query_id"], ""),
                **{
                    f"{RANK_IN}{read}": rank
                    for read, rank in zip(row["inputs"], row["input_ranks"], strict=True)
                },
            }
            for row in table.to_pylist()
            if row["lost_at"] != FOUND and row["query_id"] in counted
        ]
        rows += sorted(lost, key=_order)
    return rows


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
        *(_column(place, share=has_shares) for place in present),
        Column("recall", "recall"),
        Column("ceiling", "ceil-\ning", help=CEILING),
    )
    where = f"at top_k {rows[0]['top_k']}{of_split(str(rows[0]['split']))}"
    title = f"{experiment}: where the evidences are, {where}"
    return Sheet(title, columns, rows, is_narrow=True, name="stages")


def _column(place: str, *, share: bool) -> Column:
    meaning = LOSSES.get(place, "")
    return Column(place, HEADERS[place], "d", help=meaning, share=f"{place}_share" if share else "")


def lost_sheets(rows: Sequence[Row]) -> list[Sheet]:
    """Return one table a retriever: every evidence that it did not find, see :func:`lost_rows`."""
    return [
        _lost_sheet(name, list(lost))
        for name, lost in groupby(rows, lambda row: str(row["retriever"]))
    ]


def _lost_sheet(retriever: str, rows: Sequence[Row]) -> Sheet:
    inputs = [name for name in rows[0] if name.startswith(RANK_IN)]
    columns = (
        Column("query_id", "query", TEXT),
        Column("lost_at", "lost at", TEXT, is_whole=True),
        Column("rank", "rank", "d"),
        *(Column(name, f"in {number}", "d") for number, name in enumerate(inputs, 1)),
        Column("query", "question", TEXT),
        Column("evidence_id", "evidence", TEXT),
    )
    names = [f"in {n}: {name.removeprefix(RANK_IN)}" for n, name in enumerate(inputs, 1)]
    read = f" ({', '.join(names)})" if names else ""
    title = f"{retriever}: {len(rows)} lost{read}"
    return Sheet(title, columns, rows, is_narrow=True)


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
    rows = attribution_rows(view, view.retrievers)
    if not rows:
        return None
    rows.sort(key=lambda row: view.retrievers.index(str(row["retriever"])))
    sheet = attribution_sheet(view.evaluation.experiment, rows, shares=True)
    return {"sheet": sheet, "top_k": view.attributed_top_k}


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
        rows += [
            {**lead, "outcome": share.outcome, "n": share.n, "share": share.share}
            for share in shares(table.filter(counted), weights)
        ]
    return rows


def checked_rows(result: EvaluationResult) -> list[Row]:
    """Return :func:`waterfall_rows`.

    Raises:
        NotEvaluated: there are none: no answerer, no labels, or metrics that the classes need are
            not computed.
    """
    rows = waterfall_rows(result)
    if not rows:
        name = result.evaluation.experiment
        problem = f"the last evaluation of {name} says of no question what became of it"
        raise NotEvaluated(f"{problem}; that needs `answers` in experiment.yaml, and labels")
    return rows


def waterfall_sheet(title: str, rows: Sequence[Row]) -> Sheet:
    """Return a row a class and a column an answerer; rows as :func:`waterfall_rows` gives."""
    answerers = _by_answerer(rows)
    present = {row["outcome"] for row in rows}
    lines: list[Row] = [
        {"class": CLASS_NAMES[name], **_cells(answerers, name)}
        for name in CLASSES
        if name in present
    ]
    totals = {name: (_total(classes), 1.0) for name, classes in answerers.items()}
    lines.append({"class": "questions", **_flat(totals)})
    columns = (
        Column("class", "class", TEXT, min_width=22),
        *(Column(f"n {name}", name, "d", share=f"share {name}") for name in answerers),
    )
    return Sheet(f"{title}{of_split(rows[0]['split'])}", columns, lines, name="waterfall")


def _cells(answerers: Mapping[str, Mapping[str, Row]], outcome: str) -> Row:
    cells = {name: classes.get(outcome) for name, classes in answerers.items()}
    return _flat(
        {name: (row["n"], row["share"]) if row else (0, 0.0) for name, row in cells.items()}
    )


def _flat(cells: Mapping[str, tuple[int, float]]) -> Row:
    return {
        key: value
        for name, (n, share) in cells.items()
        for key, value in ((f"n {name}", n), (f"share {name}", share))
    }


def _by_answerer(rows: Sequence[Row]) -> dict[str, dict[str, Row]]:
    """Return answerer -> class -> row."""
    classes_of: dict[str, dict[str, Row]] = {}
    for row in rows:
        classes_of.setdefault(row["answerer"], {})[row["outcome"]] = row
    return classes_of


def _total(classes: Mapping[str, Row]) -> int:
    return sum(row["n"] for row in classes.values())
