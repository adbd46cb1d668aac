"""Datasets that are one JSON file: SQuAD, version 1 or 2, and LlamaIndex."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import msgspec
import pyarrow as pa
from msgspec import Meta

from rag_assets.errors import DataError
from rag_assets.input_files import opened, suffix
from rag_assets.sources.dataset import FIRST, Dataset, Problems, Read
from rag_assets.sources.fields import (
    Id,
    Place,
    Text,
    checked_id,
    declared,
    identifier,
    items,
    metadata_json,
    note,
    shown,
    string,
)
from rag_assets.sources.row_files import read_object
from rag_assets.sources.tables import DocumentRows, QrelRows, QueryRows, UniqueIds

GRADE = 1
"""Of all judgments: the formats only know relevant documents, without grades."""

QUERIES_KEY = "queries"
CORPUS_KEY = "corpus"
RELEVANT_KEY = "relevant_docs"

_LLAMAINDEX_KEYS = (QUERIES_KEY, CORPUS_KEY, RELEVANT_KEY)
_QUESTION_KEYS = frozenset({"id", "question", "answers", "is_impossible"})
_PARAGRAPH_KEYS = frozenset({"context", "qas"})
_HEAD_BYTES = 4096
_SEARCHED_BYTES = 1_000_000


@dataclass(frozen=True)
class SingleFileDataset(Dataset):
    """One ``.json`` file, ``.gz`` too, told from others by how it begins (``head``)."""

    head: ClassVar[re.Pattern[bytes]]
    keys: ClassVar[tuple[str, ...]]

    root: Path
    file: Path

    @classmethod
    def recognises(cls, path: Path) -> bool:
        return cls.head.match(_beginning(path, _HEAD_BYTES)) is not None

    @classmethod
    def parts(cls, path: Path) -> Mapping[str, bool]:
        """Return the keys of the format, and which stand near the beginning of the file."""
        beginning = _beginning(path, _SEARCHED_BYTES)
        return {f"`{key}`": f'"{key}"'.encode() in beginning for key in cls.keys if beginning}

    @classmethod
    def open(cls, path: Path, subset: str | None = None) -> Self:
        cls.refuse_subset(path, subset)
        if not path.is_file():
            raise DataError(f"not {cls.layout}", file=path)
        return cls(path.parent, path)

    def document_files(self) -> list[Path]:
        return [self.file]

    query_files = qrels_files = document_files


def _beginning(path: Path, size: int) -> bytes:
    if suffix(path) != ".json" or not path.is_file():
        return b""
    with opened(path) as stream:
        return stream.read(size)


class LlamaIndexDataset(SingleFileDataset):
    """LlamaIndex's ``EmbeddingQAFinetuneDataset``.

    A file with ``queries`` and ``corpus`` (id to text) and ``relevant_docs`` (id to ids).
    """

    format: ClassVar[str] = "llamaindex"
    layout: ClassVar[str] = f"a .json file with the keys {', '.join(_LLAMAINDEX_KEYS)}"
    head: ClassVar[re.Pattern[bytes]] = re.compile(
        rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:queries|corpus|relevant_docs|mode)"\s*:'
    )
    keys: ClassVar[tuple[str, ...]] = _LLAMAINDEX_KEYS

    def read_documents(self, problems: Problems = FIRST) -> Read:
        """Return the nodes of ``corpus``, without titles."""
        rows = DocumentRows()
        for document_id, text in self._texts(CORPUS_KEY, problems):
            rows.add(document_id, "", text)
        return rows.read(Place(self.file), [])

    def read_queries(self, problems: Problems = FIRST) -> Read:
        rows = QueryRows()
        for query_id, text in self._texts(QUERIES_KEY, problems):
            rows.add(query_id, text, [])
        return rows.read(Place(self.file), [])

    def _texts(self, key: str, problems: Problems) -> Iterator[tuple[str, str]]:
        """Yield the ids and texts under a key."""
        place, texts = Place(self.file, path=key), getattr(self._content(), key)
        for name in texts:
            with problems:
                checked_id(name, place, name)
                yield name, string(texts, name, place)

    def read_qrels(
        self, documents: pa.Table, queries: pa.Table, problems: Problems = FIRST
    ) -> Read:
        rows = QrelRows(documents, queries, problems)
        place = Place(self.file, path=RELEVANT_KEY)
        for query_id, nodes in self._content().relevant_docs.items():
            with problems:
                if not isinstance(nodes, list):
                    raise place.wrong(nodes, "a list of node ids", query_id)
            for position, node in enumerate(nodes if isinstance(nodes, list) else ()):
                with problems:
                    key = f"{query_id}[{position}]"
                    document_id = checked_id(node, place, key)
                    rows.resolve(query_id, document_id, place, (query_id, key))
                    rows.add(place, query_id, document_id, GRADE)
        return rows.read(Place(self.file), [])

    def _content(self) -> _Content:
        return declared(read_object(self.file), _Content, Place(self.file))


_Object = Annotated[dict[str, Any], Meta(description="an object")]


class _Content(msgspec.Struct):
    queries: _Object
    corpus: _Object
    relevant_docs: _Object


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
    head: ClassVar[re.Pattern[bytes]] = re.compile(
        rb'(?:\xef\xbb\xbf)?\s*\{\s*(?:"version"\s*:\s*"[^"]*"\s*,\s*)?'
        rb'"data"\s*:\s*\[\s*\{\s*"(?:title|paragraphs)"\s*:'
    )
    keys: ClassVar[tuple[str, ...]] = ("data", "paragraphs", "qas")

    def read_documents(self, problems: Problems = FIRST) -> Read:
        """Return the paragraphs; a note counts contexts that stand in the file more than once."""
        rows, repeated = DocumentRows(), list[str]()
        for paragraph in read_paragraphs(self.file):
            if paragraph.repeated:
                repeated.append(paragraph.document_id)
                continue
            metadata = metadata_json(paragraph.content, _PARAGRAPH_KEYS)
            rows.add(paragraph.document_id, paragraph.title, paragraph.context, metadata)
        one, many = ("repeated context is one document", "repeated contexts are one document each")
        return rows.read(Place(self.file), note(one, many, repeated))

    def read_queries(self, problems: Problems = FIRST) -> Read:
        rows, ids = QueryRows(), UniqueIds("query")
        for paragraph, question, place in self._questions():
            with problems:
                query_id = identifier(question, "id", place)
                ids.add(query_id, place, "id")
                fields = declared(question, _Question, place)
                located, _ = _answers(question, place, paragraph)
                metadata = {k: v for k, v in question.items() if k not in _QUESTION_KEYS}
                metadata["paragraph"] = paragraph.document_id
                if located:
                    metadata["answers"] = list(dict.fromkeys(answer.text for answer in located))
                if fields.is_impossible:
                    metadata["is_impossible"] = True
                rows.add(query_id, fields.question, [], metadata_json(metadata, frozenset()))
        return rows.read(Place(self.file), [])

    def read_qrels(
        self, documents: pa.Table, queries: pa.Table, problems: Problems = FIRST
    ) -> Read:
        """Return the answers as spans.

        Notes count starts that were corrected, answers that are left out because they have no
        place, and questions that so lost all of theirs.
        """
        rows, corrected = QrelRows(documents, queries, problems), list[str]()
        left_out, lost = list[str](), list[str]()
        for paragraph, question, place in self._questions():
            document_id = paragraph.document_id
            with problems:
                query_id = identifier(question, "id", place)
                rows.resolve(query_id, document_id, place, ("id", "title"))
                located, without_place = _answers(question, place, paragraph)
                left_out += [f"{query_id} {shown(text, 30)}" for text in without_place]
                lost += [query_id] if without_place and not located else []
                corrected += [query_id for answer in located if answer.is_corrected]
                for answer in located:
                    rows.add(place, query_id, document_id, GRADE, document_id, answer.span)
        one = "answer_start is corrected to the one place of its text, in question"
        notes = note(one, f"times {one}s", corrected)
        why = "left out: blank, not in its paragraph, or more than once there"
        notes += note(f"answer is {why}", f"answers are {why}", left_out)
        one = "question has no label, because none of its answers can be used"
        many = "questions have no label, because none of their answers can be used"
        return rows.read(Place(self.file), notes + note(one, many, lost))

    def _questions(self) -> Iterator[tuple[Paragraph, dict[str, Any], Place]]:
        for paragraph in read_paragraphs(self.file):
            for question, place in paragraph.questions():
                yield paragraph, question, place


class _Question(msgspec.Struct):
    id: Id
    question: Text
    is_impossible: Annotated[bool, Meta(description="true or false")] = False


class _GivenAnswer(msgspec.Struct):
    text: Text
    answer_start: Annotated[int, Meta(description="an integer")] | None = None


class _Answer(NamedTuple):
    """An answer with a place: its span ``[start, end)`` in characters."""

    text: str
    span: tuple[int, int]
    is_corrected: bool


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

    place: Place
    document_id: str
    title: str
    context: str
    repeated: bool
    content: dict[str, Any]

    def questions(self) -> Iterator[tuple[dict[str, Any], Place]]:
        """Yield every question with its place."""
        return items(self.content, "qas", self.place)


def read_paragraphs(file: Path) -> Iterator[Paragraph]:
    """Yield all paragraphs of a SQuAD file in order.

    Articles with the same title count on, so that every id is unique.
    """
    ids: dict[str, str] = {}
    numbers: Counter[str] = Counter()
    for article, place in items(read_object(file), "data", Place(file)):
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


def _answers(
    question: dict[str, Any], place: Place, paragraph: Paragraph
) -> tuple[list[_Answer], list[str]]:
    """Return the answers that have a place, each span once, and the texts of the others.

    An ``answer_start`` where the text does not stand (or none) is corrected when the text stands
    in the paragraph exactly once. A text that is blank, in free wording, or there more than once
    has no place.
    """
    by_span: dict[tuple[int, int], _Answer] = {}
    without_place: list[str] = []
    given = items(question, "answers", place) if question.get("answers") is not None else ()
    for fields, inside in given:
        answer = declared(fields, _GivenAnswer, inside)
        located = _located(answer.text, answer.answer_start, paragraph.context)
        if located is None:
            without_place.append(answer.text)
        else:
            by_span.setdefault(located.span, located)
    if by_span and question.get("is_impossible") is True:
        raise place.error(f"is true, but there are answers: {len(by_span)}", "is_impossible")
    return list(by_span.values()), without_place


def _located(text: str, start: int | None, context: str) -> _Answer | None:
    if not text.strip():
        return None
    if start is not None and start >= 0 and context.startswith(text, start):
        return _Answer(text, (start, start + len(text)), is_corrected=False)
    first = context.find(text)
    if first < 0 or context.find(text, first + 1) >= 0:
        return None
    return _Answer(text, (first, first + len(text)), is_corrected=True)
