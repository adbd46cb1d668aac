"""``answers`` in an ``experiment.yaml``: which generator answers, and from which context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from rag_assets.answers.generators import (
    ExtractiveGenerator,
    FileGenerator,
    Generator,
    LlmGenerator,
)
from rag_assets.answers.metrics import METRICS
from rag_assets.answers.own_generators import HttpGenerator, PythonGenerator
from rag_assets.errors import allowed_names
from rag_assets.options import Depth, KeyProblem, Number, Options

GOLD, NONE, RANDOM = "gold", "none", "random"
"""Contexts that no retriever ranks."""

NO_CUTOFF = "-"
"""Stands for the cut-off in the key of an answerer that has none."""


class AnswererOptions(Options):
    """An answerer: a generator, and the context that it answers from.

    The context is what ``retriever`` returns at each of ``top_k``, a part of the experiment's list
    (all of it if absent). ``context`` takes its place: ``gold``, all units of ``chunking`` that
    hold evidence, in document order; ``none``; or ``random``, as many units as ``retriever``
    returns, drawn with ``seed`` from all that it can return. ``order`` is the order of the units
    in the context: the best first, last, or (``edges``) the best first, the second last, and so on
    towards the middle. ``budget`` is the most tokens of a context, by the experiment's
    ``context.tokenizer``: units count in the order of their ranks, and the first that does not fit
    ends it.
    """

    generator: str
    retriever: str | None = None
    context: Literal["gold", "none", "random"] | None = None
    chunking: str | None = None
    top_k: Annotated[tuple[Depth, ...], Field(min_length=1)] | None = None
    order: Literal["rank", "reversed", "edges"] = "rank"
    budget: Annotated[int, Field(ge=1, strict=True)] | None = None
    seed: Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)] = 0

    @property
    def has_context(self) -> bool:
        """Whether it is known what it reads: not of answers in a file alone."""
        return self.retriever is not None or self.context is not None

    @model_validator(mode="after")
    def _context_is_clear(self) -> Self:
        if self.context == RANDOM and self.retriever is None:
            problem = "random draws as many units as a retriever returns; add the key `retriever`"
            raise KeyProblem(("context",), problem)
        if self.context in (GOLD, NONE) and self.retriever is not None:
            problem = f"give retriever, or context: {self.context}, not both"
            raise KeyProblem(("context",), problem)
        return self

    @model_validator(mode="after")
    def _nothing_is_ignored(self) -> Self:
        has_retriever, is_gold = self.retriever is not None, self.context == GOLD
        rules = {
            "order": (has_retriever and self.context is None, "needs a retriever"),
            "top_k": (has_retriever, "needs a retriever"),
            "budget": (has_retriever or is_gold, "needs a context with units"),
            "chunking": (is_gold, "is only for context: gold"),
            "seed": (self.context == RANDOM, "is only for context: random"),
        }
        for key, (belongs, why) in rules.items():
            if key in self.model_fields_set and not belongs:
                source = self.context or "no retriever"
                raise KeyProblem((key,), f"{why}; this answerer has {source}")
        return self


class AnswerMetricsOptions(Options):
    """How answers are measured.

    ``metrics`` are the ones to compute (default: all that the labels allow). ``language`` sets
    how texts become words: ``cjk`` takes characters. An answer counts as right when it equals a
    right one, or when its F1 is above ``right``.
    """

    metrics: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    language: Literal["standard", "cjk"] = "standard"
    right: Annotated[Number, Field(ge=0, lt=1)] = 0.5

    @model_validator(mode="after")
    def _metrics_exist(self) -> Self:
        for number, name in enumerate(self.metrics or ()):
            if name not in METRICS:
                problem = f"unknown metric of answers {allowed_names(name, METRICS)}"
                raise KeyProblem(("metrics", number), problem)
        return self


class AnswerCell(NamedTuple):
    """An answerer at one cut-off; None where it has none."""

    name: str
    top_k: int | None

    @property
    def key(self) -> str:
        """Its partition: ``plain@5``, or ``perfect@-``."""
        return f"{self.name}@{NO_CUTOFF if self.top_k is None else self.top_k}"


def answer_cells(answerers: Mapping[str, AnswererOptions]) -> dict[str, AnswerCell]:
    """Return partition key -> answerer and cut-off, in the order of the experiment."""
    cells = [
        AnswerCell(name, top_k)
        for name, options in answerers.items()
        for top_k in (options.top_k or (None,))
    ]
    return {cell.key: cell for cell in cells}


GENERATOR_TYPES: dict[str, type[Generator]] = {
    "llm": LlmGenerator,
    "extractive": ExtractiveGenerator,
    "file": FileGenerator,
    "python": PythonGenerator,
    "http": HttpGenerator,
}
"""All types of generators, by their names."""
