"""The work behind a partition: upper bounds before it is done, and what models were asked then.

All is an upper bound from what is stored now, but for requests that are sent again because a server
failed. Tokens are counted as UTF-8 bytes, of which no tokenizer makes more; a passage is as long as
the longest chunks. What caches hold is left out of the requests to language models only.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from rag_assets.engine.recipe import SERVED_MODELS, UNANSWERED
from rag_assets.engine.stage_context import StageContext
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.hosts import generator_client, llm_client, retriever_client
from rag_assets.llm.client import ChatRequest, Template
from rag_assets.llm.completions import Budget, Estimate, estimate
from rag_assets.store.artifacts import ArtifactKey

LLM_CALLS, TEXTS, PAIRS = "llm_calls", "texts", "pairs"


@dataclass(frozen=True)
class Outgoing:
    """What one client is asked, at most; None where that is not known yet.

    Attributes:
        client: where it stands in the YAML, such as ``llm`` or ``retrievers.jina``.
        host: that is asked.
        is_local: whether that is this machine.
        questions: queries that are sent, whole or in a prompt.
        requests: that are sent.
        passages: chunks that are sent; one that is sent twice counts twice.
        tokens: of requests and answers.
        cost: in the unit of the client's prices; None also without prices.
        max_calls: the limit of the client; None: it has none.
        max_cost: likewise.
    """

    client: str
    host: str
    is_local: bool = False
    questions: int | None = None
    requests: int | None = None
    passages: int | None = None
    tokens: int | None = None
    cost: float | None = None
    max_calls: int | None = None
    max_cost: float | None = None

    def needing(self, needs: Estimate, *, questions: int, passages: int) -> Outgoing:
        """Return this client with what requests to a language model need."""
        return replace(
            self,
            questions=questions,
            requests=needs.calls,
            passages=passages,
            tokens=needs.tokens_at_most,
            cost=needs.cost_at_most,
        )

    def plus(self, other: Outgoing) -> Outgoing:
        """Return the sum of two lines of one client; an amount is unknown where one of them is."""
        sums: dict[str, Any] = {}
        for name in ("questions", "requests", "passages", "tokens", "cost"):
            mine, more = getattr(self, name), getattr(other, name)
            sums[name] = None if mine is None or more is None else mine + more
        return replace(self, **sums)


class ExpectedWork(NamedTuple):
    """What computing one partition takes at most.

    Attributes:
        amounts: ``llm_calls`` (requests to language models whose replies are not stored), ``texts``
            to embed or ``pairs`` of a query and a chunk to score; None: not known.
        requests: what models and servers are asked, a line a client.
    """

    amounts: Mapping[str, int] | None = None
    requests: tuple[Outgoing, ...] = ()


NO_WORK = ExpectedWork()


def llm_work(lines: Iterable[Outgoing]) -> ExpectedWork:
    """Return the work of a stage that language models write."""
    requests = tuple(lines)
    calls = [line.requests for line in requests if line.requests is not None]
    is_known = requests and len(calls) == len(requests)
    return ExpectedWork({LLM_CALLS: sum(calls)} if is_known else None, requests)


def llm_line(experiment: Experiment, name: str | None) -> Outgoing | None:
    """Return one of ``llms`` (None: ``llm``) with its limits, nothing counted; None: none."""
    client, llm = llm_client(experiment, name), experiment.language_model(name)
    if client is None or llm is None:
        return None
    line = Outgoing(client.key, client.host, client.is_local)
    return replace(line, max_calls=llm.max_calls, max_cost=llm.max_cost)


def retriever_line(experiment: Experiment, retriever: str) -> Outgoing | None:
    """Return the server of a retriever likewise; None: it asks none."""
    client = retriever_client(experiment, retriever)
    if client is None:
        return None
    config = experiment.retrievers[retriever]
    limits = {name: getattr(config, name, None) for name in ("max_calls", "max_cost")}
    return Outgoing(client.key, client.host, client.is_local, **limits)


def generator_line(experiment: Experiment, name: str) -> Outgoing | None:
    """Return the server, or the code, of a generator of the user's own; None: it is another."""
    client = generator_client(experiment, name)
    return None if client is None else Outgoing(client.key, client.host, client.is_local)


def asked_config(experiment: Experiment, llm: str | None, template: Template) -> dict[str, Any]:
    """Return what of a configuration says who is asked, and what."""
    model = experiment.language_model(llm)
    return {**template.as_config(), "llm": dict(model.identity()) if model is not None else {}}


def asked_facts(unanswered: int, served_models: Iterable[str]) -> dict[str, Any]:
    """Return the facts of an artifact that a server wrote, as far as there are any."""
    served = list(dict.fromkeys(served_models))
    open_ones = {UNANSWERED: unanswered} if unanswered else {}
    return {**open_ones, **({SERVED_MODELS: served} if served else {})}


def needed(context: StageContext, llm: str | None, requests: Sequence[ChatRequest]) -> Estimate:
    """Return what requests to a language model need whose replies are not stored."""
    config = context.experiment.language_model(llm)
    if config is None:
        raise TypeError(f"{context.experiment.name} has no language model")
    return estimate(requests, config.identity(), context.replies, config)


def summed(lines: Iterable[Outgoing]) -> tuple[Outgoing, ...]:
    """Return one line for each client."""
    sums: dict[str, Outgoing] = {}
    for line in lines:
        before = sums.get(line.client)
        sums[line.client] = line if before is None else before.plus(line)
    return tuple(sums.values())


class RequestUsage(NamedTuple):
    """Requests to one model; ``cost`` is None where it has no prices."""

    seconds: float
    calls: int
    tokens: int
    cost: float | None


@contextmanager
def counted_requests(budget: Budget, usages: list[RequestUsage]) -> Iterator[None]:
    """Append what is sent within this block."""
    started, calls, tokens, cost = time.perf_counter(), budget.calls, budget.tokens, budget.cost
    yield
    usages.append(
        RequestUsage(
            time.perf_counter() - started,
            budget.calls - calls,
            budget.tokens - tokens,
            budget.cost - cost if budget.limits.priced else None,
        )
    )


def keep_usage(context: StageContext, key: ArtifactKey, usages: Sequence[RequestUsage]) -> None:
    """Keep the sum for a partition: one measurement, since a second would replace the first.

    The cost is unknown where that of one model is.
    """
    recipe = context.recipe(key)
    if recipe is None or not usages:
        return
    costs = [usage.cost for usage in usages if usage.cost is not None]
    context.measurements.add(
        "ask",
        recipe.fingerprint,
        sum(usage.seconds for usage in usages),
        sum(usage.calls for usage in usages),
        asset=key.asset,
        tokens=sum(usage.tokens for usage in usages) or None,
        cost=sum(costs) if len(costs) == len(usages) else None,
    )
