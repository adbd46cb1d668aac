"""What a strategy for query sets is: its options, and how they become variants of the queries.

A strategy is a class: a :class:`ComputedQuerySet`, or a :class:`PromptedQuerySet` whose
variants a language model writes. One of ours has a line in ``QUERY_SET_TYPES`` below, one of
another package an entry point of the group ``rag_assets.query_sets``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import Field

from rag_assets.errors import UsageError
from rag_assets.llm.client import Answer, ChatRequest, Completion, Template, packaged_template
from rag_assets.llm.completions import Completions
from rag_assets.options import FileOptions, Number
from rag_assets.plugins import Kind, members
from rag_assets.query_sets.model_output import Parsed, Rejected, Unusable
from rag_assets.query_sets.variants import variant_table
from rag_assets.schemas import COUNT, FLOAT, TEXT, Column, TableSchema, column_values

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
class Strategy:
    """One way to make variants by asking: a prompt, and how its answers are drawn and read.

    Attributes:
        values: what fills the places of the prompt, besides ``query``.
        temperature: None: the model's own default.
        seed: of the first sample, the next have the next numbers; None: none is sent.
        samples: how often each query is asked.
    """

    template: Template
    parse: Parse
    values: Mapping[str, object]
    temperature: float | None = 0.0
    seed: int | None = 0
    max_tokens: int = 256
    samples: int = 1


class PromptedQuerySet(QuerySet, ABC):
    """Variants that a language model writes.

    ``llm`` names one of the experiment's ``llms`` (default: its ``llm``).
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
        if samples > 1 and (self.temperature == 0 or self.seed is None):
            raise UsageError(
                f"{samples} samples need a temperature above 0 and a seed, or they are equal"
            )
        filled = {"language": self.language, **(values or {})}
        prompt = packaged_template(self.strategy, needed, filled, self.template)
        drawn = self.temperature, self.seed, self.max_tokens
        return Strategy(prompt, parse, filled, *drawn, samples)

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


ANSWERS = TableSchema(
    "query_set_answers",
    "one answer of a language model about one query",
    ("query_id", "sample"),
    query_id=Column(TEXT, "the query"),
    sample=Column(COUNT, "0, 1, ... where a query is asked more than once"),
    model=Column(TEXT, "name of the model"),
    template=Column(TEXT, "name and version of the prompt"),
    temperature=Column(FLOAT, "as requested; null: the model's own", True),
    seed=Column(COUNT, "as requested; null: none", True),
    max_tokens=Column(COUNT, "most tokens of the answer"),
    text=Column(TEXT, "what the model wrote; null without an answer", True),
    finish_reason=Column(TEXT, "stop, length, refusal, ...; null without an answer", True),
    prompt_tokens=Column(COUNT, "as counted by the server; null: not counted", True),
    completion_tokens=Column(COUNT, "likewise", True),
    failure=Column(TEXT, "why nothing was taken from the answer; null: it was used", True),
)


class PromptedVariants(NamedTuple):
    """What a model made of the queries.

    Attributes:
        variants: ``QUERY_VARIANTS``; the original of every query too.
        failures: query id -> why it has its original alone.
        rejected: queries for which what the model wrote was not taken.
        answers: ``ANSWERS``, sorted as the queries.
        completions: query id -> its answers; without queries that got none to one of its requests.
        served_models: the names that the server gave the model, by the first reply that is stored.
    """

    variants: pa.Table
    failures: dict[str, str]
    answers: pa.Table
    completions: Mapping[str, Sequence[Completion]] = {}
    served_models: Sequence[str] = ()
    rejected: Sequence[str] = ()


def requests_for(queries: pa.Table, strategy: Strategy) -> list[ChatRequest]:
    """Return what would be asked, query by query: for an estimate."""
    return [
        ChatRequest(
            strategy.template.filled({**strategy.values, "query": text}),
            strategy.temperature,
            None if strategy.seed is None else strategy.seed + sample,
            strategy.max_tokens,
            strategy.template.label,
        )
        for text in queries.column("text").to_pylist()
        for sample in range(strategy.samples)
    ]


def prompted_variants(
    queries: pa.Table, strategy: Strategy, completions: Completions
) -> PromptedVariants:
    """Ask about every query."""
    requests = requests_for(queries, strategy)
    answers = completions.answer(requests)
    pairs = iter(zip(requests, answers, strict=True))
    texts: dict[str, list[str]] = {}
    failures: dict[str, str] = {}
    rejected: list[str] = []
    rows: list[dict[str, object]] = []
    completed: dict[str, list[Completion]] = {}
    model = dict(completions.model.identity).get("model", "")
    for query_id, text in column_values(queries, "query_id", "text"):
        of_query = list(islice(pairs, strategy.samples))
        for sample, (request, answer) in enumerate(of_query):
            parsed = strategy.parse(answer, text)
            failure = parsed.reason if isinstance(parsed, Unusable | Rejected) else None
            head = {"query_id": query_id, "sample": sample, "model": model, "failure": failure}
            rows.append({**head, **_row(request, answer)})
            if isinstance(parsed, Unusable):
                failures.setdefault(query_id, parsed.reason)
                continue
            rejected += [query_id] if isinstance(parsed, Rejected) else []
            more = [] if isinstance(parsed, Rejected) else parsed
            texts.setdefault(query_id, []).extend(more)
        replies = [answer for _, answer in of_query if isinstance(answer, Completion)]
        if len(replies) == strategy.samples:
            completed[query_id] = replies
    lost = {query_id: reason for query_id, reason in failures.items() if query_id not in texts}
    table, served = ANSWERS.from_rows(rows), completions.served_models
    return PromptedVariants(variant_table(queries, texts), lost, table, completed, served, rejected)


def _row(request: ChatRequest, answer: Answer) -> dict[str, object]:
    sent = ("template", "temperature", "seed", "max_tokens")
    # A table holds no time: equal answers are an equal table.
    replied = ("text", "finish_reason", "prompt_tokens", "completion_tokens")
    row: dict[str, object] = {name: getattr(request, name) for name in sent}
    has_reply = isinstance(answer, Completion)
    return row | {name: getattr(answer, name) for name in replied} if has_reply else row


BASES: tuple[type[QuerySet], ...] = (ComputedQuerySet, PromptedQuerySet)

KIND = Kind("strategy", "rag_assets.query_sets", BASES, "strategy")

PERTURB = "perturb"
"""The strategy whose texts nobody asked so: what searches them takes no place."""

_PLACES = {
    "file": "strategies:FileQuerySet",
    "rewrite": "strategies:RewriteQuerySet",
    "multi_query": "strategies:MultiQuerySet",
    "hyde": "strategies:HydeQuerySet",
    "self_query": "strategies:SelfQuerySet",
    PERTURB: "perturb:PerturbQuerySet",
}
"""``strategy`` -> module of this package, and class, in the order in which people see them."""

QUERY_SET_TYPES = members(KIND, {name: f"{__package__}.{place}" for name, place in _PLACES.items()})
"""Every ``strategy``."""
