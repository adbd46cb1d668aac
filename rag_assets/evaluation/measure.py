"""What a measure is: a class with its name, formula, source and parameters.

A measure of ours stands in :mod:`rag_assets.evaluation.measures`; a package adds one by an entry
point of the group ``rag_assets.metrics``, whose name is that of the measure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from sys import float_info
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from rag_assets.options import Options


class Evidence(NamedTuple):
    """One evidence with a positive grade, in one ranking.

    Attributes:
        grade: its highest grade.
        rank: of the first unit that satisfies it; None where none does before the cut.
        gain: its grade by that unit; 0 where there is none.
    """

    grade: int
    rank: int | None
    gain: int


class JudgedRanking(NamedTuple):
    """The ranking of one query up to the cut, as the labels see it.

    Attributes:
        grades: of the unit at each rank the highest grade; None: it is not judged.
        evidences: all that have a positive grade, at least one; R is their number.
        pooled: rank -> grade of units that are not judged, but were pooled: it is below 0.
    """

    grades: Sequence[int | None]
    evidences: Sequence[Evidence]
    pooled: Mapping[int, int] = MappingProxyType({})

    def labels(self) -> list[int | None]:
        """Return for each rank the highest grade of its labels, also below 0; None: no label."""
        return [self.pooled.get(rank, grade) for rank, grade in enumerate(self.grades, 1)]

    def gains(self) -> list[int]:
        """Return for each rank the highest grade among the evidences first satisfied there."""
        gains = [0] * len(self.grades)
        for evidence in self.evidences:
            if evidence.rank is not None:
                gains[evidence.rank - 1] = max(gains[evidence.rank - 1], evidence.gain)
        return gains

    def ideal(self) -> list[int]:
        """Return the grades of all evidences, the highest first."""
        return sorted((evidence.grade for evidence in self.evidences), reverse=True)


class Measure(Options):
    """A measure; its fields are its parameters, as in ``rbp(p=0.9)``, and have defaults.

    Attributes:
        name: canonical name: small letters and underscores.
        formula: in one line of Markdown, with ``@k`` for a cut-off.
        source: who published it.
        aliases: other names of a measure of ours, in small letters.
        needs_cutoff: whether it says nothing over a whole ranking.
        shown: parameters that stand in the name also at their defaults: tools differ in them.
        highest: what a query can have at most; the lowest is 0.
        needs_size: whether it needs the number of units that a retriever could have returned, which
            a run alone does not tell.
        lower_is_better: whether it counts mistakes. Nothing is placed, tuned or gated by it.
    """

    name: ClassVar[str]
    formula: ClassVar[str]
    source: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()
    needs_cutoff: ClassVar[bool] = False
    shown: ClassVar[frozenset[str]] = frozenset()
    highest: ClassVar[float] = 1.0
    needs_size: ClassVar[bool] = False
    lower_is_better: ClassVar[bool] = False

    @classmethod
    def defaults(cls) -> dict[str, float]:
        """Return parameter -> its default."""
        return {name: field.default for name, field in cls.model_fields.items()}


class RankingMeasure(Measure, ABC):
    """A measure that is computed query by query."""

    @abstractmethod
    def value(self, ranking: JudgedRanking, k: int) -> float:
        """Return the value, from 0 to 1, of one query that has a relevant judgment.

        The ranking holds fewer units than the cut-off ``k`` where fewer were retrieved.
        """


OWN = "own_"
"""Begins the name of a metric that is a function of the caller's: it is known by it everywhere."""

RankedMetric = Callable[[list[int | None], int], float]
"""A metric as a function of the grades of the ranked units (None: no label), and of R."""


class FunctionMeasure(RankingMeasure):
    """A function of the caller's, with the version of its source."""

    highest = float_info.max

    function: RankedMetric
    version: str

    def value(self, ranking: JudgedRanking, k: int) -> float:
        """Return what the function gives."""
        return self.function(ranking.labels(), len(ranking.evidences))
