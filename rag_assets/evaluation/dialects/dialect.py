"""A dialect: a tool's own names of metrics, and its value of each query.

And what a tool is given to score: its lists as they stand in the file, and the labels. A table of
runs holds every document once and in one order; tools differ in just these two things, so the
dialects read the lists before either is settled.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from rag_assets.errors import UsageError, allowed_names
from rag_assets.evaluation.label_files import Labels
from rag_assets.evaluation.metric_names import LARGEST_CUTOFF

_NAME = re.compile(r"(?P<measure>.+?)(?:@(?P<cutoff>[0-9]+))?")


class NoNumber(Exception):
    """The tool itself fails on this input, so there is no number to equal."""


@dataclass(frozen=True)
class ToolQuery:
    """One query: what was retrieved for it, and what is relevant.

    ``ranking`` is best first, with every repetition; ``in_run`` says whether the run names the
    query at all. One document of each of ``groups`` is needed; they are as the labels have them,
    with empty groups, blank ids and repetitions. ``grades`` has every judged document with its
    highest grade.
    """

    query_id: str
    ranking: Sequence[str]
    in_run: bool = True
    groups: tuple[tuple[str, ...], ...] = ()
    grades: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def relevant(self) -> frozenset[str]:
        """Documents with a positive grade."""
        return frozenset(item for item, grade in self.grades.items() if grade > 0)


class ToolInput(NamedTuple):
    """The queries of the labels, retrieved or not, and how many queries the run alone has."""

    judged: tuple[ToolQuery, ...]
    n_strangers: int


class ToolMetric(NamedTuple):
    """A tool's name of a measure, and how many documents of each list count; None: all."""

    measure: str
    cutoff: int | None = None


Measure = Callable[[ToolQuery, Sequence[str]], float | None]
"""Value of one query and its ranking up to the cut; None: the tool leaves the query out of its
mean. Raises NoNumber where the tool raises."""


class Outcome(NamedTuple):
    """One metric of a run, as the tool gives it; ``problem`` says why there is no mean."""

    mean: float | None
    per_query: Mapping[str, float | None]
    problem: str | None = None


@dataclass(frozen=True)
class Dialect:
    """One tool, whose numbers the tests compare with those of its ``package``.

    ``measures`` is the tool's name of a measure -> value of one query; ``defaults`` are scored when
    none is named. ``warning`` is what a reader of its numbers has to know.
    """

    name: str
    package: str
    measures: Mapping[str, Measure]
    defaults: tuple[str, ...]
    warning: str | None = None

    def parse(self, name: str) -> ToolMetric:
        """Return the metric that ``name`` means in this tool."""
        match = _NAME.fullmatch(name.strip())
        if match is None or match["measure"] not in self.measures:
            allowed = allowed_names(name, self.measures)
            raise UsageError(f"dialect {self.name}: unknown metric {allowed}")
        cutoff = int(match["cutoff"]) if match["cutoff"] else None
        if cutoff is not None and not 1 <= cutoff <= LARGEST_CUTOFF:
            raise UsageError(f"dialect {self.name}: '{name}': the cut-off must be at least 1")
        return ToolMetric(match["measure"], cutoff)

    def outcome(self, data: ToolInput, metric: ToolMetric) -> Outcome:
        """Return the tool's number and its value for each query of the labels."""
        values: dict[str, float | None] = {}
        problems: list[str] = []
        for query in data.judged:
            values[query.query_id] = None
            try:
                ranking = query.ranking[: metric.cutoff]
                values[query.query_id] = self.measures[metric.measure](query, ranking)
            except NoNumber as error:
                problems.append(f"query '{query.query_id}': {error}")
        if problems:
            more = f" (and {len(problems) - 1} more queries)" if len(problems) > 1 else ""
            return Outcome(None, values, problems[0] + more)
        numbers = [value for value in values.values() if value is not None]
        return Outcome(math.fsum(numbers) / len(numbers) if numbers else None, values)


def tool_input(
    hits: Mapping[str, Sequence[tuple[str, float]]], listed: bool, labels: Labels
) -> ToolInput:
    """Put together what a tool is given.

    Args:
        hits: query -> (document, score) of what was retrieved for it.
        listed: the order of the hits is the ranking; otherwise score descending, then id
            descending by UTF-8 bytes.
        labels: the labels of all queries to score.
    """
    grades: dict[str, dict[str, int]] = {}
    for row in labels.judgments.to_pylist():
        if (item := row["unit_id"]) is not None:
            judged = grades.setdefault(row["query_id"], {})
            judged[item] = max(row["grade"], judged.get(item, row["grade"]))
    queries = []
    for name, groups in labels.groups.items():
        found = hits.get(name, ())
        best = found if listed else sorted(found, key=lambda hit: hit[::-1], reverse=True)
        ranking = [item for item, _ in best]
        queries.append(ToolQuery(name, ranking, name in hits, groups, grades.get(name, {})))
    return ToolInput(tuple(queries), len(hits.keys() - labels.groups.keys()))


def repetitions(data: ToolInput) -> Iterator[tuple[str, str, int]]:
    """Yield (query, document, how often) for each document that stands more than once."""
    for query in data.judged:
        for item, count in Counter(query.ranking).items():
            if count > 1:
                yield query.query_id, item, count


def discounted(gains: Iterable[float]) -> float:
    """Return the sum of gain / log2(rank + 1) over a list of gains, best rank first."""
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))
