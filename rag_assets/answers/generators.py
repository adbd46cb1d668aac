"""``generators`` in an ``experiment.yaml``: what writes an answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from rag_assets.answers.answer_text import cited_units
from rag_assets.answers.extractive import NO_ANSWER, SpanAnswer, SpanModel, best_sentence
from rag_assets.answers.predictions import read_predictions
from rag_assets.llm.client import (
    LENGTH,
    REFUSAL,
    Answer,
    ChatRequest,
    Failed,
    Template,
    packaged_template,
    passages_block,
)
from rag_assets.llm.completions import ModelSession
from rag_assets.options import FileOptions, Number
from rag_assets.query_sets.model_output import without_thinking

PLACES = ("question", "context")
"""What a prompt must have a place for."""


class Question(NamedTuple):
    """A question, and the texts that stand in its context, numbered from 1 in this order.

    ``context`` is None where the question is to be answered without one, from what is known;
    ``n_tokens`` is how many tokens the texts have, by the experiment's ``context.tokenizer``.
    """

    query_id: str
    text: str
    context: tuple[str, ...] | None = ()
    n_tokens: int = 0


class GeneratorAnswer(NamedTuple):
    """What a generator gave for a question; other fields are those of ``schemas.ANSWERS``.

    Attributes:
        text: the answer; empty: refused; None: it failed, and ``error`` says why.
        abstained: whether it refused; None: the text tells.
        cited: numbers of units of the context; None: it cites nothing.
        spans: (number of a unit, start, end) of what was copied; None: it copies nothing.
        unanswered: whether a server gave nothing, so that it may be asked again.
        n_contexts: how many units it read that it retrieved by itself; None: it was given them.
    """

    text: str | None
    abstained: bool | None = None
    cited: Sequence[int] | None = None
    spans: tuple[tuple[int, int, int], ...] | None = None
    score: float | None = None
    error: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    served_model: str | None = None
    unanswered: bool = False
    n_contexts: int | None = None
    seconds: float | None = None
    cost: float | None = None


class Generator(FileOptions):
    """Options of one generator.

    Attributes:
        reads_context: whether its answers depend on the context, or on the question alone.
    """

    reads_context: ClassVar[bool] = True

    type: str

    def described(self, *, alone: bool = False) -> Mapping[str, Any]:
        """Return what of the options determines the answers, besides files and the model.

        Args:
            alone: whether it answers without any context.
        """
        return self.model_dump(mode="json", exclude=set(self.file_options))

    @abstractmethod
    def answers(
        self, questions: Sequence[Question], session: ModelSession
    ) -> Iterable[GeneratorAnswer]:
        """Return the answer to each question, in order.

        Raises:
            DataError: its file breaks its format.
            ModelUnavailable: its model cannot be had.
        """


class LlmGenerator(Generator):
    """An answer that a language model writes.

    ``llm`` names one of the experiment's ``llms`` (default: its ``llm``).
    ``prompt`` is a prompt file that replaces ours, with places for ``question`` and
    ``context``. Without a context, ours asks for an answer from what the model knows.
    ``window`` is the number of tokens that the model reads and writes in all. Longer requests are
    still sent, and are counted, because some servers cut them silently.
    """

    file_options: ClassVar[tuple[str, ...]] = ("prompt",)

    type: Literal["llm"]
    llm: str | None = None
    prompt: Path | None = None
    temperature: Annotated[Number, Field(ge=0)] | None = 0.0
    seed: Annotated[int, Field(ge=0, strict=True)] | None = 0
    max_tokens: Annotated[int, Field(ge=1, strict=True)] = 128
    window: Annotated[int, Field(ge=1, strict=True)] | None = None

    def described(self, *, alone: bool = False) -> Mapping[str, Any]:
        """Return the options and the prompt; which model it is says its identity."""
        options = self.model_dump(mode="json", exclude={"llm", "prompt"})
        return {**options, **self.template(alone=alone).as_config()}

    def template(self, *, alone: bool = False) -> Template:
        """Return the prompt: ours for a context, or for none, or the file's for both."""
        if alone and self.prompt is None:
            return packaged_template("answer_alone", ["question"], ())
        return packaged_template("answer", PLACES, (), self.prompt)

    def requests(self, questions: Sequence[Question]) -> list[ChatRequest]:
        """Return what is asked, question by question."""
        template = self.template(alone=any(question.context is None for question in questions))
        options = (self.temperature, self.seed, self.max_tokens, template.label)
        values = (
            {"question": q.text, "context": passages_block(q.context or (), q.text)}
            for q in questions
        )
        return [ChatRequest(template.filled(each), *options) for each in values]

    def answers(
        self, questions: Sequence[Question], session: ModelSession
    ) -> Iterable[GeneratorAnswer]:
        """Ask for each answer that is not stored."""
        with session.completions(len(questions), self.llm) as completions:
            replies = completions.answer(self.requests(questions))
            session.served_models.extend(completions.served_models)
        longer = sum(q.n_tokens + self.max_tokens > (self.window or inf) for q in questions)
        if longer:
            session.notes.append(
                f"{longer} of {len(questions)} contexts and their answers are longer than the "
                f"model's window of {self.window} tokens: it may have read only a "
                "part; set `budget`"
            )
        return map(_replied, replies)


def _replied(reply: Answer) -> GeneratorAnswer:
    """Return what a reply says; one that was cut before it said anything failed."""
    if isinstance(reply, Failed):
        return GeneratorAnswer(None, error=reply.reason, unanswered=True)
    text = without_thinking(reply.text)
    answer = GeneratorAnswer(
        text,
        abstained=True if reply.finish_reason == REFUSAL else None,
        cited=tuple(cited_units(text)) or None,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        finish_reason=reply.finish_reason,
        served_model=reply.served_model,
        seconds=reply.seconds,
    )
    if not text and reply.finish_reason == LENGTH:
        return answer._replace(text=None, error="the answer was cut at max_tokens")
    return answer


class ExtractiveGenerator(Generator):
    """An answer copied from the context.

    ``model`` is a question-answering model of transformers, a folder or a name at the hub: the
    answer is the span that it scores best. With ``refuse``, there is no answer if the model
    scores "no answer" higher, as models trained on SQuAD 2.0 do. Without a model, the answer is
    the sentence of the context that shares the most words with the question.
    """

    type: Literal["extractive"]
    model: str | None = Field(default=None, min_length=1)
    refuse: bool = Field(default=False, strict=True)

    @model_validator(mode="after")
    def _only_a_model_refuses(self) -> Self:
        if self.refuse and self.model is None:
            raise ValueError("refuse: needs model")
        return self

    def described(self, *, alone: bool = False) -> Mapping[str, Any]:
        """Return what determines the answers: the model by its files.

        Raises:
            ModelUnavailable: the model's files cannot be had.
        """
        if self.model is None:
            return {"type": self.type}
        identity = dict(SpanModel(self.model).identity)
        return {"type": self.type, "refuse": self.refuse, "model": identity}

    def answers(
        self, questions: Sequence[Question], session: ModelSession
    ) -> Iterator[GeneratorAnswer]:
        """Copy the best span, or the best sentence where there is no model."""
        model = SpanModel(self.model) if self.model is not None else None
        for question in questions:
            context = question.context or ()
            if model is None:
                yield _copied(best_sentence(question.text, context))
                continue
            span, null_score = model.answer(question.text, context)
            margin = null_score - span.score
            is_refused = self.refuse and margin > 0
            yield _copied(NO_ANSWER if is_refused else span)._replace(score=margin)


def _copied(span: SpanAnswer) -> GeneratorAnswer:
    if span.passage < 0:
        return GeneratorAnswer("", spans=())
    return GeneratorAnswer(span.text, spans=((span.passage + 1, span.start, span.end),))


class FileGenerator(Generator):
    """Answers from elsewhere, read from ``path`` (relative to the YAML file).

    The file is JSON like SQuAD's predictions, ``{id: answer}``, or JSON lines (``.jsonl``)
    with ``query_id``, ``answer`` and, if known, ``cited``, ``na_prob``, ``abstained`` or ``error``.
    A question without an answer in the file counts as failed.
    """

    reads_context: ClassVar[bool] = False
    file_options: ClassVar[tuple[str, ...]] = ("path",)

    type: Literal["file"]
    path: Path

    def answers(
        self, questions: Sequence[Question], session: ModelSession
    ) -> Iterator[GeneratorAnswer]:
        """Read the file."""
        rows, notes = read_predictions(self.path, [question.query_id for question in questions])
        session.notes.extend(notes)
        for row in rows.values():
            yield GeneratorAnswer(row.pop("answer", None), **row)
