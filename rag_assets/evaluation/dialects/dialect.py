"""What every dialect has: a tool's own names, its value of each query, its mean."""

from __future__ import annotations

import math
import re
from abc import ABC
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from rag_assets.errors import UsageError, allowed_names
from rag_assets.evaluation.dialects.tool_input import ToolInput, ToolQuery
from rag_assets.evaluation.metric_names import LARGEST_CUTOFF


@dataclass(frozen=True)
class ToolMetric:
    """A metric in a tool's own words.

    Attributes:
        name: as it was asked for.
        measure: the name without cut-off and parameters.
        cutoff: how many documents of each list are looked at; None: all.
        level: lowest grade that is relevant.
        persistence: of rank-biased precision.
    """

    name: str
    measure: str
    cutoff: int | None = None
    level: int = 1
    persistence: float | None = None


class NoNumber(Exception):
    """The tool itself fails on this input, so there is no number to equal."""


Measure = Callable[[ToolQuery, ToolMetric], float | None]
"""Value of one query; None: the tool has none and leaves the query out of its mean.

Raises NoNumber where the tool raises.
"""


@dataclass(frozen=True)
class Outcome:
    """One metric of a run, as the tool gives it.

    Attributes:
        mean: what the tool prints; None when it prints no number.
        per_query: query -> value, None for one that is left out of the mean.
        problem: why there is no mean.
    """

    mean: float | None
    per_query: dict[str, float | None]
    problem: str | None = None


class Dialect(ABC):
    """One tool.

    Attributes:
        name: what ``--dialect`` takes.
        package: the tool and the version whose numbers the tests compare with.
        defaults: metrics that are scored when none is named.
        measures: own name -> value of one query.
        counterparts: canonical measure -> own name of what the tool offers in its place.
        needs_cutoff: whether a metric without a cut-off does not exist.
    """

    name: ClassVar[str]
    package: ClassVar[str]
    defaults: ClassVar[tuple[str, ...]]
    measures: ClassVar[Mapping[str, Measure]]
    counterparts: ClassVar[Mapping[str, str]]
    needs_cutoff: ClassVar[bool] = False
    pattern: ClassVar[re.Pattern[str]] = re.compile(r"(?P<measure>.+?)(?:@(?P<cutoff>[0-9]+))?")

    def name_of(self, measure: str, cutoff: int | None) -> str:
        """Return how the tool writes one of its measures with a cut-off."""
        return measure if cutoff is None else f"{measure}@{cutoff}"

    def counterpart(self, measure: str, cutoff: int | None) -> ToolMetric | None:
        """Return what the tool offers in place of a canonical metric, or None."""
        own = self.counterparts.get(measure)
        if own is None or (cutoff is None and self.needs_cutoff):
            return None
        return ToolMetric(self.name_of(own, cutoff), own, cutoff)

    def parse(self, name: str) -> ToolMetric:
        """Return the metric that ``name`` means in this tool.

        Raises:
            UsageError: the tool has no such metric, or it needs a cut-off from 1.
        """
        match = self.pattern.fullmatch(name.strip())
        measure = match["measure"] if match else name
        if match is None or measure not in self.measures:
            allowed = allowed_names(name, self.measures)
            raise UsageError(f"dialect {self.name}: unknown metric {allowed}")
        cutoff = int(match["cutoff"]) if match["cutoff"] else None
        if cutoff is None and self.needs_cutoff:
            example = self.name_of(measure, 10)
            raise UsageError(f"dialect {self.name}: '{name}' needs a cut-off, such as {example}")
        if cutoff is not None and not 1 <= cutoff <= LARGEST_CUTOFF:
            raise UsageError(f"dialect {self.name}: '{name}': the cut-off must be at least 1")
        return ToolMetric(name.strip(), measure, cutoff)

    def order(self, query: ToolQuery) -> list[str]:
        """Return the ids of a query in the order in which this tool reads them, best first."""
        return query.ranking

    def outcome(self, data: ToolInput, metric: ToolMetric) -> Outcome:
        """Return the tool's number and its value for each query of the labels."""
        measure = self.measures[metric.measure]
        values: dict[str, float | None] = {}
        problems: list[str] = []
        for query in data.judged:
            try:
                values[query.query_id] = measure(query, metric)
            except NoNumber as error:
                values[query.query_id] = None
                problems.append(f"query '{query.query_id}': {error}")
        if problems:
            more = f" (and {len(problems) - 1} more queries)" if len(problems) > 1 else ""
            return Outcome(None, values, problems[0] + more)
        return Outcome(mean_of(values.values()), values)


def mean_of(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None, or None without any."""
    numbers = [value for value in values if value is not None]
    return math.fsum(numbers) / len(numbers) if numbers else None


def discounted(gains: Iterable[float]) -> float:
    """Return the sum of gain / log2(rank + 1) over a list of gains, best rank first."""
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))
