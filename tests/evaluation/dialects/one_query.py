"""One query as every tool is given it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rag_assets.evaluation.dialects import DIALECTS
from rag_assets.evaluation.dialects.tools import ToolInput, ToolQuery


def as_given(
    ranking: Iterable[str],
    grades: Mapping[str, int] | None = None,
    groups: Sequence[Sequence[str]] | None = None,
) -> ToolInput:
    """A list, best first, and either grades or groups of alternatives."""
    if groups is None:
        groups = [[item] for item, grade in (grades or {}).items() if grade > 0]
    if grades is None:
        grades = {item: 1 for group in groups for item in group}
    return ToolInput((ToolQuery("q", list(ranking), True, tuple(map(tuple, groups)), grades),))


def number(dialect: str, name: str, data: ToolInput) -> float | None:
    tool = DIALECTS[dialect]
    return tool.outcome(data, tool.parse(name)).mean
