"""``type: extractive``: a span of the context, by a model, or its best sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from rag_assets.answers.generators.base import (
    Generator,
    GeneratorAnswer,
    GeneratorAnswers,
    Question,
    Tools,
)

if TYPE_CHECKING:
    from rag_assets.answers.best_sentence import SpanAnswer


class ExtractiveGenerator(Generator):
    """An answer copied from the context.

    ``model`` is a question-answering model of transformers, a folder or a name at the hub: the
    answer is the span that it scores best. With ``refuse`` there is no answer where the model
    scores that higher, as models do that were trained on SQuAD 2.0. Without a model, the answer is
    the sentence of the context that shares most with the question.
    """

    type: Literal["extractive"]
    model: str | None = Field(default=None, min_length=1)
    refuse: bool = Field(default=False, strict=True)

    @model_validator(mode="after")
    def _only_a_model_refuses(self) -> Self:
        if self.refuse and self.model is None:
            raise ValueError("refuse: belongs to model")
        return self

    def described(self, *, alone: bool = False) -> Mapping[str, Any]:
        """Return what determines the answers: the model by its files.

        Raises:
            ModelUnavailable: the model's files cannot be had.
        """
        if self.model is None:
            return {"type": self.type}
        from rag_assets.answers.span_model import SpanModel

        identity = dict(SpanModel(self.model).identity)
        return {"type": self.type, "refuse": self.refuse, "model": identity}

    def answer(self, questions: Sequence[Question], tools: Tools) -> GeneratorAnswers:
        """Copy the best span, or the best sentence where there is no model."""
        if self.model is None:
            from rag_assets.answers.best_sentence import best_sentence

            found = [best_sentence(one.text, one.context) for one in questions]
            return GeneratorAnswers([_answer(one) for one in found])
        from rag_assets.answers.span_model import SpanModel

        model = SpanModel(self.model)
        answers = []
        for question in questions:
            span, null_score = model.answer(question.text, question.context)
            margin = null_score - span.score
            is_refused = self.refuse and margin > 0
            answer = GeneratorAnswer("", spans=()) if is_refused else _answer(span)
            answers.append(answer._replace(score=margin))
        return GeneratorAnswers(answers)


def _answer(span: SpanAnswer) -> GeneratorAnswer:
    if span.passage < 0:
        return GeneratorAnswer("", spans=())
    return GeneratorAnswer(span.text, spans=((span.passage + 1, span.start, span.end),))
