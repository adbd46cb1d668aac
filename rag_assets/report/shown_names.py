"""An evaluation as people see it: retrievers are called what ``display_names`` says.

Programs, files and options keep the names of ``experiment.yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from rag_assets.pipeline.evaluations import Evaluation, SnapshotEntry
from rag_assets.report.formats import Row
from rag_assets.report.result import EvaluationResult

_RETRIEVER = "retriever"
_COLUMNS = (_RETRIEVER, "retriever_a", "retriever_b", "inputs")
"""Columns of tables that hold names of retrievers, or lists of them."""


def shown(result: EvaluationResult, names: Mapping[str, str] | None = None) -> EvaluationResult:
    """Return the evaluation with the names that people read.

    Args:
        result: the evaluation.
        names: retriever -> display name; None: as they were when it was evaluated.
    """
    chosen = result.evaluation.display_names if names is None else names
    other = {name: text for name, text in chosen.items() if text != name}
    return _Shown(result, other) if other else result


def shown_rows(rows: Sequence[Row], names: Mapping[str, str]) -> list[Row]:
    """Return rows with display names in place of the names of retrievers."""
    return [
        {
            column: names.get(str(value), value) if column in _COLUMNS else value
            for column, value in row.items()
        }
        for row in rows
    ]


def with_both_names(rows: Sequence[Row], names: Mapping[str, str]) -> list[Row]:
    """Return rows with a column ``display_...`` more for each name, where there are such names."""
    if not names:
        return list(rows)
    return [
        {
            **row,
            **{
                f"display_{column.replace(_RETRIEVER, 'name')}": names.get(str(row[column]))
                for column in _COLUMNS[:3]
                if column in row
            },
        }
        for row in rows
    ]


class _Shown(EvaluationResult):
    """Its partitions and tables have other names, and its files are the same."""

    def __init__(self, result: EvaluationResult, names: Mapping[str, str]) -> None:
        super().__init__(result.root, _renamed(result.evaluation, names))
        self._names = names

    def shown_name(self, retriever: str) -> str:
        return self._names.get(retriever, retriever)

    def _table(self, entry: SnapshotEntry) -> pa.Table:
        table = super()._table(entry)
        for number, name in enumerate(table.column_names):
            if name in _COLUMNS:
                field = table.schema.field(number)
                values = [self._shown_value(one) for one in table.column(number).to_pylist()]
                table = table.set_column(number, field, pa.array(values, field.type))
        return table

    def _shown_value(self, value: object) -> object:
        if isinstance(value, list):
            return [self._shown_value(one) for one in value]
        return self._names.get(value, value) if isinstance(value, str) else value


def _renamed(evaluation: Evaluation, names: Mapping[str, str]) -> Evaluation:
    def entry(one: SnapshotEntry) -> SnapshotEntry:
        name = one.partition.get(_RETRIEVER, "")
        if name not in names:
            return one
        return replace(one, partition={**one.partition, _RETRIEVER: names[name]})

    configuration = dict(evaluation.origin.configuration)
    if isinstance(configuration.get("retrievers"), Mapping):
        retrievers = configuration["retrievers"]
        configuration["retrievers"] = {names.get(one, one): retrievers[one] for one in retrievers}
    return replace(
        evaluation,
        baseline=names.get(evaluation.baseline, evaluation.baseline),
        entries=tuple(map(entry, evaluation.entries)),
        rankings=tuple(map(entry, evaluation.rankings)),
        origin=replace(evaluation.origin, configuration=configuration),
    )
