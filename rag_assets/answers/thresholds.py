"""The threshold of the no-answer score above which an answer is taken back.

A refusal is right where the question is unanswerable. Candidates lie between different scores, so
no threshold splits questions of one score, with -inf (refuse all) and +inf (take nothing back)
among them. It is the one with the largest weighted mean; of several, the highest, which answers
most. Sums are exact, so equal means are equal. It is chosen on one split and reported on another:
on its own questions the best value flatters itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

from rag_assets.evaluation.query_facts import DEV, TEST


class Scored(NamedTuple):
    """One question.

    Attributes:
        score: higher: rather no answer; None: not known, so no threshold takes the answer back.
        answered: value of a metric of the answer as it is.
        refused: its value when the answer is taken back.
        weight: how much the question counts.
    """

    score: float | None
    answered: float
    refused: float
    weight: float = 1.0


class Threshold(NamedTuple):
    """A threshold and what it gives.

    Attributes:
        threshold: an answer is taken back when its score is above it.
        value: weighted mean with it, over the questions that it is reported on.
        as_it_is: weighted mean with no answer taken back.
        n: the questions that it is reported on.
        n_taken_back: those of them whose answer is taken back.
        chosen_on: the split that it maximises.
    """

    threshold: float
    value: float
    as_it_is: float
    n: int
    n_taken_back: int
    chosen_on: str


def best_threshold(questions: Sequence[Scored]) -> float:
    """Return the threshold with the largest mean; +inf where no question has a score."""
    gains: dict[float, Fraction] = {}
    for question in questions:
        if question.score is not None:
            gain = Fraction(question.refused) - Fraction(question.answered)
            before = gains.get(question.score, Fraction())
            gains[question.score] = before + gain * Fraction(question.weight)
    best, highest, total = math.inf, Fraction(), Fraction()
    for score, below in pairwise([*sorted(gains, reverse=True), -math.inf]):
        total += gains[score]
        if total > highest:
            best, highest = _between(below, score), total
    return best


def thresholds(splits: Mapping[str, Sequence[Scored]]) -> dict[str, Threshold]:
    """Return for each split its threshold: that of ``dev`` on ``test``, else the split's own.

    A split without a question is left out.
    """
    chosen = {}
    for name, questions in splits.items():
        source = DEV if name == TEST and splits.get(DEV) else name
        if questions:
            chosen[name] = _reported(questions, best_threshold(splits[source]), source)
    return chosen


def scored(
    answers: pa.Table, metrics: pa.Table, metric: str, weights: Mapping[str, float] | None = None
) -> dict[str, Scored]:
    """Return what a threshold is chosen from, for each question for which the metric is defined.

    A failed answer cannot be taken back: it is 0 either way. A question counts its weight; each 1
    without them.
    """
    scores = dict(zip(answers["query_id"].to_pylist(), answers["score"].to_pylist(), strict=True))
    columns = ("query_id", "failed", "answerable", metric)
    rows = {}
    for row in metrics.select(columns).to_pylist():
        query_id, value = row["query_id"], row[metric]
        if value is not None:
            score = None if row["failed"] else scores.get(query_id)
            refused = float(row["answerable"] is False and not row["failed"])
            weight = (weights or {}).get(query_id, 1.0)
            rows[query_id] = Scored(score, value, refused, weight)
    return rows


def _between(low: float, high: float) -> float:
    """Return a number t with low <= t < high: the middle, where one lies between."""
    if low == -math.inf:
        return low
    middle = low + (high - low) / 2
    return middle if middle < high else low


def _reported(questions: Sequence[Scored], threshold: float, chosen_on: str) -> Threshold:
    taken = [question.score is not None and question.score > threshold for question in questions]
    total = math.fsum(question.weight for question in questions)
    full = math.fsum(question.weight * question.answered for question in questions)
    value = math.fsum(
        question.weight * (question.refused if back else question.answered)
        for question, back in zip(questions, taken, strict=True)
    )
    return Threshold(threshold, value / total, full / total, len(questions), sum(taken), chosen_on)
