"""``type: llm``: a language model reads the context and writes the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from rag_assets.answers.citations import cited_units
from rag_assets.answers.generators.base import (
    Generator,
    GeneratorAnswer,
    GeneratorAnswers,
    Question,
    Tools,
)
from rag_assets.llm.client import LENGTH, REFUSAL, Answer, ChatRequest, Failure
from rag_assets.llm.passages import passages_block
from rag_assets.llm.templates import Template, packaged_template, read_template
from rag_assets.options import Number
from rag_assets.query_sets.model_output import without_thinking

PLACES = ("question", "context")


class LlmGenerator(Generator):
    """An answer that a language model writes.

    ``llm`` names one of the experiment's ``llms``; without it, it is the experiment's ``llm``.
    ``prompt`` is a prompt file in place of ours, with places for ``question`` and ``context``. Of
    ours there is another one where there is no context: from what the model knows.
    ``window`` is how many tokens the model reads and writes in all: what is longer is sent all the
    same, and counted, since some servers cut it without a word.
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
        template = self.template(alone=alone)
        return {
            **self.model_dump(mode="json", exclude={"llm", "prompt"}),
            "template": template.label,
            "messages": [list(message) for message in template.messages],
        }

    def template(self, *, alone: bool = False) -> Template:
        """Return the prompt: ours for a context, or for none, or the file's for both.

        Raises:
            ConfigError: the file is no prompt with places for a question and a context.
        """
        if self.prompt is None and alone:
            return packaged_template("answer_alone", ["question"], ())
        if self.prompt is None:
            return packaged_template("answer", PLACES, ())
        return read_template(self.prompt, PLACES, ())

    def requests(self, questions: Sequence[Question], *, alone: bool = False) -> list[ChatRequest]:
        """Return what is asked, question by question; ``alone`` is for answers from no context."""
        template = self.template(alone=alone)
        return [
            ChatRequest(
                template.filled(
                    {"question": one.text, "context": passages_block(one.context, one.text)}
                ),
                self.temperature,
                self.seed,
                self.max_tokens,
                template.label,
            )
            for one in questions
        ]

    def answer(self, questions: Sequence[Question], tools: Tools) -> GeneratorAnswers:
        """Ask for each answer that is not stored."""
        with tools.completions(len(questions), self.llm) as completions:
            found = completions.answer(self.requests(questions, alone=tools.alone))
            served = completions.served_models
        answers = [_answer(one) for one in found]
        return GeneratorAnswers(answers, self._notes(questions), served)

    def _notes(self, questions: Sequence[Question]) -> list[str]:
        if self.window is None:
            return []
        longer = sum(one.n_tokens + self.max_tokens > self.window for one in questions)
        if not longer:
            return []
        return [
            f"{longer} of {len(questions)} contexts and their answers are longer than the model's "
            f"window of {self.window} tokens: it may have read them in part; set `budget`"
        ]


def _answer(reply: Answer) -> GeneratorAnswer:
    """Return what a reply says; one that was cut before it said anything failed."""
    if isinstance(reply, Failure):
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
    )
    if not text and reply.finish_reason == LENGTH:
        return answer._replace(text=None, error="the answer was cut at max_tokens")
    return answer
