"""What a leaderboard column is: declared once, and shown by every face that has it.

A column is a name, a title, a number format, a help text and the faces that show it. Programs get
every column that is stored, see :data:`rag_assets.schemas.LEADERBOARD`; so does Dagster, the
leading ones first. A stored column that is not declared here stands in the query accounting of the
page under its own name. Metrics are no columns of this table: an experiment chooses them, and they
stand behind the leading columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rag_assets.schemas import LEADERBOARD, Column

TERMINAL, PAGE, NOTEBOOK = "terminal", "page", "notebook"
"""Faces that show the leaderboard."""

ACCOUNTING = "accounting"
"""The table of the page that says what the means are over."""

_MEANINGS = {column.name: column.meaning for column in LEADERBOARD.columns}


@dataclass(frozen=True)
class BoardColumn:
    """One column of a leaderboard.

    Attributes:
        name: its key in a row.
        title: its heading; ``{top_k}`` stands for the cut-off.
        form: how a number is written, as for :func:`format`.
        faces: which of them show it.
        help: what it means; of a stored column what its schema says.
        missing: what stands on the page where a row has no value.
        sparse: whether it is left out where no row has a value, or all counts are 0.
    """

    name: str
    title: str
    form: str = "d"
    faces: Sequence[str] = field(default=(), kw_only=True)
    help: str = field(default="", kw_only=True)
    missing: str = field(default="", kw_only=True)
    sparse: bool = field(default=False, kw_only=True)

    def heading(self, top_k: object) -> str:
        """Return the title above the column at a cut-off."""
        return self.title.format(top_k=top_k)

    def text(self, value: object, missing: str | None = None) -> str:
        """Return a value as people read it; ``missing`` stands where there is none."""
        if isinstance(value, str):
            return value
        if not isinstance(value, int | float):
            return self.missing if missing is None else missing
        if self.form.endswith("%"):
            return f"{100 * value:{self.form[:-1]}f} %"
        return format(value, self.form)

    def is_needed(self, rows: Iterable[Mapping[str, object]]) -> bool:
        """Return whether a table of these rows has the column."""
        values = (row.get(self.name) for row in rows)
        return not self.sparse or any(value or isinstance(value, float) for value in values)


def _stored(
    name: str,
    title: str,
    form: str = "d",
    *,
    faces: Sequence[str] = (ACCOUNTING,),
    sparse: bool = False,
) -> BoardColumn:
    """Declare a column that the leaderboard stores."""
    return BoardColumn(name, title, form, faces=faces, help=_MEANINGS[name], sparse=sparse)


POSITION = _stored("position", "#", faces=(TERMINAL, PAGE, NOTEBOOK))
RETRIEVER = _stored("retriever", "retriever", "s", faces=(TERMINAL, PAGE, NOTEBOOK, ACCOUNTING))

LEADING = ("retriever", "split", "top_k", "position")
"""The columns of a row that stand before its metrics."""

CEILING = BoardColumn(
    "ceiling", "ceiling", ".4f", help="recall of the candidates; no order of them finds more"
)
"""In rows for programs at the primary cut-off; people read it in a table of its own."""

COST_TIME = BoardColumn(
    "cost_time",
    "cost_time",
    ".2f",
    faces=(PAGE,),
    help="mean ms of a query at this top_k, from text to hits, rewriting included",
    missing="-",
)
"""In rows for programs too, where it was measured."""

CHOSEN_WEIGHTS = BoardColumn(
    "chosen_weights",
    "chosen weights",
    "s",
    faces=(PAGE,),
    help="of a tuned fusion: the weights of its inputs that were chosen on dev",
    sparse=True,
)
"""In rows for programs too, and in a line below the table of a terminal."""

_DECLARED = (
    _stored("tokens", "tokens@{top_k}", ".0f", faces=(TERMINAL, PAGE), sparse=True),
    BoardColumn(
        "speed",
        "ms/query",
        ".2f",
        faces=(TERMINAL, PAGE, NOTEBOOK),
        help="median of single queries, from text to hits, with all that they need",
        missing="-",
    ),
    COST_TIME,
    CHOSEN_WEIGHTS,
    _stored("n_attempted", "queries"),
    _stored("n_answered", "with results"),
    _stored("n_empty", "empty"),
    _stored("n_failed", "failed", faces=(PAGE, ACCOUNTING), sparse=True),
    _stored("n_unanswerable", "unanswerable"),
    _stored("n_unlabelled", "without labels"),
    _stored("n_queries", "averaged"),
    _stored("weight", "weight", ".4g", faces=()),
    _stored("n_unreachable", "unreachable evidences"),
    _stored("n_not_in_corpus", "not in corpus"),
    _stored("n_unjudged", "unjudged results"),
    _stored("judged", "judged", ".0%"),
    _stored("n_tied", "tied at the cut"),
)


def _undeclared(column: Column) -> BoardColumn:
    """Return how a stored column is shown of which nothing is declared."""
    form = ".4f" if column.type in ("double", "float") else "d"
    title = column.name.removeprefix("n_").replace("_", " ")
    return BoardColumn(
        column.name, title, form, faces=(ACCOUNTING,), help=column.meaning, sparse=True
    )


def _all_columns() -> tuple[BoardColumn, ...]:
    known = {*LEADING, *(column.name for column in _DECLARED)}
    others = (column for column in LEADERBOARD.columns if column.name not in known)
    return (*_DECLARED, *map(_undeclared, others))


BOARD_COLUMNS = _all_columns()
"""All but the leading ones, in the order in which they stand behind the metrics."""


def columns_of(face: str, rows: Sequence[Mapping[str, object]]) -> list[BoardColumn]:
    """Return the columns of a face behind the metrics that a table of these rows has.

    Args:
        face: one of those above; the accounting has a column whatever stands in it.
        rows: of a leaderboard.
    """
    shown = (column for column in BOARD_COLUMNS if face in column.faces)
    return [column for column in shown if face == ACCOUNTING or column.is_needed(rows)]
