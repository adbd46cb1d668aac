"""Answers that were made elsewhere, and the threshold above which they are taken back.

SQuAD's predictions, ``.json``, are one object ``{question: answer}``; the empty answer and null
refuse. ``.jsonl`` has an object a line: ``query_id`` and ``answer`` (null refuses), where they are
known ``cited`` (numbers of units of the context, from 1), ``na_prob`` (higher: rather no answer)
and ``abstained`` (whether it refuses, whatever it says); or ``error`` in the place of an answer,
why there is none. Other keys are ignored. Both may be ``.gz``.

A threshold is of the no-answer score. A refusal is right where the question is unanswerable.
Candidates lie between different scores, so no threshold splits questions of one score, with -inf
(refuse all) and +inf (take nothing back) among them. It is the one with the largest weighted mean;
of several, the highest, which answers most. Sums are exact, so equal means are equal. It is chosen
on one split and reported on another: on its own questions the best value flatters itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from rag_assets.errors import DataError
from rag_assets.evaluation.query_facts import DEV, TEST
from rag_assets.input_files import suffix
from rag_assets.sources.fields import Id, Place, Text, checked_id, note, type_name
from rag_assets.sources.row_files import read_declared, read_object
from rag_assets.sources.tables import UniqueIds

NO_PREDICTION = "no prediction"
"""The error of a question that a file lacks."""

_FORM = "one object, question to value"
MAX_UNIT = 2**31 - 1
MAX_SCORE = 1e300


def read_predictions(
    path: Path, query_ids: Collection[str]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Read the answers to the questions of an experiment; the lines are for people.

    A question that the file lacks failed, and one that the experiment lacks is left out.

    Raises:
        DataError: as :func:`read_answers`, or the file has none of the questions.
    """
    rows = read_answers(path)
    missing = sorted(set(query_ids) - rows.keys())
    if query_ids and len(missing) == len(set(query_ids)):
        problem = f"has none of the experiment's {len(missing)} questions"
        first = f"; its first is '{next(iter(rows))}'" if rows else ""
        raise DataError(problem + first, file=path)
    lacking = (
        "question has no prediction, and counts as failed",
        "questions have no prediction, and count as failed",
    )
    others = (
        "prediction is for no question of the experiment, and is left out",
        "predictions are for no question of the experiment, and are left out",
    )
    notes = note(*lacking, missing) + note(*others, sorted(rows.keys() - set(query_ids)))
    return {
        query_id: rows.get(query_id) or {"error": NO_PREDICTION} for query_id in query_ids
    }, notes


def read_answers(path: Path) -> dict[str, dict[str, Any]]:
    """Read a file as question -> columns of :data:`rag_assets.schemas.ANSWERS`.

    Raises:
        DataError: it cannot be read, has another form, or a question stands twice in lines; names
            the file, the line and the key.
    """
    if suffix(path) == ".jsonl":
        return _of_lines(path)
    if suffix(path) != ".json":
        raise DataError("must be a .json or .jsonl file, .gz or not", file=path)
    answers = {}
    for query_id, answer in read_object(path, _FORM).items():
        if answer is not None and not isinstance(answer, str):
            problem = f"is {type_name(answer)}; must be a string, or null for no answer"
            raise Place(path).error(problem, query_id)
        answers[query_id] = {"answer": answer or ""}
    return answers


def read_na_probs(path: Path) -> dict[str, float]:
    """Read ``{question: probability that it has no answer}``, as the official script does.

    Raises:
        DataError: as :func:`read_answers`, or a value is not a finite number.
    """
    probabilities = {}
    for query_id, value in read_object(path, _FORM).items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or abs(value) > MAX_SCORE:
            raise Place(path).error(f"is {type_name(value)}; must be a number", query_id)
        probabilities[query_id] = float(value)
    return probabilities


class _Line(msgspec.Struct):
    query_id: Id
    answer: Text | UnsetType | None = UNSET
    error: Text | None = None
    cited: Annotated[
        list[Annotated[int, Meta(ge=1, le=MAX_UNIT)]] | None,
        Meta(description="a list of numbers of units, integers from 1"),
    ] = None
    na_prob: Annotated[float | None, Meta(description="a finite number")] = None
    abstained: Annotated[bool | None, Meta(description="true or false")] = None


def _of_lines(path: Path) -> dict[str, dict[str, Any]]:
    ids = UniqueIds("query")
    answers = {}
    for place, line in read_declared(path, _Line):
        query_id = checked_id(line.query_id, place, "query_id")
        ids.add(query_id, place, "query_id")
        answers[query_id] = _columns(line, place)
    return answers


def _columns(line: _Line, place: Place) -> dict[str, Any]:
    if line.error is not None:
        if not line.error.strip():
            raise place.error("is blank; it must say why there is no answer", "error")
        if line.answer:
            raise place.error("comes with an `answer`; a question has only one of them", "error")
        return {"error": " ".join(line.error.split())}
    if line.answer is UNSET:
        raise place.error("is missing; null means a refusal, `error` a failure", "answer")
    given = {"abstained": line.abstained, "cited": line.cited, "score": line.na_prob}
    return {"answer": line.answer or "", **given}


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
    for one in questions:
        if one.score is not None:
            gain = (Fraction(one.refused) - Fraction(one.answered)) * Fraction(one.weight)
            gains[one.score] = gains.get(one.score, Fraction()) + gain
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
    taken = [one.score is not None and one.score > threshold for one in questions]
    total = math.fsum(one.weight for one in questions)
    full = math.fsum(one.weight * one.answered for one in questions)
    value = math.fsum(
        one.weight * (one.refused if back else one.answered)
        for one, back in zip(questions, taken, strict=True)
    )
    return Threshold(threshold, value / total, full / total, len(questions), sum(taken), chosen_on)
