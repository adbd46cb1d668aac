"""The history as SQL: over the Parquet files themselves, so new evaluations need no rebuild."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assets.schemas import HISTORY, HISTORY_METRICS, HISTORY_RETRIEVERS

LISTS = ("retrievers", "metrics")
"""Columns of an evaluation that hold a list; each list is a relation of its own."""

_OF_EVALUATION = "experiment, evaluation_id, started, complete"


def evaluations_sql(files: str) -> str:
    """Return the statement for one row an evaluation, without the lists.

    Args:
        files: the argument of ``read_parquet``: a quoted pattern, or a list of quoted paths.
    """
    names = [name for name in HISTORY.arrow().names if name not in LISTS]
    return f"SELECT {', '.join(names)} FROM ({_once(files, names)})"


def metrics_sql(files: str) -> str:
    """Return the statement for one row a metric of a cell of an evaluation."""
    return _unnested(files, "metrics", HISTORY_METRICS.arrow().names)


def retrievers_sql(files: str) -> str:
    """Return the statement for one row a retriever of an evaluation."""
    return _unnested(files, "retrievers", HISTORY_RETRIEVERS.arrow().names)


def _unnested(files: str, column: str, names: Sequence[str]) -> str:
    own = ", ".join(f"item.{name} AS {name}" for name in names)
    rows = _once(files, [*_OF_EVALUATION.split(", "), column])
    return (
        f"SELECT {_OF_EVALUATION}, {own} FROM "
        f"(SELECT {_OF_EVALUATION}, unnest({column}) AS item FROM ({rows}))"
    )


def _once(files: str, names: Sequence[str]) -> str:
    """A row may stand in two files; see :mod:`rag_assets.pipeline.history_files`."""
    return (
        f"SELECT {', '.join(names)} FROM "
        f"read_parquet({files}, union_by_name = true, hive_partitioning = false) "
        "QUALIFY row_number() OVER (PARTITION BY experiment, evaluation_id) = 1"
    )
