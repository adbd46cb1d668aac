"""SQuAD files, version 1 or 2: paragraphs as documents, answers as spans of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import Place, identifier, metadata_json, shown, string
from rag_assets.sources.ids import UniquePlaces
from rag_assets.sources.nested import Inside
from rag_assets.sources.notes import note
from rag_assets.sources.problems import tolerated
from rag_assets.sources.rows import DocumentRows, QrelRows, QueryRows
from rag_assets.sources.single_file import SingleFileDataset
from rag_assets.sources.squad_answers import answers, is_impossible
from rag_assets.sources.squad_paragraphs import Paragraph, read_paragraphs

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
        about = ("repeated context is", "repeated contexts are")
        notes = note(f"{about[0]} one document", f"{about[1]} one document each", repeated)
        return rows.read(Place(self.file), notes)

    def read_queries(self) -> Read:
        """Return the questions; a note counts those without answer that are not marked so."""
        rows, ids, unmarked = QueryRows(), UniquePlaces("query"), list[str]()
        for paragraph, question, place in self._questions():
            with tolerated():
                query_id = identifier(question, "id", place)
                ids.add(query_id, place, "id")
                found = answers(question, place, paragraph)
                texts = [answer.text for answer in found.located]
                if not any(found) and not is_impossible(question, place):
                    unmarked.append(query_id)
                metadata = _metadata(question, place, paragraph, texts)
                rows.add(query_id, string(question, "question", place), [], metadata)
        one = "question has no answer and is not marked is_impossible"
        many = "questions have no answer and are not marked is_impossible"
        return rows.read(Place(self.file), note(one, many, unmarked))

    def read_qrels(self, documents: pa.Table, queries: pa.Table) -> Read:
        """Return the answers as spans.

        Notes count starts that were corrected, answers that are left out because they have no
        place, and questions that so lost all of theirs.
        """
        rows, corrected = QrelRows(documents, queries), list[str]()
        left_out, lost = list[str](), list[str]()
        for paragraph, question, place in self._questions():
            document_id = paragraph.document_id
            with tolerated():
                query_id = identifier(question, "id", place)
                rows.resolve(query_id, document_id, place, ("id", "title"))
                found = answers(question, place, paragraph)
                left_out += [f"{query_id} {shown(text, 30)}" for text in found.without_place]
                lost += [query_id] if found.without_place and not found.located else []
                for answer in found.located:
                    if answer.corrected:
                        corrected.append(query_id)
                    rows.add(place, query_id, document_id, GRADE, document_id, answer.span)
        one = "answer_start is corrected to the one place of its text, in question"
        many = "times answer_start is corrected to the one place of its text, in questions"
        notes = note(one, many, corrected)
        why = "left out: blank, not in its paragraph, or more than once there"
        notes += note(f"answer is {why}", f"answers are {why}", left_out)
        one = "question has no label, because none of its answers can be used"
        many = "questions have no label, because none of their answers can be used"
        return rows.read(Place(self.file), notes + note(one, many, lost))

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
