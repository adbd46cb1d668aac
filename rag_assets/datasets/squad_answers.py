"""Answers of a SQuAD question: spans of its paragraph."""

from __future__ import annotations

from typing import Any, NamedTuple

from rag_assets.datasets.fields import Place, shown, string
from rag_assets.datasets.nested import Inside, items
from rag_assets.datasets.squad_paragraphs import Paragraph
from rag_assets.datasets.strict_json import type_name

_START = "answer_start"


class Answer(NamedTuple):
    """One answer: its span ``[start, end)`` in characters, and whether its start was corrected."""

    text: str
    span: tuple[int, int]
    corrected: bool


def answers(question: dict[str, Any], place: Inside, paragraph: Paragraph) -> list[Answer]:
    """Return the answers of a question, each span once; none when it is unanswerable.

    An ``answer_start`` where the text does not stand (or none) is corrected when the text stands
    in the paragraph exactly once.

    Raises:
        DataError: an answer's text is blank, not in the paragraph, or its place is not certain;
            or a question that ``is_impossible`` has answers.
    """
    if question.get("answers") is None:
        return []
    found: dict[tuple[int, int], Answer] = {}
    for answer, inside in items(question, "answers", place):
        located = _located(answer, inside, paragraph)
        found.setdefault(located.span, located)
    if found and is_impossible(question, place):
        raise place.error(f"is true, but there are answers: {len(found)}", "is_impossible")
    return list(found.values())


def is_impossible(question: dict[str, Any], place: Place) -> bool:
    """Return whether the question is marked as one without an answer.

    Raises:
        DataError: the mark is not a boolean.
    """
    value = question.get("is_impossible", False)
    if not isinstance(value, bool):
        raise place.error(f"is {type_name(value)}; must be true or false", "is_impossible")
    return value


def _located(answer: dict[str, Any], place: Inside, paragraph: Paragraph) -> Answer:
    text, start = string(answer, "text", place), answer.get(_START)
    if not text.strip():
        raise place.error("is blank", "text")
    if start is not None and (isinstance(start, bool) or not isinstance(start, int)):
        raise place.error(f"is {type_name(start)}; must be an integer", _START)
    context = paragraph.context
    if start is not None and start >= 0 and context.startswith(text, start):
        return Answer(text, (start, start + len(text)), corrected=False)
    first = context.find(text)
    if first < 0:
        raise place.error(f"{shown(text)} is not in its paragraph", "text")
    if context.find(text, first + 1) >= 0:
        where = "has no answer_start" if start is None else f"does not stand at {start}"
        raise place.error(f"{shown(text)} {where}, and stands in its paragraph twice", _START)
    return Answer(text, (first, first + len(text)), corrected=True)
