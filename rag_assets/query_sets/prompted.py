"""What all query sets from a language model share: ask for each query, read, put into a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import Field

from rag_assets.errors import UsageError
from rag_assets.llm.client import Answer, ChatRequest, Completion
from rag_assets.llm.completions import Completions
from rag_assets.llm.templates import Template, packaged_template, read_template
from rag_assets.options import Number
from rag_assets.query_sets.model_output import Parsed, Rejected, Unusable
from rag_assets.query_sets.query_set import QuerySet
from rag_assets.query_sets.variants import variant_table
from rag_assets.schemas import COUNT, FLOAT, TEXT, Column, TableSchema

SAME_LANGUAGE = "the language of the question"

Count = Annotated[int, Field(ge=1, strict=True)]
Parse = Callable[[Answer, str], Parsed | Rejected]
"""(answer, text of the query) -> texts; a rejection keeps the original alone."""

ANSWERS = TableSchema(
    "query_set_answers",
    "one answer of a language model about one query",
    ("query_id", "sample"),
    (
        Column("query_id", TEXT, "the query"),
        Column("sample", COUNT, "0, 1, ... where a query is asked more than once"),
        Column("model", TEXT, "name of the model"),
        Column("template", TEXT, "name and version of the prompt"),
        Column("temperature", FLOAT, "as asked; null: the model's own", True),
        Column("seed", COUNT, "as asked; null: none", True),
        Column("max_tokens", COUNT, "most tokens of the answer"),
        Column("text", TEXT, "what the model wrote; null without an answer", True),
        Column("finish_reason", TEXT, "stop, length, refusal, ...; null without an answer", True),
        Column("prompt_tokens", COUNT, "as the server counts, null when it does not", True),
        Column("completion_tokens", COUNT, "likewise", True),
        Column("failure", TEXT, "why nothing was taken from the answer; null: it was used", True),
    ),
)


@dataclass(frozen=True)
class Sampling:
    """How answers are drawn.

    Attributes:
        temperature: 0 is the least random; None leaves it to the model's own default.
        seed: of the first sample; the next ones have the next numbers. None sends none.
        max_tokens: most tokens of an answer.
    """

    temperature: float | None = 0.0
    seed: int | None = 0
    max_tokens: int = 256


@dataclass(frozen=True)
class Strategy:
    """One way to make variants by asking.

    Attributes:
        template: the prompt.
        parse: how an answer is read.
        values: what fills the places of the prompt, besides ``query``.
        sampling: how answers are drawn.
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
            fields: table of :data:`rag_assets.evaluation.query_filters.DOCUMENT_FIELDS`; None for
                a strategy that does not read them.

        Raises:
            DataError: an option names a field that no document has.
        """
        return self.prompted()


class PromptedVariants(NamedTuple):
    """What a model made of the queries.

    Attributes:
        variants: table of :data:`rag_assets.schemas.QUERY_VARIANTS`; the original of every query.
        failures: query id -> why it has its original alone.
        rejected: queries for which what the model wrote was not taken.
        answers: table of :data:`ANSWERS`, sorted as the queries.
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
        _request(text, strategy, sample)
        for text in queries.column("text").to_pylist()
        for sample in range(strategy.samples)
    ]


def prompted_variants(
    queries: pa.Table, strategy: Strategy, completions: Completions
) -> PromptedVariants:
    """Ask about every query.

    Args:
        queries: table of :data:`rag_assets.schemas.QUERIES`.
        strategy: what to ask, and how to read the answer.
        completions: the model, the store of its replies and its budget.

    Raises:
        BudgetReached: the limits allow no more; what was answered is in the cache.
        ModelUnavailable: the endpoint refuses everything, or does not serve; likewise.
    """
    requests = requests_for(queries, strategy)
    answers = completions.answer(requests)
    texts: dict[str, list[str]] = {}
    failures: dict[str, str] = {}
    rejected: list[str] = []
    rows: list[dict[str, object]] = []
    completed: dict[str, list[Completion]] = {}
    model = dict(completions.model.identity).get("model", "")
    columns = (queries.column(name).to_pylist() for name in ("query_id", "text"))
    for number, (query_id, text) in enumerate(zip(*columns, strict=True)):
        for sample in range(strategy.samples):
            place = number * strategy.samples + sample
            parsed = strategy.parse(answers[place], text)
            failure = parsed.reason if isinstance(parsed, Unusable | Rejected) else None
            head = {"query_id": query_id, "sample": sample, "model": model, "failure": failure}
            rows.append({**head, **_row(requests[place], answers[place])})
            if isinstance(parsed, Unusable):
                failures.setdefault(query_id, parsed.reason)
            elif isinstance(parsed, Rejected):
                rejected.append(query_id)
                texts.setdefault(query_id, [])
            else:
                texts.setdefault(query_id, []).extend(parsed)
        answers_of_query = answers[number * strategy.samples : (number + 1) * strategy.samples]
        if all(isinstance(answer, Completion) for answer in answers_of_query):
            completed[query_id] = [
                answer for answer in answers_of_query if isinstance(answer, Completion)
            ]
    lost = {query_id: reason for query_id, reason in failures.items() if query_id not in texts}
    served = completions.served_models
    table = ANSWERS.from_rows(rows)
    variants = variant_table(queries, texts)
    return PromptedVariants(variants, lost, table, completed, served, rejected)


def _request(text: str, strategy: Strategy, sample: int) -> ChatRequest:
    sampling = strategy.sampling
    return ChatRequest(
        strategy.template.filled({**strategy.values, "query": text}),
        sampling.temperature,
        None if sampling.seed is None else sampling.seed + sample,
        sampling.max_tokens,
        strategy.template.label,
    )


def _row(request: ChatRequest, answer: Answer) -> dict[str, object]:
    request_fields: dict[str, object] = {
        "template": request.template,
        "temperature": request.temperature,
        "seed": request.seed,
        "max_tokens": request.max_tokens,
    }
    if not isinstance(answer, Completion):
        return request_fields
    # A table holds no time: equal answers are an equal table.
    return {
        **request_fields,
        "text": answer.text,
        "finish_reason": answer.finish_reason,
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
    }
