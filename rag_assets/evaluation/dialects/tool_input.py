"""What a tool is given to score: its lists as they stand in the file, and the labels.

A table of runs holds every document once and in one order; tools differ in just these two things,
so the dialects read the lists before either is settled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

Hit = tuple[str, float]
"""A document and its score."""


@dataclass(frozen=True)
class ToolQuery:
    """One query: what was retrieved for it, and what is relevant.

    Attributes:
        query_id: the query.
        hits: what was retrieved as the file lists it, with every repetition.
        listed: the order of the hits is the ranking; otherwise score descending, then id
            descending by UTF-8 bytes.
        in_run: whether the run names the query at all.
        groups: ids of relevant documents; one of each group is needed. As the labels have them,
            with empty groups, blank ids and repetitions.
        grades: every judged document -> its highest grade.
        judged_anywhere: documents that are judged for any query.
    """

    query_id: str
    hits: tuple[Hit, ...]
    listed: bool
    in_run: bool = True
    groups: tuple[tuple[str, ...], ...] = ()
    grades: Mapping[str, int] = field(default_factory=dict)
    judged_anywhere: frozenset[str] = frozenset()

    @cached_property
    def ranking(self) -> list[str]:
        """Ids, best first, with repetitions."""
        if self.listed:
            return [item for item, _ in self.hits]
        return [item for item, _ in sorted(self.hits, key=lambda hit: hit[::-1], reverse=True)]

    @cached_property
    def scores(self) -> dict[str, float]:
        """Score of each document; of a repeated one the last, as assigning to a dict leaves it."""
        return dict(self.hits)

    @cached_property
    def relevant(self) -> frozenset[str]:
        """Documents with a positive grade."""
        return frozenset(item for item, grade in self.grades.items() if grade > 0)

    @cached_property
    def repeated(self) -> dict[str, int]:
        """Documents that stand more than once -> how often."""
        counts = Counter(item for item, _ in self.hits)
        return {item: count for item, count in counts.items() if count > 1}


@dataclass(frozen=True)
class ToolInput:
    """Everything that a tool is given.

    Attributes:
        judged: the queries of the labels, in their order, retrieved or not.
        strangers: queries of the run that the labels lack.
    """

    judged: tuple[ToolQuery, ...]
    strangers: tuple[ToolQuery, ...]
