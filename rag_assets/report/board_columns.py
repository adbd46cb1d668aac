"""The columns of a leaderboard beside its metrics: declared once, for every face.

Programs get every column that is stored, see :data:`rag_assets.schemas.LEADERBOARD`; so does
Dagster, the leading ones first. A stored column that is not declared here stands in the query
accounting of the page under its own name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rag_assets import schemas
from rag_assets.report.sheet import TEXT, Column
from rag_assets.schemas import LEADERBOARD

_MEANINGS = {column.name: column.meaning for column in LEADERBOARD.columns}

LEADING = ("retriever", "split", "top_k", "position")
"""The columns of a row that stand before its metrics."""

CEILING = Column(
    "ceiling",
    "ceiling",
    help="recall of the candidates; no order of them finds more",
    missing="",
    is_sparse=True,
)
"""In rows for programs at the primary cut-off; people read it in a table of its own."""

COST_TIME = Column(
    "cost_time",
    "cost_time",
    ".2f",
    help="mean ms of a query at this top_k, from text to hits, rewriting included",
    is_page_only=True,
)
"""In rows for programs too, where it was measured."""

CHOSEN_WEIGHTS = Column(
    "chosen_weights",
    "chosen weights",
    TEXT,
    help="of a tuned fusion: the weights of its inputs that were chosen on dev",
    is_page_only=True,
    is_sparse=True,
)
"""In rows for programs too, and in a line below the table of a terminal."""

POSITION = Column("position", "#", "d", help=_MEANINGS["position"], mark="near")
RETRIEVER = Column("retriever", "retriever", TEXT, help=_MEANINGS["retriever"], mark="failed_mark")


def measured_columns(top_k: int) -> tuple[Column, ...]:
    """Return what stands behind the metrics at a cut-off."""
    return (
        Column("tokens", f"tokens@{top_k}", ".0f", help=_MEANINGS["tokens"], is_sparse=True),
        Column(
            "speed",
            "ms/query",
            ".2f",
            help="median of single queries, from text to hits, with all that they need",
        ),
        COST_TIME,
        CHOSEN_WEIGHTS,
        Column(
            "n_failed",
            "failed",
            "d",
            help=_MEANINGS["n_failed"],
            is_page_only=True,
            is_sparse=True,
        ),
    )


_COUNTS = {
    "n_attempted": "queries",
    "n_answered": "with results",
    "n_empty": "empty",
    "n_failed": "failed",
    "n_unanswerable": "unanswerable",
    "n_unlabelled": "without labels",
    "n_queries": "averaged",
    "n_unreachable": "unreachable evidences",
    "n_not_in_corpus": "not in corpus",
    "n_unjudged": "unjudged results",
    "judged": "judged",
    "n_tied": "tied at the cut",
}
"""Stored column -> its heading in the query accounting; others stand behind them."""

_ELSEWHERE = {*LEADING, "tokens", "weight"}


def accounting_columns(stored: Iterable[schemas.Column] = LEADERBOARD.columns) -> Iterator[Column]:
    """Yield the columns that say what the means are over: all stored ones without a place."""
    yield Column("retriever", "retriever", TEXT, help=_MEANINGS["retriever"])
    columns = {column.name: column for column in stored if column.name not in _ELSEWHERE}
    for name in (*_COUNTS, *(name for name in columns if name not in _COUNTS)):
        is_mean = columns[name].type in ("double", "float")
        form = ".0%" if name == "judged" else ".4f" if is_mean else "d"
        title = _COUNTS.get(name, name.removeprefix("n_").replace("_", " "))
        yield Column(name, title, form, help=columns[name].meaning)
