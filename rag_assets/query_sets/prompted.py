"""Variants of queries from a language model: ask for each query, read, put into a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from rag_assets.llm.client import Answer, ChatRequest, Completion
from rag_assets.llm.completions import Completions
from rag_assets.query_sets.model_output import Rejected, Unusable
from rag_assets.query_sets.query_set import Strategy
from rag_assets.query_sets.variants import variant_table
from rag_assets.schemas import COUNT, FLOAT, TEXT, Column, TableSchema

ANSWERS = TableSchema(
    "query_set_answers",
    "one answer of a language model about one query",
    ("query_id", "sample"),
    query_id=Column(TEXT, "the query"),
    sample=Column(COUNT, "0, 1, ... where a query is asked more than once"),
    model=Column(TEXT, "name of the model"),
    template=Column(TEXT, "name and version of the prompt"),
    temperature=Column(FLOAT, "as asked; null: the model's own", True),
    seed=Column(COUNT, "as asked; null: none", True),
    max_tokens=Column(COUNT, "most tokens of the answer"),
    text=Column(TEXT, "what the model wrote; null without an answer", True),
    finish_reason=Column(TEXT, "stop, length, refusal, ...; null without an answer", True),
    prompt_tokens=Column(COUNT, "as the server counts, null when it does not", True),
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
        _request(text, strategy, sample)
        for text in queries.column("text").to_pylist()
        for sample in range(strategy.samples)
    ]


def prompted_variants(
    queries: pa.Table, strategy: Strategy, completions: Completions
) -> PromptedVariants:
    """Ask about every query.

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
        of_query = [answer for answer in answers_of_query if isinstance(answer, Completion)]
        if len(of_query) == strategy.samples:
            completed[query_id] = of_query
    lost = {query_id: reason for query_id, reason in failures.items() if query_id not in texts}
    table, served = ANSWERS.from_rows(rows), completions.served_models
    return PromptedVariants(variant_table(queries, texts), lost, table, completed, served, rejected)


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
    asked = ("template", "temperature", "seed", "max_tokens")
    # A table holds no time: equal answers are an equal table.
    answered = ("text", "finish_reason", "prompt_tokens", "completion_tokens")
    row: dict[str, object] = {name: getattr(request, name) for name in asked}
    if isinstance(answer, Completion):
        row |= {name: getattr(answer, name) for name in answered}
    return row
