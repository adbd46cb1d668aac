"""Which retriever to use, as far as it is shown, in words that need no knowledge of metrics.

There is a winner only where the paired test shows the best to be better than every other, after
Holm's correction; what queries share is allowed for. Else the best and all that are not shown to be
worse are tied, the cheapest of them is known, and it is said what the questions can show.

A retriever that is better on the queries of one tag is an exception to the answer. All pairs of tag
and retriever are one family of tests; what is not shown is named as that, where p alone is small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_assets.analysis.comparisons import oriented, power_text
from rag_assets.analysis.evaluation_pairs import EvaluationPair
from rag_assets.analysis.metric_sources import Retrieval
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.analysis.slices import TAG, members_by
from rag_assets.plain_text import one_line
from rag_assets.sheets.environment import shortened
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
    **dict.fromkeys(("bm25", "tfidf"), "is keyword search"),
    "splade": "is learned keyword search",
    **dict.fromkeys(("embedding", "openai_embedding", "vectors", "qdrant"), "is embedding search"),
    "run_file": "is a ranking from a file",
}
"""Type of a retriever without inputs -> what it is, in a few words."""


@dataclass(frozen=True)
class Winner:
    """The answer.

    Attributes:
        best: the retriever with the highest value.
        tied: the others that are not shown to be worse, the best first.
        compared: whether it was compared with any other.
        sentences: what else is known: what the best is and its value, what limits the claim, what
            the questions can show, who of the tied is the fastest, and tags on which another has
            more.
    """

    best: str
    tied: tuple[str, ...]
    compared: bool
    sentences: list[str]

    @property
    def proven(self) -> bool:
        """Whether the best is shown to be better than every other."""
        return self.compared and not self.tied

    @property
    def title(self) -> str:
        """The answer in one line: ``No winner yet: bm25, hybrid and 4 more are tied``."""
        if not self.tied:
            return f"Use {self.best}" if self.compared else f"{self.best}, without a comparison"
        names = [self.best, *self.tied]
        first, rest = names[:-1], names[-1]
        if len(names) > 3:
            first, rest = names[:2], f"{len(names) - 2} more"
        return f"No winner yet: {', '.join(first)} and {rest} are tied"


def winner_of(result: EvaluationResult) -> Winner | None:
    """Return the answer of an evaluation; None where nobody has a value."""
    if not result.ranked:
        return None
    best, *others = (str(row["retriever"]) for row in result.ranked)
    if not result.comparisons or not others:
        return Winner(best, (), False, [_numbers(result)])
    pairs = [
        oriented(row, best)
        for row in result.comparisons
        if best in (row["retriever_a"], row["retriever_b"])
    ]
    worse = [row["other"] for row in pairs if row["mark"]]
    tied = tuple(name for name in others if name not in worse)
    pair = EvaluationPair.within(result, Retrieval(result.primary))
    sentences = [_numbers(result)]
    if pair.caveat is not None:
        sentences.append(f"But {pair.caveat}.")
    by_name = {row["other"]: row for row in pairs}
    nearest = next((by_name[name] for name in tied if name in by_name), None)
    if nearest and (power := power_text(nearest, "questions", more_would_help=not pair.caveat)):
        sentences.append(f"The test cannot tell: {power.removeprefix('; ')}.")
    failed = {str(row["retriever"]) for row in result.ranked if row["n_failed"]}
    whole = [name for name in (best, *tied) if name not in failed]
    if len(whole) > 1 and all(name in result.speed for name in whole):
        name = min(whole, key=lambda name: result.speed[name])
        without = " without a failed query" if len(whole) <= len(tied) else ""
        time = f"{result.speed[name]:.3g} ms per query"
        sentences.append(f"The fastest of them{without} is {name}, {time}.")
    lead = "By query tag:" if tied else f"{best} is best overall, but"
    return Winner(best, tied, True, sentences + _exceptions(pair, best, lead)[:MAX_EXCEPTIONS])


def _numbers(result: EvaluationResult) -> str:
    """Return ``maxsim reranks hybrid; its ndcg@10 is 0.7906, hybrid has 0.7399``."""
    best, *others = result.ranked
    kind = _kind(result, str(best["retriever"]))
    text = f"{best['retriever']} {kind}; its" if kind else f"{best['retriever']}'s"
    rest = [f", {row['retriever']} has {_mean(result, row)}" for row in others[:1]]
    return f"{text} {result.primary} is {_mean(result, best)}{''.join(rest)}."


def _mean(result: EvaluationResult, row: Row) -> str:
    """Return ``0.7906``; where queries failed, over how many of those with labels it is."""
    n = row["n_attempted"] - row["n_unanswerable"] - (row.get("n_unlabelled") or 0)
    over = f" over {row['n_queries']} of {n} questions" if row["n_queries"] < n else ""
    return f"{row[result.primary.column]:.4f}{over}"


def _kind(result: EvaluationResult, name: str) -> str | None:
    """Return what a retriever does, in a few words; None: its type says no more than its name."""
    block = result.configured("retrievers").get(name, {})
    inputs = block.get("inputs")
    if isinstance(inputs, Sequence) and not isinstance(inputs, str):
        names = [str(name) for name in inputs]
        return f"fuses {' and '.join(names)}" if len(names) == 2 else f"fuses {len(names)} others"
    if isinstance(block.get("input"), str):
        return f"reranks {block['input']}"
    return KINDS.get(str(block.get("type")))


def _exceptions(pair: EvaluationPair, best: str, lead: str) -> list[str]:
    """Return tags on which another has more; those that are shown first, then by how much."""
    counted = next(iter(counted_by_split(pair.counting, pair.new_cells.values())), None)
    if counted is None or best not in pair.new_cells:
        return []
    cells, measure = pair.new_cells, pair.metric.column
    values = {name: counted.values(table, measure) for name, table in cells.items()}
    tags = _large(members_by(TAG, pair.new.table_of), counted)
    if not (cases := [(tag, name) for tag in tags for name in values if name != best]):
        return []
    differences = np.column_stack(
        [np.where(tags[tag], values[name] - values[best], np.nan) for tag, name in cases]
    )
    p_values = PairedDifferences(counted, differences).p_values(pair.resampling)
    most: dict[str, tuple[bool, float, float, str]] = {}
    for (tag, name), column, p, adjusted in zip(
        cases, differences.T, p_values, holm(p_values), strict=True
    ):
        if p is None or adjusted is None or p >= ALPHA:
            continue
        there = ~np.isnan(column)
        weights = np.where(there, counted.weights, 0.0)
        value, of_best = (
            weighted_mean(np.where(there, values[retriever], 0.0) * weights, weights) or 0.0
            for retriever in (name, best)
        )
        case = adjusted < ALPHA, value, of_best, name
        if value > of_best and (tag not in most or case[:2] > most[tag][:2]):
            most[tag] = case
    ordered = sorted(most.items(), key=lambda case: (not case[1][0], case[1][2] - case[1][1]))
    sentences = []
    for tag, (is_certain, value, of_best, name) in ordered:
        on = f"{shortened(one_line(tag))} ({value:.2f}, {best} {of_best:.2f})"
        unsure = f"{name} may be better for {on}; the data does not settle it."
        sentences.append(f"{lead} {name} is better for {on}." if is_certain else unsure)
    return sentences


def _large(members: Mapping[str, set[str]], counted: Counted) -> dict[str, Flags]:
    """Return the largest tags with enough queries, as masks; not one that all queries have."""
    masks = {
        tag: np.array([query_id in ids for query_id in counted.query_ids], dtype=np.bool_)
        for tag, ids in members.items()
    }
    sizes = {tag: int(mask.sum()) for tag, mask in masks.items()}
    large = [tag for tag, size in sizes.items() if MIN_QUERIES <= size < len(counted.query_ids)]
    return {tag: masks[tag] for tag in sorted(large, key=lambda tag: (-sizes[tag], tag))[:MAX_TAGS]}
