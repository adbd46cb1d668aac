"""SQuAD files, version 1 or 2: paragraphs as documents, answers as spans of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from rag_assets.sources.dataset import Read, SingleFileDataset
from rag_assets.sources.fields import (
    Inside,
    Place,
    checked_id,
    identifier,
    items,
    metadata_json,
    note,
    shown,
    string,
)
from rag_assets.sources.ids import UniqueIds
from rag_assets.sources.problems import skipping_bad_rows
from rag_assets.sources.rows import DocumentRows, QrelRows, QueryRows
from rag_assets.sources.strict_json import read_object, type_name

_START = "answer_start"
GRADE = 1
_QUESTION_KEYS = frozenset({"id", "question", "answers", "is_impossible"})
_PARAGRAPH_KEYS = frozenset({"context", "qas"})

_HEAD = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*(?:"version"\s*:\s*"[^"]*"\s*,\s*)?'
    rb'"data"\s*:\s*\[\s*\{\s*"(?:title|paragraphs)"\s*:'
)


class SquadDataset(SingleFileDataset):
    """A SQuAD file: its contexts, each once, its questions, and the spans of their answers.

    All answers of a question are alternatives of one evidence, whose id is the document's. A
    question's ``paragraph`` (the document that it was written for), its ``answers`` (their texts)
    and ``is_impossible`` are metadata. An answer without a place in its paragraph is left out. A
    question without an answer is kept: it is unanswerable.
    """

    format: ClassVar[str] = "squad"
    layout: ClassVar[str] = "a SQuAD .json file with data, paragraphs and qas"
    default_judge: ClassVar[str] = "evidence"
    head: ClassVar[re.Pattern[bytes]] = _HEAD
    keys: ClassVar[tuple[str, ...]] = ("data", "paragraphs", "qas")

    def read_documents(self) -> Read:
        """Return the paragraphs; a note counts contexts that stand in the file more than once."""
        rows, repeated = DocumentRows(), list[str]()
        for paragraph in read_paragraphs(self.file):
            if paragraph.repeated:
                repeated.append(paragraph.document_id)
                continue
            metadata = metadata_json(paragraph.content, _PARAGRAPH_KEYS)
            rows.add(paragraph.document_id, paragraph.title, paragraph.context, metadata)
        one, many = "repeated context is one document", "repeated contexts are one document each"
        notes = note(one, many, repeated)
        return rows.read(Place(self.file), notes)

    def read_queries(self) -> Read:
        """Return the questions; a note counts those without answer that are not marked so."""
        rows, ids, unmarked = QueryRows(), UniqueIds("query"), list[str]()
        for paragraph, question, place in self._questions():
            with skipping_bad_rows():
                query_id = identifier(question, "id", place)
                ids.add(query_id, place, "id")
                parsed = answers(question, place, paragraph)
                texts = [answer.text for answer in parsed.located]
                if not any(parsed) and not is_impossible(question, place):
                    unmarked.append(query_id)
                metadata = _metadata(question, place, paragraph, texts)
                rows.add(query_id, string(question, "question", place), [], metadata)
        singular = "question has no answer and is not marked is_impossible"
        many = "questions have no answer and are not marked is_impossible"
        return rows.read(Place(self.file), note(singular, many, unmarked))

    def read_qrels(self, documents: pa.Table, queries: pa.Table) -> Read:
        """Return the answers as spans.

        Notes count starts that were corrected, answers that are left out because they have no
        place, and questions that so lost all of theirs.
        """
        rows, corrected = QrelRows(documents, queries), list[str]()
        left_out, lost = list[str](), list[str]()
        for paragraph, question, place in self._questions():
            document_id = paragraph.document_id
            with skipping_bad_rows():
                query_id = identifier(question, "id", place)
                rows.resolve(query_id, document_id, place, ("id", "title"))
                parsed = answers(question, place, paragraph)
                left_out += [f"{query_id} {shown(text, 30)}" for text in parsed.without_place]
                lost += [query_id] if parsed.without_place and not parsed.located else []
                for answer in parsed.located:
                    if answer.corrected:
                        corrected.append(query_id)
                    rows.add(place, query_id, document_id, GRADE, document_id, answer.span)
        singular = "answer_start is corrected to the one place of its text, in question"
        many = "times answer_start is corrected to the one place of its text, in questions"
        notes = note(singular, many, corrected)
        why = "left out: blank, not in its paragraph, or more than once there"
        notes += note(f"answer is {why}", f"answers are {why}", left_out)
        singular = "question has no label, because none of its answers can be used"
        many = "questions have no label, because none of their answers can be used"
        return rows.read(Place(self.file), notes + note(singular, many, lost))

    def _questions(self) -> Iterator[tuple[Paragraph, dict[str, Any], Inside]]:
        for paragraph in read_paragraphs(self.file):
            for question, place in paragraph.questions():
                yield paragraph, question, place


def _metadata(
    question: dict[str, Any], place: Inside, paragraph: Paragraph, texts: list[str]
) -> str:
    fields: dict[str, Any] = {"paragraph": paragraph.document_id}
    if texts:
        fields["answers"] = list(dict.fromkeys(texts))
    if is_impossible(question, place):
        fields["is_impossible"] = True
    rest = {key: value for key, value in question.items() if key not in _QUESTION_KEYS}
    return metadata_json({**rest, **fields}, frozenset())


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One paragraph of an article.

    Attributes:
        document_id: the article's title with ``_`` for blanks and the paragraph's number from 0,
            as ``Normans_p00``; a context that stood before has the id that it got there.
        title: the article's title with blanks for ``_``.
        repeated: whether the same context stood before.
        content: the paragraph's object, with its questions under ``qas``.
    """

    place: Inside
    document_id: str
    title: str
    context: str
    repeated: bool
    content: dict[str, Any]

    def questions(self) -> Iterator[tuple[dict[str, Any], Inside]]:
        """Yield every question with its place.

        Raises:
            DataError: ``qas`` is missing or no list of objects.
        """
        return items(self.content, "qas", self.place)


def read_paragraphs(file: Path) -> Iterator[Paragraph]:
    """Yield all paragraphs in order.

    Articles with the same title count on, so that every id is unique.

    Raises:
        DataError: the file is not strict JSON, or not of the shape of SQuAD.
    """
    top = Inside(file)
    ids: dict[str, str] = {}
    numbers: Counter[str] = Counter()
    for article, place in items(read_object(file), "data", top):
        title = string(article, "title", place)
        slug = "_".join(title.split(" "))
        for paragraph, inside in items(article, "paragraphs", place):
            context = string(paragraph, "context", inside)
            repeated = context in ids
            new_id = checked_id(f"{slug}_p{numbers[slug]:02d}", place, "title")
            numbers[slug] += 1
            document_id = ids.setdefault(context, new_id)
            yield Paragraph(
                inside, document_id, title.replace("_", " "), context, repeated, paragraph
            )


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
    by_span: dict[tuple[int, int], Answer] = {}
    without_place: list[str] = []
    for answer, inside in items(question, "answers", place):
        text, start = _text_and_start(answer, inside)
        located = _located(text, start, paragraph.context)
        if located is None:
            without_place.append(text)
        else:
            by_span.setdefault(located.span, located)
    if by_span and is_impossible(question, place):
        raise place.error(f"is true, but there are answers: {len(by_span)}", "is_impossible")
    return Answers(list(by_span.values()), without_place)


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
