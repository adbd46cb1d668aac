"""Summaries, questions and context headers of chunks: from a file, or asked of a language model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.chunking.chunk_table import indexed_texts
from rag_assets.chunking.index_texts import CONTEXT, QUESTIONS, IndexText, Texts
from rag_assets.errors import DataError
from rag_assets.llm.client import Answer, ChatRequest, Failure
from rag_assets.llm.completions import Completions
from rag_assets.llm.passages import passages_block
from rag_assets.llm.templates import Template, packaged_template, read_template
from rag_assets.plain_text import without_obeyed
from rag_assets.query_sets.model_output import Unusable, parsed_list, parsed_passage
from rag_assets.sources.fields import Place, identifier, note, shown
from rag_assets.sources.strict_json import read_objects, type_name

LONGEST = 4_000
"""Characters of the longest text that is taken."""

_KEYS = ("document_id", "start", "end", "texts")


class WrittenTexts(NamedTuple):
    """What was written about chunks.

    Attributes:
        texts: of each chunk; none of a chunk without any.
        notes: one line for each thing worth telling people.
        unanswered: how many requests a server did not answer.
        served_models: the names that the server gave the model, by the first reply that is stored.
    """

    texts: Texts
    notes: Sequence[str] = ()
    unanswered: int = 0
    served_models: Sequence[str] = ()


def template_of(option: IndexText) -> Template:
    """Return the packaged prompt of a kind, or the one in its file.

    Raises:
        ConfigError: the file is no prompt with a place for each that is needed.
    """
    needed = ["chunk", "document"] if option.kind == CONTEXT else ["chunk"]
    allowed = ["language", "n"] if option.kind == QUESTIONS else ["language"]
    if option.template is None:
        return packaged_template(f"chunk_{option.kind}", needed, allowed)
    return read_template(option.template, needed, allowed)


def chunk_requests(
    option: IndexText, chunks: pa.Table, documents: Mapping[str, str]
) -> list[ChatRequest]:
    """Return what is asked, a request for each chunk that holds text, in their order.

    Args:
        option: what is written.
        chunks: table of :data:`rag_assets.schemas.CHUNKS`.
        documents: document id -> its text.
    """
    template = template_of(option)
    return [
        ChatRequest(
            template.filled({"language": option.language, "n": option.count, **passages}),
            option.temperature,
            option.seed,
            option.max_tokens,
            template.label,
        )
        for passages in _passages(option, chunks, documents)
    ]


def asked_texts(
    option: IndexText,
    chunks: pa.Table,
    documents: Mapping[str, str],
    completions: Completions,
) -> WrittenTexts:
    """Ask about every chunk that holds text; arguments as in :func:`chunk_requests`.

    Raises:
        BudgetReached: the limits allow no more; what was answered is in the cache.
        ModelUnavailable: the endpoint refuses everything, or does not serve; likewise.
        DataError: no answer is of any use.
    """
    answers = completions.answer(chunk_requests(option, chunks, documents))
    ids: list[str] = chunks.column("chunk_id").to_pylist()
    texts: list[list[str]] = [[] for _ in ids]
    failures: dict[str, str] = {}
    for row, answer in zip(_filled(chunks), answers, strict=True):
        parsed = parsed_texts(option, answer)
        if isinstance(parsed, Unusable):
            failures[ids[row]] = parsed.reason
        else:
            texts[row] = parsed
    if answers and len(failures) == len(answers):
        chunk_id, reason = next(iter(failures.items()))
        problem = f"the model wrote nothing usable for any of {len(answers)} chunks"
        raise DataError(f"index_texts {option.kind}: {problem}; of {chunk_id}: {reason}")
    served = completions.served_models
    unanswered = sum(isinstance(answer, Failure) for answer in answers)
    return WrittenTexts(texts, _without(option, failures), unanswered, served)


def parsed_texts(option: IndexText, answer: Answer) -> list[str] | Unusable:
    """Return what a model wrote, each text on one line without control characters.

    One above :data:`LONGEST` characters, or without a character that can be seen, is not taken.
    """
    if option.kind == QUESTIONS:
        parsed = parsed_list(answer, "", option.count)
    else:
        parsed = parsed_passage(answer, "")
    if isinstance(parsed, Unusable):
        return parsed
    plain = [line for text in parsed if (line := " ".join(without_obeyed(text).split()))]
    if not plain:
        return Unusable("the answer holds no text")
    short = [text for text in plain if len(text) <= LONGEST]
    return short or Unusable(f"the answer has {len(plain[0])} characters; {LONGEST} are taken")


def texts_from_file(option: IndexText, file: Path, chunks: pa.Table) -> WrittenTexts:
    """Return the texts of a file: JSON lines ``{"document_id", "start", "end", "texts"}``.

    A row belongs to each chunk that holds half of its span, or of which half lies inside it, as a
    label does: so a file outlives another chunking.

    Args:
        option: what is written.
        file: of texts.
        chunks: table of :data:`rag_assets.schemas.CHUNKS`.

    Raises:
        DataError: the file cannot be read, a row breaks its format, or none fits a chunk; names
            file, line and key.
    """
    names = ("chunk_id", "document_id", "start", "end")
    columns = [chunks.column(name).to_pylist() for name in names]
    of_document: dict[str, list[int]] = defaultdict(list)
    for row, document_id in enumerate(columns[1]):
        of_document[document_id].append(row)
    texts: list[list[str]] = [[] for _ in columns[0]]
    n_rows, unused = 0, list[str]()
    for line, document_id, span, own in _file_rows(file):
        n_rows += 1
        fitting = [
            row
            for row in of_document.get(document_id, ())
            if _share_half(span, (columns[2][row], columns[3][row]))
        ]
        for row in fitting:
            texts[row] += own
        unused += [] if fitting else [f"line {line}"]
    if n_rows == len(unused) and columns[0]:
        raise DataError(f"none of its {n_rows} rows fits a chunk", file=file)
    without = {name: "" for name, own in zip(columns[0], texts, strict=True) if not own}
    is_of_others = note("row fits no chunk", "rows fit no chunk", unused)
    return WrittenTexts(texts, [*_without(option, without), *is_of_others])


def _without(option: IndexText, chunk_ids: Mapping[str, str]) -> list[str]:
    what = f"without {option.kind}: found by what else is indexed"
    return note(f"chunk {what}", f"chunks {what}", list(chunk_ids))


def _filled(chunks: pa.Table) -> list[int]:
    texts = chunks.column("text").to_pylist()
    return [row for row, text in enumerate(texts) if text.strip()]


def _passages(
    option: IndexText, chunks: pa.Table, documents: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """Yield place -> passage of each prompt; texts of documents stand between marks."""
    names = ("document_id", "start", "end", "title")
    places = list(zip(*(chunks.column(name).to_pylist() for name in names), strict=True))
    told = indexed_texts(chunks, headings=True)
    for row in _filled(chunks):
        passages = {"chunk": passages_block([told[row]], option.kind)}
        if option.kind == CONTEXT:
            document_id, start, end, title = places[row]
            around = _around(documents[document_id], start, end, option.document_characters)
            passages["document"] = passages_block([f"{title}\n{around}"], option.kind)
        yield passages


def _around(text: str, start: int, end: int, most: int) -> str:
    """Return at most so many characters of a document, with the span in their middle."""
    first = max(0, min((start + end - most) // 2, len(text) - most))
    return text[first : first + most]


def _share_half(one: tuple[int, int], other: tuple[int, int]) -> bool:
    common = min(one[1], other[1]) - max(one[0], other[0])
    return common > 0 and 2 * common >= min(one[1] - one[0], other[1] - other[0])


def _file_rows(file: Path) -> Iterator[tuple[int, str, tuple[int, int], list[str]]]:
    for line, row in read_objects(file):
        place = Place(file, line)
        for name in row.keys() - set(_KEYS):
            raise place.error(f"unknown; a row has {', '.join(_KEYS)}", name)
        document_id = identifier(row, "document_id", place)
        start, end = (_character(row, name, place) for name in ("start", "end"))
        if start >= end:
            raise place.error(f"is {end}; must be above start, {start}", "end")
        yield line, document_id, (start, end), _texts(row, place)


def _character(row: Mapping[str, Any], name: str, place: Place) -> int:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        said = type_name(value) if not isinstance(value, int) else value
        raise place.error(f"is {said}; must be a number of characters, from 0", name)
    return value


def _texts(row: Mapping[str, Any], place: Place) -> list[str]:
    value = row.get("texts")
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        raise place.error("must be a list of one or more texts", "texts")
    texts = [" ".join(without_obeyed(one).split()) for one in value]
    for number, text in enumerate(texts):
        if not text or len(text) > LONGEST:
            problem = f"text {number + 1} has {len(text)} characters; 1 to {LONGEST:,} are taken"
            raise place.error(f"{problem}: {shown(text)}" if text else problem, "texts")
    return texts
