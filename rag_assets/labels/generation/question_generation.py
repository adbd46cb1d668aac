"""Questions from chunks: asked for, filtered, each with the chunk's span as its evidence."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa

from rag_assets.errors import UsageError
from rag_assets.labels.generation.question_filters import (
    NEAR_DUPLICATE,
    Filters,
    fault,
    near_earlier,
    question_words,
)
from rag_assets.llm.client import Answer, ChatRequest, Failure
from rag_assets.llm.completions import Completions
from rag_assets.llm.templates import Template, packaged_template, read_template
from rag_assets.query_sets.model_output import Unusable, parsed_list, usable_text
from rag_assets.query_sets.query_set import Sampling
from rag_assets.schemas import COUNT, TEXT, Column, TableSchema

TEMPLATE = "questions"
SAME_LANGUAGE = "the language of the text"
_PLACES = ("n", "language", "title")

_MADE_FROM = (
    Column("text", TEXT, "the question"),
    Column("answer", TEXT, "the model's own answer, null when it gave none", True),
    Column("chunk_id", TEXT, "the chunk that it was made from"),
    Column("document_id", TEXT, "the document of the chunk"),
    Column("start", COUNT, "first character of the chunk in the document's text"),
    Column("end", COUNT, "character after its last one"),
    Column("source", TEXT, "model and prompt that it is from, as my-model questions/1"),
)

QUESTIONS = TableSchema(
    "generated_questions",
    "one question that was kept",
    ("query_id",),
    (Column("query_id", TEXT, "id, made of the question and its chunk"), *_MADE_FROM),
)

DROPPED = TableSchema(
    "dropped_questions",
    "one question that was not kept",
    ("chunk_id", "text", "reason"),
    (Column("reason", TEXT, "the filter that dropped it"), *_MADE_FROM),
)
Spread = Literal["document", "heading"]
_GROUPS = {"document": ("document_id",), "heading": ("document_id", "heading_path")}

_OBJECT = re.compile(r"\{[^{}]*\}", re.DOTALL)
_KEYS = ("question", "query")


@dataclass(frozen=True)
class Generator:
    """How questions are asked for and which are kept.

    Attributes:
        template: the prompt, with ``{text}`` and if wanted ``{n}``, ``{language}``, ``{title}``.
        n: questions a chunk.
        language: of the questions, as the prompt says it.
        sampling: how answers are drawn.
        filters: what is kept.
    """

    template: Template
    n: int = 2
    language: str = SAME_LANGUAGE
    sampling: Sampling = field(default_factory=lambda: Sampling(max_tokens=512))
    filters: Filters = field(default_factory=Filters)

    def __post_init__(self) -> None:
        """Raise UsageError for fewer than one question a chunk."""
        if self.n < 1:
            raise UsageError(f"questions per chunk: {self.n}; it must be 1 or more")


class GeneratedQuestions(NamedTuple):
    """What a model made of the chunks.

    Attributes:
        questions: table of :data:`QUESTIONS`, in the order of the chunks.
        dropped: table of :data:`DROPPED`, likewise.
        failures: chunk id -> why there is no question of it.
        counts: reason -> how many questions were dropped.
        n_unanswered: chunks of which the model said nothing, not even that it refuses.
    """

    questions: pa.Table
    dropped: pa.Table
    failures: dict[str, str]
    counts: Mapping[str, int]
    n_unanswered: int = 0


def question_template(path: Path | None = None) -> Template:
    """Return the packaged prompt, or the one in ``path``.

    Raises:
        ConfigError: the file is no prompt with a place for ``text``.
    """
    if path is None:
        return packaged_template(TEMPLATE, ["text"], _PLACES)
    return read_template(path, ["text"], _PLACES)


def chunks_to_ask(
    chunks: pa.Table, limit: int | None = None, seed: int = 0, spread: Spread | None = None
) -> pa.Table:
    """Return the chunks that hold text; at most ``limit``, drawn by ``seed``, in their order.

    The draw goes by the ids' hashes, so a chunk more or less changes at most one of those drawn.

    Args:
        chunks: table of :data:`rag_assets.schemas.CHUNKS`.
        limit: None takes all.
        seed: another number draws others.
        spread: over what they are spread: every document, or every heading of a document, has one
            chunk drawn before any has two, and so on; which come first is said by their hashes.
    """
    texts = chunks.column("text").to_pylist()
    filled = [row for row, text in enumerate(texts) if text.strip()]
    if limit is not None and limit < len(filled):
        filled = sorted(_drawn(chunks, filled, seed, spread)[:limit])
    return chunks.take(pa.array(filled, pa.int64()))


def _drawn(
    chunks: pa.Table, rows: Sequence[int], seed: int, spread: Spread | None
) -> Sequence[int]:
    """Return rows in the order in which they are drawn."""
    ids = chunks.column("chunk_id").to_pylist()
    by_hash = sorted(rows, key=lambda row: _digest(str(seed), ids[row]))
    if spread is None:
        return by_hash
    columns = [chunks.column(name).to_pylist() for name in _GROUPS[spread]]
    n_before: Counter[tuple[str, ...]] = Counter()
    places: dict[int, tuple[int, str]] = {}
    for row in by_hash:
        group = tuple(column[row] for column in columns)
        places[row] = n_before[group], _digest(str(seed), *group)
        n_before[group] += 1
    return sorted(by_hash, key=lambda row: places[row])


def question_requests(chunks: pa.Table, generator: Generator) -> list[ChatRequest]:
    """Return what would be asked, one request a chunk: for an estimate."""
    columns = (chunks.column(name).to_pylist() for name in ("title", "text"))
    sampling = generator.sampling
    values = {"n": generator.n, "language": generator.language}
    return [
        ChatRequest(
            generator.template.filled({**values, "title": title, "text": text}),
            sampling.temperature,
            sampling.seed,
            sampling.max_tokens,
            generator.template.label,
        )
        for title, text in zip(*columns, strict=True)
    ]


def generate_questions(
    chunks: pa.Table, generator: Generator, completions: Completions
) -> GeneratedQuestions:
    """Ask for questions about every chunk and drop those that are no use.

    Args:
        chunks: table of :data:`rag_assets.schemas.CHUNKS`; see :func:`chunks_to_ask`.
        generator: how to ask, and what to keep.
        completions: the model, the store of its replies and its budget.

    Raises:
        BudgetReached: the limits allow no more; what was answered is in the cache.
        ModelUnavailable: the endpoint refuses everything, or does not serve; likewise.
    """
    answers = completions.answer(question_requests(chunks, generator))
    source = _source(completions, generator)
    failures: dict[str, str] = {}
    accepted: list[dict[str, object]] = []
    dropped: list[dict[str, object]] = []
    for chunk, answer in zip(_rows(chunks), answers, strict=True):
        questions = parsed_questions(answer, generator.n)
        if isinstance(questions, Unusable):
            failures[str(chunk["chunk_id"])] = questions.reason
            continue
        words = question_words(str(chunk.pop("of")))
        for question in questions:
            reason = fault(question.text, question.answer, words, generator.filters)
            row = {**_row(question, chunk), "source": source}
            (dropped if reason else accepted).append({**row, "reason": reason})
    accepted, alike = _without_near_duplicates(accepted, generator.filters.near_duplicate)
    dropped += alike
    rows = [{name: row[name] for name in QUESTIONS.arrow().names} for row in accepted]
    losses = [{name: row[name] for name in DROPPED.arrow().names} for row in dropped]
    counts = Counter(str(row["reason"]) for row in dropped)
    n_unanswered = sum(isinstance(answer, Failure) for answer in answers)
    return GeneratedQuestions(
        QUESTIONS.from_rows(rows), DROPPED.from_rows(losses), failures, counts, n_unanswered
    )


def _source(completions: Completions, generator: Generator) -> str:
    model = dict(completions.model.identity).get("model", "")
    return f"{model} {generator.template.label}".strip()


def _without_near_duplicates(
    rows: list[dict[str, object]], threshold: float
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    words = [frozenset(question_words(str(row["text"]))) for row in rows]
    like = near_earlier(words, threshold)
    different = [row for number, row in enumerate(rows) if number not in like]
    return different, [{**rows[number], "reason": NEAR_DUPLICATE} for number in like]


def _rows(chunks: pa.Table) -> list[dict[str, object]]:
    """Return where each chunk is, and its text as ``of``."""
    place = chunks.select(["chunk_id", "document_id", "start", "end", "text"])
    return list(place.rename_columns(["chunk_id", "document_id", "start", "end", "of"]).to_pylist())


def _row(question: Question, chunk: dict[str, object]) -> dict[str, object]:
    query_id = f"gen-{_digest(question.text, str(chunk['chunk_id']))[:16]}"
    return {"query_id": query_id, **chunk, **question._asdict()}


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class Question(NamedTuple):
    """A question and, where the model gave one, its answer."""

    text: str
    answer: str | None


def parsed_questions(answer: Answer, at_most: int) -> list[Question] | Unusable:
    """Return the questions of an answer: JSON objects, also one a line, or any list of texts.

    Objects are read one by one, so a broken or half one costs only itself.
    """
    text = usable_text(answer)
    if isinstance(text, Unusable):
        return text
    questions = [question for part in _OBJECT.findall(text) if (question := _question(part))]
    if not questions and "{" not in text:
        listed = parsed_list(answer, "", at_most)
        if isinstance(listed, Unusable):
            return listed
        questions = [Question(item, None) for item in listed]
    return questions[:at_most] or Unusable("the answer holds no question")


def _question(part: str) -> Question | None:
    try:
        value = json.loads(part, strict=False)
    except ValueError:
        return None
    question = next((value[key] for key in _KEYS if isinstance(value.get(key), str)), "")
    text = " ".join(question.split())
    answer = value.get("answer")
    plain = " ".join(answer.split()) if isinstance(answer, str) else ""
    return Question(text, plain or None) if text else None
