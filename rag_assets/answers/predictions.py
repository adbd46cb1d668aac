"""Answers that were made elsewhere: SQuAD's predictions, or JSON lines.

``.json`` is one object ``{question: answer}``; the empty answer and null refuse. ``.jsonl`` has an
object a line: ``query_id`` and ``answer`` (null refuses), where they are known ``cited`` (numbers
of units of the context, from 1), ``na_prob`` (higher: rather no answer) and ``abstained`` (whether
it refuses, whatever it says); or ``error`` in the place of an answer, why there is none. Other keys
are ignored. Both may be ``.gz``.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from rag_assets.errors import DataError
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
        "question has no prediction and counts as failed",
        "questions have no prediction and count as failed",
    )
    others = (
        "prediction belongs to no question of the experiment and is left out",
        "predictions belong to no question of the experiment and are left out",
    )
    notes = note(*lacking, missing) + note(*others, sorted(rows.keys() - set(query_ids)))
    return {
        query_id: rows.get(query_id) or {"error": NO_PREDICTION} for query_id in query_ids
    }, notes


def read_answers(path: Path) -> dict[str, dict[str, Any]]:
    """Read a file as question -> columns of :data:`rag_assets.schemas.ANSWERS`.

    Raises:
        DataError: it cannot be read, has another form, or a question occurs twice in lines; names
            the file, the line and the key.
    """
    answers: dict[str, dict[str, Any]] = {}
    if suffix(path) == ".jsonl":
        ids = UniqueIds("query")
        for place, line in read_declared(path, _Line):
            query_id = checked_id(line.query_id, place, "query_id")
            ids.add(query_id, place, "query_id")
            answers[query_id] = _columns(line, place)
        return answers
    if suffix(path) != ".json":
        raise DataError("must be a .json or .jsonl file, .gz or not", file=path)
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


def _columns(line: _Line, place: Place) -> dict[str, Any]:
    if line.error is not None:
        if not line.error.strip():
            raise place.error("is blank; it must say why there is no answer", "error")
        if line.answer:
            raise place.error("cannot be given together with `answer`", "error")
        return {"error": " ".join(line.error.split())}
    if line.answer is UNSET:
        raise place.error("is missing; null means a refusal, `error` a failure", "answer")
    given = {"abstained": line.abstained, "cited": line.cited, "score": line.na_prob}
    return {"answer": line.answer or "", **given}
