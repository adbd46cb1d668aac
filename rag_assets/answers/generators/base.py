"""What every generator is: options, and a function from questions with contexts to answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.llm.completions import Completions
from rag_assets.options import FileOptions


class Question(NamedTuple):
    """A question, and the texts that stand in its context, numbered from 1 in this order.

    ``n_tokens`` is how many tokens these have, by the experiment's ``context.tokenizer``.
    """

    query_id: str
    text: str
    context: tuple[str, ...] = ()
    n_tokens: int = 0


class GeneratorAnswer(NamedTuple):
    """What a generator gave for a question.

    Attributes:
        text: the answer; empty: refused; None: it failed, and ``error`` says why.
        abstained: whether it refused; None: the text tells.
        cited: numbers of units of the context; None: it cites nothing.
        spans: (number of a unit, start, end) of what was copied; None: it copies nothing.
        score: higher: rather no answer; None: not known.
        error: why there is no answer.
        prompt_tokens: as a server counts them.
        completion_tokens: likewise.
        finish_reason: how a model ended: ``stop``, ``length``, ``refusal``, ...
        served_model: the name that a server gave its model.
        unanswered: whether a server gave nothing, so that it may be asked again.
    """

    text: str | None
    abstained: bool | None = None
    cited: tuple[int, ...] | None = None
    spans: tuple[tuple[int, int, int], ...] | None = None
    score: float | None = None
    error: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    served_model: str | None = None
    unanswered: bool = False


class GeneratorAnswers(NamedTuple):
    """The answers to some questions.

    Attributes:
        answers: in the order of the questions.
        notes: lines for people about all of them.
        served_models: the names that a server gave its model, in the order of its replies.
    """

    answers: Sequence[GeneratorAnswer]
    notes: Sequence[str] = ()
    served_models: Sequence[str] = ()


@dataclass(frozen=True)
class Tools:
    """What a generator may use.

    Attributes:
        completions: opens a language model, by the number of requests and its name.
        alone: whether it answers without any context, and is to know so.
    """

    completions: Callable[[int, str | None], AbstractContextManager[Completions]]
    alone: bool = False


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

    def code_roots(self) -> list[Root]:
        """Return the roots of the code that writes its answers."""
        return [root_of(type(self))]

    @abstractmethod
    def answer(self, questions: Sequence[Question], tools: Tools) -> GeneratorAnswers:
        """Return the answer to each question, in order.

        Raises:
            DataError: its file breaks its format.
            ModelUnavailable: its model cannot be had.
        """
