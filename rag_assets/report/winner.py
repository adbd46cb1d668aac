"""Which retriever to use, as far as it is shown, in words that need no knowledge of metrics.

There is a winner only where the paired test shows the best to be better than every other, after
Holm's correction; what queries share is allowed for. Else the best and all that are not shown to be
worse are tied, the cheapest of them is known, and it is said what the questions can show.

A retriever that is better on the queries of one tag is an exception to the answer. All pairs of tag
and retriever are one family of tests; what is not shown is named as that, where p alone is small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_assets.plain_text import one_line
from rag_assets.report.comparison_views import oriented
from rag_assets.report.comparisons import Compared, power_text
from rag_assets.report.page.environment import shortened
from rag_assets.report.slices import TAG, members_by
from rag_assets.report.view import View
from rag_assets.statistics.comparisons import holm
from rag_assets.statistics.paired_differences import PairedDifferences
from rag_assets.statistics.paired_tests import ALPHA
from rag_assets.statistics.units import Counted, counted_by_split, weighted_mean

Flags = npt.NDArray[np.bool_]

MIN_QUERIES = 10
"""Fewest queries a tag needs before its exception is reported."""

MAX_TAGS = 20
"""At most this many tags are checked for exceptions, the largest first."""

MAX_EXCEPTIONS = 3

KINDS = {
    "bm25": "is keyword search",
    "tfidf": "is keyword search",
    "splade": "is learned keyword search",
    "embedding": "is embedding search",
    "openai_embedding": "is embedding search",
    "vectors": "is embedding search",
    "qdrant": "is embedding search",
    "run_file": "is a ranking from a file",
}
"""Type of a retriever without inputs -> what it is, in a few words."""


@dataclass(frozen=True)
class Exceptional:
    """A retriever that has more than the best on the queries of a tag.

    Attributes:
        tag: the tag.
        retriever: who has more.
        value: its mean there.
        best_value: that of the best over all.
        shown: whether chance is ruled out, after Holm's correction.
    """

    tag: str
    retriever: str
    value: float
    best_value: float
    shown: bool


@dataclass(frozen=True)
class Winner:
    """The answer.

    Attributes:
        best: the retriever with the highest value.
        tied: the others that are not shown to be worse, the best first.
        compared: whether it was compared with any other.
        caveat: what limits the claim because queries share documents; None: nothing does.
        power: which difference the questions can show; empty: nobody is tied, or it is not known.
        cheapest: of the best and the tied, by the time of a query; None: times are not known.
        milliseconds: its time.
        exceptions: tags on which another has more.
        numbers: a sentence: what the best is, its primary metric, and that of the next.
    """

    best: str
    tied: tuple[str, ...]
    compared: bool
    caveat: str | None
    power: str
    cheapest: str | None
    milliseconds: float | None
    exceptions: tuple[Exceptional, ...]
    numbers: str

    @property
    def proven(self) -> bool:
        """Whether the best is shown to be better than every other."""
        return self.compared and not self.tied

    @property
    def title(self) -> str:
        """The answer in one line, for a terminal."""
        if self.proven or not self.compared:
            return f"Use {self.best}" if self.compared else f"{self.best}, compared with no other"
        return f"No winner yet: {self.tied_text} are tied"

    @property
    def tied_text(self) -> str:
        """Return ``bm25, hybrid and 4 more``."""
        names = [self.best, *self.tied]
        if len(names) <= 3:
            return f"{', '.join(names[:-1])} and {names[-1]}"
        return f"{', '.join(names[:2])} and {len(names) - 2} more"

    @property
    def sentences(self) -> list[str]:
        """What else is known, a sentence each."""
        return list(self._sentences())

    def _sentences(self) -> Iterator[str]:
        yield self.numbers
        if self.caveat is not None:
            yield f"But {self.caveat}."
        if self.power:
            yield f"The test cannot tell: {self.power}."
        if self.tied and self.cheapest is not None and self.milliseconds is not None:
            yield f"The fastest of them is {self.cheapest}, {self.milliseconds:.3g} ms a query."
        lead = f"{self.best} is best over all, but" if self.proven else "By query tag:"
        for one in self.exceptions:
            numbers = f"({one.value:.2f}, {self.best} {one.best_value:.2f})"
            if one.shown:
                yield f"{lead} {one.retriever} is better for {one.tag} {numbers}."
            else:
                better = f"{one.retriever} may be better for {one.tag} {numbers}"
                yield f"{better}; the data does not settle it."


def winner_of(view: View) -> Winner | None:
    """Return the answer of an evaluation; None where nobody has a value."""
    if not view.ranked:
        return None
    best = str(view.ranked[0]["retriever"])
    others = [str(row["retriever"]) for row in view.ranked[1:]]
    compared = bool(view.comparisons) and bool(others)
    seen = Compared.of(view.result, split=view.split) if compared else None
    worse = [row for row in _of_best(view, best) if row["mark"]]
    tied = tuple(name for name in others if name not in [row["other"] for row in worse])
    powers = [power_text(row, "questions") for row in _of_best(view, best) if row["other"] in tied]
    times = {name: view.speed.get(name) for name in (best, *tied)}
    timed = {name: time for name, time in times.items() if time is not None}
    cheapest = min(timed, key=lambda name: timed[name]) if len(timed) == len(times) else None
    return Winner(
        best=best,
        tied=tied,
        compared=compared,
        caveat=seen.caveat if seen is not None else None,
        power=next(iter(powers), "").removeprefix("; "),
        cheapest=cheapest,
        milliseconds=timed[cheapest] if cheapest is not None else None,
        exceptions=tuple(_exceptions(seen, best)[:MAX_EXCEPTIONS]) if seen is not None else (),
        numbers=_numbers(view),
    )


def _numbers(view: View) -> str:
    """Return ``maxsim reranks hybrid; its ndcg@10 is 0.7906, hybrid has 0.7399``."""
    best, *others = view.ranked
    kind = _kind(view, str(best["retriever"]))
    text = f"{best['retriever']} {kind}; its" if kind else f"{best['retriever']}'s"
    rest = [f", {row['retriever']} has {row[view.measure]:.4f}" for row in others[:1]]
    return f"{text} {view.result.primary} is {best[view.measure]:.4f}{''.join(rest)}."


def _kind(view: View, name: str) -> str | None:
    """Return what a retriever does, in a few words; None: its type says no more than its name."""
    blocks = view.result.evaluation.origin.configuration.get("retrievers")
    block = blocks.get(name) if isinstance(blocks, Mapping) else None
    if not isinstance(block, Mapping):
        return None
    inputs = block.get("inputs")
    if isinstance(inputs, Sequence) and not isinstance(inputs, str):
        names = [str(name) for name in inputs]
        return f"fuses {' and '.join(names)}" if len(names) == 2 else f"fuses {len(names)} others"
    if isinstance(block.get("input"), str):
        return f"reranks {block['input']}"
    return KINDS.get(str(block.get("type")))


def _of_best(view: View, best: str) -> list[dict[str, Any]]:
    """Return the comparisons of the best with the others, as its value minus theirs."""
    return [
        oriented(row, best)
        for row in view.comparisons
        if best in (row["retriever_a"], row["retriever_b"])
    ]


def _exceptions(seen: Compared, best: str) -> list[Exceptional]:
    """Return tags on which another has more; those that are shown first, then by how much."""
    try:
        members = members_by(TAG, seen.result.table_of)
    except (KeyError, IndexError):
        return []
    counted = next(iter(counted_by_split(seen.counting, seen.cells.values())), None)
    others = [name for name in seen.cells if name != best]
    if counted is None or best not in seen.cells or not others:
        return []
    values = {name: counted.values(table, seen.column) for name, table in seen.cells.items()}
    tags = _large(members, counted)
    cases = [(tag, name) for tag in tags for name in others]
    if not cases:
        return []
    differences = np.column_stack(
        [np.where(tags[tag], values[name] - values[best], np.nan) for tag, name in cases]
    )
    p_values = PairedDifferences(counted, differences).p_values(seen.resampling)
    best_of: dict[str, Exceptional] = {}
    for (tag, name), column, p, adjusted in zip(
        cases, differences.T, p_values, holm(p_values), strict=True
    ):
        if p is None or adjusted is None or p >= ALPHA:
            continue
        there = ~np.isnan(column)
        weights = np.where(there, counted.weights, 0.0)
        ours, theirs = (
            weighted_mean(np.where(there, values[one], 0.0) * weights, weights) or 0.0
            for one in (name, best)
        )
        other = best_of.get(tag)
        case = Exceptional(shortened(one_line(tag)), name, ours, theirs, adjusted < ALPHA)
        if ours > theirs and (
            other is None or (case.shown, case.value) > (other.shown, other.value)
        ):
            best_of[tag] = case
    return sorted(best_of.values(), key=lambda one: (not one.shown, one.best_value - one.value))


def _large(members: Mapping[str, set[str]], counted: Counted) -> dict[str, Flags]:
    """Return the largest tags with enough queries, as masks; not one that all queries have."""
    masks = {
        tag: np.array([one in ids for one in counted.query_ids], dtype=np.bool_)
        for tag, ids in members.items()
    }
    sizes = {tag: int(mask.sum()) for tag, mask in masks.items()}
    large = [tag for tag, size in sizes.items() if MIN_QUERIES <= size < len(counted.query_ids)]
    return {tag: masks[tag] for tag in sorted(large, key=lambda tag: (-sizes[tag], tag))[:MAX_TAGS]}
