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

from rag_assets.schemas import column_values


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


def reported(questions: Sequence[Scored], threshold: float) -> dict[str, float]:
    """Return the ``threshold`` and what it gives on some questions.

    ``as_it_is`` is the weighted mean with no answer taken back, ``value`` that without those
    answers whose score is above the threshold; ``n_taken_back`` counts these.
    """
    taken = [question.score is not None and question.score > threshold for question in questions]
    total = math.fsum(question.weight for question in questions)
    full = math.fsum(question.weight * question.answered for question in questions)
    value = math.fsum(
        question.weight * (question.refused if back else question.answered)
        for question, back in zip(questions, taken, strict=True)
    )
    means = {"as_it_is": full / total, "value": value / total}
    return {"threshold": threshold, **means, "n_taken_back": sum(taken)}


def scored(
    answers: pa.Table, metrics: pa.Table, metric: str, weights: Mapping[str, float]
) -> list[Scored]:
    """Return what a threshold is chosen from: the questions with a weight and this metric.

    A failed answer cannot be taken back: it is 0 either way.
    """
    scores = dict(column_values(answers, "query_id", "score"))
    rows = []
    for row in metrics.select(("query_id", "failed", "answerable", metric)).to_pylist():
        if row[metric] is not None and row["query_id"] in weights:
            score = None if row["failed"] else scores.get(row["query_id"])
            refused = float(row["answerable"] is False and not row["failed"])
            rows.append(Scored(score, row[metric], refused, weights[row["query_id"]]))
    return rows


def _between(low: float, high: float) -> float:
    """Return a number t with low <= t < high: the middle, where one lies between."""
    if low == -math.inf:
        return low
    middle = low + (high - low) / 2
    return middle if middle < high else low
