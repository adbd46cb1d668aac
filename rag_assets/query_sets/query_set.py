"""What a strategy for query sets is: its options, and how they become variants of the queries.

A strategy is a class in one file: a :class:`ComputedQuerySet`, or a :class:`PromptedQuerySet` whose
variants a language model writes. One of ours has a line in ``QUERY_SET_TYPES`` below, one of
another package an entry point of the group ``rag_assets.query_sets``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import Field

from rag_assets.errors import UsageError
from rag_assets.llm.client import Answer
from rag_assets.llm.templates import Template, packaged_template, read_template
from rag_assets.options import FileOptions, Number
from rag_assets.plugins import Kind, members
from rag_assets.query_sets.model_output import Parsed, Rejected

SAME_LANGUAGE = "the language of the question"

Count = Annotated[int, Field(ge=1, strict=True)]
Parse = Callable[[Answer, str], Parsed | Rejected]
"""(answer, text of the query) -> texts; a rejection keeps the original alone."""


class QuerySet(FileOptions):
    """Options of one query set."""

    strategy: str

    def described(self) -> Mapping[str, Any]:
        """Return the options that determine the variants, without names of files."""
        return self.model_dump(mode="json", exclude=set(self.file_options))


class Variants(NamedTuple):
    """What a strategy made of the queries.

    Attributes:
        table: ``QUERY_VARIANTS``, as :func:`rag_assets.query_sets.variants.variant_table` makes it.
        notes: one line for each thing worth telling people.
    """

    table: pa.Table
    notes: Sequence[str] = ()


class ComputedQuerySet(QuerySet, ABC):
    """Variants that are computed or read, without a language model."""

    @abstractmethod
    def variants(self, queries: pa.Table) -> Variants:
        """Return the variants; equal queries and files give equal ones.

        Raises:
            DataError: a file cannot be read, or does not fit the queries.
        """

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the libraries that determine the variants."""
        return {}


@dataclass(frozen=True)
class Sampling:
    """How answers are drawn; ``seed`` is that of the first sample, the next have the next numbers.

    None leaves the temperature to the model's own default, and sends no seed.
    """

    temperature: float | None = 0.0
    seed: int | None = 0
    max_tokens: int = 256


@dataclass(frozen=True)
class Strategy:
    """One way to make variants by asking: a prompt, and how its answers are read.

    Attributes:
        values: what fills the places of the prompt, besides ``query``.
        samples: how often each query is asked.
    """

    template: Template
    parse: Parse
    values: Mapping[str, object] = field(default_factory=dict)
    sampling: Sampling = field(default_factory=Sampling)
    samples: int = 1

    def __post_init__(self) -> None:
        """Raise UsageError for samples that would all be the same."""
        if self.samples < 1:
            raise UsageError(f"samples is {self.samples}; it must be 1 or more")
        if self.samples > 1 and (self.sampling.temperature == 0 or self.sampling.seed is None):
            raise UsageError(
                f"{self.samples} samples need a temperature above 0 and a seed, or they are equal"
            )


class PromptedQuerySet(QuerySet, ABC):
    """Variants that a language model writes.

    ``llm`` names one of the experiment's ``llms``; without it, it is the experiment's ``llm``.
    ``language`` is said to the model as it stands; ``template`` is a prompt file in place of ours.
    """

    file_options: ClassVar[tuple[str, ...]] = ("template",)
    reads_list: ClassVar[bool] = False
    """Whether the answer is a list of texts, so that a model may write several."""
    reads_fields: ClassVar[bool] = False
    """Whether the prompt names the fields of the documents; see :meth:`prompted_for`."""

    llm: str | None = None
    language: str = SAME_LANGUAGE
    template: Path | None = None
    temperature: Annotated[Number, Field(ge=0)] | None = 0.0
    seed: Annotated[int, Field(ge=0, strict=True)] | None = 0
    max_tokens: Count = 256

    def described(self) -> Mapping[str, Any]:
        """Return the options that determine the variants: not the name of the model."""
        return self.model_dump(mode="json", exclude={*self.file_options, "llm"})

    def asking(
        self,
        parse: Parse,
        values: Mapping[str, object] | None = None,
        *,
        needed: Sequence[str] = ("query",),
        samples: int = 1,
    ) -> Strategy:
        """Return the strategy of the prompt in ``template``, or of the one named as this type.

        Args:
            parse: how an answer is read.
            values: what fills places of the prompt, besides ``query`` and ``language``.
            needed: the places that the prompt must have.
            samples: how often each query is asked; more than once needs a temperature above 0.

        Raises:
            ConfigError: the file is no prompt, lacks a place that is needed, or has one that
                nothing fills.
            UsageError: the samples would all be equal.
        """
        filled = {"language": self.language, **(values or {})}
        if self.template is None:
            prompt = packaged_template(self.strategy, needed, filled)
        else:
            prompt = read_template(self.template, needed, filled)
        sampling = Sampling(self.temperature, self.seed, self.max_tokens)
        return Strategy(prompt, parse, filled, sampling, samples)

    @abstractmethod
    def prompted(self) -> Strategy:
        """Return what is asked, and how the answers are read.

        Raises:
            ConfigError: the template is not one.
            UsageError: the samples would all be equal.
        """

    def prompted_for(self, fields: pa.Table | None) -> Strategy:
        """Return what is asked about documents with these fields.

        Args:
            fields: ``DOCUMENT_FIELDS``; None for a strategy that does not read them.

        Raises:
            DataError: an option names a field that no document has.
        """
        return self.prompted()


BASES: tuple[type[QuerySet], ...] = (ComputedQuerySet, PromptedQuerySet)

KIND = Kind("strategy", "rag_assets.query_sets", BASES, "strategy")

_PLACES = {
    "file": "file:FileQuerySet",
    "rewrite": "rewriting:RewriteQuerySet",
    "multi_query": "rewriting:MultiQuerySet",
    "hyde": "rewriting:HydeQuerySet",
    "decompose": "rewriting:DecomposeQuerySet",
    "step_back": "rewriting:StepBackQuerySet",
    "self_query": "self_query:SelfQuerySet",
}
"""``strategy`` -> module of this package, and class, in the order in which people see them."""

QUERY_SET_TYPES = members(KIND, {name: f"{__package__}.{place}" for name, place in _PLACES.items()})
"""Every ``strategy``."""
