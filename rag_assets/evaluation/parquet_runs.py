"""Reads runs from a Parquet file: one retrieved unit of one query a row.

Columns are ``query_id`` (``q_id`` in ranx), an id (``chunk_id``, ``unit_id``, ``document_id`` or
``doc_id``, the first that is there), and ``rank``, ``score`` or both; others are ignored. A rank
goes before a score.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import DataError
from rag_assets.regular_files import content_file

QUERY_COLUMNS = ("query_id", "q_id")
ID_COLUMNS = ("chunk_id", "unit_id", "document_id", "doc_id")
RANK_COLUMN = "rank"
SCORE_COLUMN = "score"


class ParquetRun(NamedTuple):
    """The columns of a run; row i stands as row i + 1 in the file.

    Attributes:
        query_ids: the queries.
        ids: what was retrieved.
        id_column: the column of ``ids``.
        ranks: from 1; None where the file has scores only.
        scores: float64; 1 / rank where the file has ranks only.
    """

    query_ids: Sequence[str]
    ids: Sequence[str]
    id_column: str
    ranks: Sequence[int] | None
    scores: Sequence[float]


def is_parquet(path: Path) -> bool:
    """Return whether a file's name says that it is Parquet."""
    return path.suffix.lower() in {".parquet", ".pq"}


def read_parquet_run(path: Path, id_columns: Sequence[str] = ID_COLUMNS) -> ParquetRun:
    """Read the columns of a run; its ids are in the first of ``id_columns`` that is there.

    Raises:
        DataError: the file is not Parquet, a column is missing or of another type, or a value is
            null, an empty id, a rank below 1 or a score that is not finite; names the row.
    """
    table = read_table(path)
    names = table.column_names
    id_column = next((name for name in id_columns if name in names), None)
    query_column = next((name for name in QUERY_COLUMNS if name in names), None)
    if query_column is None or id_column is None:
        needed = f"`{'` or `'.join(QUERY_COLUMNS)}` and one of {', '.join(ID_COLUMNS)}"
        raise DataError(f"has the columns {', '.join(names) or 'none'}; needs {needed}", file=path)
    if RANK_COLUMN not in names and SCORE_COLUMN not in names:
        problem = f"has the columns {', '.join(names)}; needs `{RANK_COLUMN}` or `{SCORE_COLUMN}`"
        raise DataError(problem, file=path)
    ranks = _ranks(table, path) if RANK_COLUMN in names else None
    if SCORE_COLUMN in names:
        scores: Sequence[float] = _scores(table, path)
    else:
        scores = [1 / rank for rank in ranks or ()]
    query_ids, ids = _texts(table, query_column, path), _texts(table, id_column, path)
    if not ids:
        raise DataError("holds no rows", file=path)
    return ParquetRun(query_ids, ids, id_column, ranks, scores)


def read_table(path: Path) -> pa.Table:
    """Return all columns of a Parquet file.

    Raises:
        DataError: it cannot be read, or is not Parquet.
    """
    try:
        # Not `read_table`: that takes folder names such as `a=b` for columns.
        with pq.ParquetFile(content_file(path)) as source:
            table: pa.Table = source.read()
            return table
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
        raise DataError(f"cannot be read: {reason}", file=path) from error
    except pa.ArrowException as error:
        raise DataError(f"cannot be read as Parquet: {error}", file=path) from error


def _texts(table: pa.Table, name: str, path: Path) -> list[str]:
    values = table.column(name)
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise DataError(f"is a column of {kind}; ids must be texts", file=path, key=name)
    texts: list[str] = values.to_pylist()
    _refuse([not value for value in texts], "must be a text that is not empty", name, path)
    return texts


def _ranks(table: pa.Table, path: Path) -> list[int]:
    values = table.column(RANK_COLUMN)
    if not pa.types.is_integer(values.type):
        problem = f"is a column of {values.type}; ranks must be integers"
        raise DataError(problem, file=path, key=RANK_COLUMN)
    ranks: list[Any] = values.to_pylist()
    wrong = [rank is None or rank < 1 for rank in ranks]
    _refuse(wrong, "must be an integer from 1", RANK_COLUMN, path)
    return ranks


def _scores(table: pa.Table, path: Path) -> list[float]:
    values = table.column(SCORE_COLUMN)
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        problem = f"is a column of {values.type}; scores must be numbers"
        raise DataError(problem, file=path, key=SCORE_COLUMN)
    wide = values.cast(pa.float64(), safe=False).to_numpy()
    _refuse(~np.isfinite(wide), "must be a finite number", SCORE_COLUMN, path)
    scores: list[float] = wide.tolist()
    return scores


def _refuse(wrong: Sequence[Any] | np.ndarray, problem: str, name: str, path: Path) -> None:
    rows = np.flatnonzero(np.asarray(wrong, dtype=np.bool_))
    if rows.size:
        raise DataError(problem, file=path, line=int(rows[0]) + 1, key=name)
