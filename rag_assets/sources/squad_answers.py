"""Answers of a SQuAD question: spans of its paragraph."""

from __future__ import annotations

from typing import Any, NamedTuple

from rag_assets.sources.fields import Place, string
from rag_assets.sources.nested import Inside, items
from rag_assets.sources.squad_paragraphs import Paragraph
from rag_assets.sources.strict_json import type_name

_START = "answer_start"


class Answer(NamedTuple):
    """One answer: its span ``[start, end)`` in characters, and whether its start was corrected."""

    text: str
    span: tuple[int, int]
    corrected: bool


class Answers(NamedTuple):
    """The answers of a question that have a place, each span once, and the texts of the others."""

    located: list[Answer]
    without_place: list[str]


def answers(question: dict[str, Any], place: Inside, paragraph: Paragraph) -> Answers:
    """Return the answers of a question; none when it is unanswerable.

    An ``answer_start`` where the text does not stand (or none) is corrected when the text stands
    in the paragraph exactly once. A text that is blank, in free wording, or there more than once
    has no place.

    Raises:
        DataError: an answer has no text, or a start that is no number; or a question that
            ``is_impossible`` has answers.
    """
    if question.get("answers") is None:
        return Answers([], [])
    found: dict[tuple[int, int], Answer] = {}
    without_place: list[str] = []
    for answer, inside in items(question, "answers", place):
        text, start = _text_and_start(answer, inside)
        located = _located(text, start, paragraph.context)
        if located is None:
            without_place.append(text)
        else:
            found.setdefault(located.span, located)
    if found and is_impossible(question, place):
        raise place.error(f"is true, but there are answers: {len(found)}", "is_impossible")
    return Answers(list(found.values()), without_place)


def is_impossible(question: dict[str, Any], place: Place) -> bool:
    """Return whether the question is marked as one without an answer.

    Raises:
        DataError: the mark is not a boolean.
    """
    value = question.get("is_impossible", False)
    if not isinstance(value, bool):
        raise place.error(f"is {type_name(value)}; must be true or false", "is_impossible")
    return value


def _text_and_start(answer: dict[str, Any], place: Inside) -> tuple[str, int | None]:
    text, start = string(answer, "text", place), answer.get(_START)
    if start is not None and (isinstance(start, bool) or not isinstance(start, int)):
        raise place.error(f"is {type_name(start)}; must be an integer", _START)
    return text, start


def _located(text: str, start: int | None, context: str) -> Answer | None:
    if not text.strip():
        return None
    if start is not None and start >= 0 and context.startswith(text, start):
        return Answer(text, (start, start + len(text)), corrected=False)
    first = context.find(text)
    if first < 0 or context.find(text, first + 1) >= 0:
        return None
    return Answer(text, (first, first + len(text)), corrected=True)
