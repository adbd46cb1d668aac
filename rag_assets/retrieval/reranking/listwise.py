"""``type: listwise``: candidates put in order by a language model, window by window.

Sun et al.: Is ChatGPT Good at Search? Investigating Large Language Models as Re-Ranking Agents
(2023): the model is shown the last ``window`` candidates and answers with their order; the window
then moves up by ``step``, so that the best of a window meet those above it. The last window always
begins at the first candidate. With ``step`` below ``window`` the best ``window - step`` come to the
top, wherever they stood.

Candidates of equal text are shown once and have equal scores.

An order is numbers, in brackets or not, with ``>``, commas or white space between them, or a JSON
list; the thinking of a reasoning model and a code fence are taken off before. Anything else is no
order: where a number in a sentence is taken for a vote, a refusal ranks passages.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from rag_assets.llm.client import (
    API_KEY_VARIABLE,
    DEFAULT_BASE_URL,
    LENGTH,
    REFUSAL,
    Answer,
    ChatRequest,
    Completion,
    Template,
    packaged_template,
    read_template,
)
from rag_assets.llm.completions import (
    MESSAGE_TOKENS,
    Budget,
    Completions,
    Limits,
    prompt_tokens_at_most,
    times_and_cost,
)
from rag_assets.llm.models import OpenAICompatible
from rag_assets.llm.replies import ReplyStore
from rag_assets.options import Number
from rag_assets.query_sets.model_output import without_thinking
from rag_assets.retrieval.base import Role
from rag_assets.retrieval.reranking.candidates import Candidates, Reranked, RerankedRetriever
from rag_assets.retrieval.unit_ranking import Scores
from rag_assets.retrieval.workspace import Usage, Workspace
from rag_assets.servers.client import ServedModelOptions, ServerAddress
from rag_assets.servers.failures import Failed
from rag_assets.store.content_cache import COMPLETIONS

PLACES = ("query", "passages")
"""What a prompt must have a place for; ``n``, the number of passages, is allowed besides."""

Count = Annotated[int, Field(ge=1, strict=True)]

_FENCE = re.compile(r"```[\w-]*\s*(.*?)\s*```", re.DOTALL)
_ORDER = re.compile(r"\[?\s*\[?[0-9]+\]?(?:(?:\s*[>,]\s*|\s+)\[?[0-9]+\]?)*\s*\]?\.?")
_NUMBER = re.compile(r"[0-9]+")
MAX_CHARACTERS = 80
"""Of an answer that is no order, in a message."""


class Listwise(ServedModelOptions, Limits, RerankedRetriever):
    """Reranking by a language model that answers with the order of a window of candidates.

    The window of ``window`` candidates moves from the end up by ``step``. The server speaks the
    OpenAI protocol; the key is read from the environment variable ``api_key_env``, null for a
    server that needs none. ``template`` is a prompt file in place of ours. ``max_calls`` and
    ``max_cost`` bound what one ranking may take; prices are money a million tokens. A query with
    an answer that is no order has no results, and says why.
    """

    model_kind: ClassVar[str | None] = "openai"
    file_options: ClassVar[tuple[str, ...]] = ("template",)
    of_requests = ServedModelOptions.of_requests | frozenset(Limits.model_fields)

    type: Literal["listwise"]
    base_url: Annotated[ServerAddress, Role.MODEL] = DEFAULT_BASE_URL
    api_key_env: str | None = API_KEY_VARIABLE
    window: Annotated[int, Field(ge=2, strict=True)] = 20
    step: Count = 10
    max_words: Count = 300
    template: Path | None = None
    temperature: Annotated[Number, Field(ge=0)] | None = 0.0
    seed: Annotated[int, Field(ge=0, strict=True)] | None = 0
    max_tokens: Count = 512

    @model_validator(mode="after")
    def _skips_none(self) -> Self:
        if self.step > self.window:
            raise ValueError(f"step {self.step} is above window {self.window}: it skips candidates")
        return self

    @property
    def compares_queries(self) -> bool:
        return False

    def describe(self) -> Mapping[str, Any]:
        """Return the server and the prompt, and never the key or the name of its variable.

        Raises:
            ConfigError: ``template`` is no prompt with places for a query and passages.
        """
        template = self._template()
        messages = [list(message) for message in template.messages]
        return {"server": self.place, "template": template.label, "messages": messages}

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Ask for the order of every window that was not asked for before.

        The windows of one query follow each other; those of different queries are asked together.
        A score is 1 / rank.

        Raises:
            BudgetReached: the limits allow no more; what was answered is in the cache.
            ModelUnavailable: the endpoint refuses everything, or does not serve; likewise.
        """
        template, folder = self._template(), workspace.cache_of(COMPLETIONS)
        budget, orders = Budget(self), [self._opened(query) for query in candidates]
        started = time.perf_counter()
        with (
            TemporaryDirectory(prefix="rag-assets-") as temporary,
            workspace.progress("rerank", len(candidates)) as advance,
        ):
            store = ReplyStore(folder or Path(temporary))
            completions = Completions(OpenAICompatible(self), store, budget)
            while todo := [order for order in orders if order.is_open]:
                advance(len(orders) - len(todo), len(orders))
                requests = [self._request(template, order.query, order.in_window) for order in todo]
                for order, answer in zip(todo, completions.answer(requests), strict=True):
                    order.take(answer)
            advance(len(orders), len(orders))
        seconds, cost = time.perf_counter() - started, budget.cost if self.priced else None
        workspace.measure(
            Usage("ask", budget.calls, seconds, tokens=budget.tokens or None, cost=cost)
        )
        pairs = list(zip(candidates, orders, strict=True))
        scores = [order.scores(query.texts) for query, order in pairs]
        failures = {q.query_id: order.failure for q, order in pairs if order.failure is not None}
        answers = {q.query_id: order.answers for q, order in pairs if order.failure is None}
        return Reranked(scores, failures, *times_and_cost(answers, self))

    def passages_by_request(self, depth: int) -> list[int]:
        return [end - start for start, end in windows(depth, self.window, self.step)]

    def tokens_at_most(
        self, n_queries: int, query_bytes: int, sizes: Sequence[int], depth: int
    ) -> tuple[int, float | None]:
        n_passages = self.passages_by_request(depth)
        around = prompt_tokens_at_most(self._request(self._template(), "", []))
        passages = sum(sum(sizes[:size]) + size * MESSAGE_TOKENS for size in n_passages)
        prompts = n_queries * (passages + len(n_passages) * around) + query_bytes * len(n_passages)
        answers = n_queries * len(n_passages) * self.max_tokens
        return prompts + answers, self.cost(prompts, answers) if self.priced else None

    def _template(self) -> Template:
        if self.template is None:
            return packaged_template("listwise", PLACES, ["n"])
        return read_template(self.template, PLACES, ["n"])

    def _request(self, template: Template, query: str, passages: Sequence[str]) -> ChatRequest:
        """Return what is asked about the passages of one window."""
        words = [" ".join(text.split()[: self.max_words]) for text in passages]
        listed = "\n".join(f"[{number}] {text}" for number, text in enumerate(words, start=1))
        values = {"query": " ".join(query.split()), "n": len(passages), "passages": listed}
        messages = template.filled(values)
        return ChatRequest(messages, self.temperature, self.seed, self.max_tokens, template.label)

    def _opened(self, query: Candidates) -> _Order:
        texts = list(dict.fromkeys(query.texts))
        return _Order(query.query, texts, windows(len(texts), self.window, self.step))


def windows(n: int, window: int, step: int) -> list[tuple[int, int]]:
    """Return (start, end) of the windows over ``n`` candidates, the last ones first.

    One candidate needs no order, and has no window.
    """
    ranges: list[tuple[int, int]] = []
    end = n
    while n > 1 and (not ranges or ranges[-1][0] > 0):
        ranges.append((max(0, end - window), end))
        end -= step
    return ranges


@dataclass
class _Order:
    """The different texts of one query's candidates, in the order so far."""

    query: str
    texts: list[str]
    windows: list[tuple[int, int]]
    done: int = 0
    failure: str | None = None
    answers: list[Completion] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return self.failure is None and self.done < len(self.windows)

    @property
    def in_window(self) -> list[str]:
        start, end = self.windows[self.done]
        return self.texts[start:end]

    def take(self, answer: Answer) -> None:
        """Put the texts of the window into the order of an answer."""
        passages = self.in_window
        order = read_permutation(answer, len(passages))
        if isinstance(answer, Completion):
            self.answers.append(answer)
        if isinstance(order, Failed):
            several = len(self.windows) > 1
            where = f"window {self.done + 1} of {len(self.windows)}: " if several else ""
            self.failure = f"{where}{order.reason}"
            return
        start, end = self.windows[self.done]
        self.texts[start:end] = [passages[number] for number in order]
        self.done += 1

    def scores(self, texts: Sequence[str]) -> Scores:
        """Return 1 / rank of each text; nobody reads those of a query that failed."""
        rank = {text: number for number, text in enumerate(self.texts, start=1)}
        return np.array([1.0 / rank[text] for text in texts], dtype=np.float64)


def read_permutation(answer: Answer, n: int) -> list[int] | Failed:
    """Return the order that an answer gives, as numbers from 0 to ``n`` - 1.

    A number that is repeated counts where it stands first; those that are missing follow at the
    end, in the order in which they were asked.

    Args:
        answer: of the model.
        n: how many passages there were, numbered from 1 in the prompt.
    """
    if isinstance(answer, Failed):
        return answer
    text = without_thinking(answer.text)
    line = " ".join(text.split())
    line = line if len(line) <= MAX_CHARACTERS else f"{line[:MAX_CHARACTERS]}..."
    if answer.finish_reason == REFUSAL:
        return Failed(f"the model refused: {line}" if text else "the model refused")
    if answer.finish_reason == LENGTH:
        return Failed("the answer was cut at max_tokens")
    fenced = _FENCE.fullmatch(text)
    order = fenced[1] if fenced else text
    if not _ORDER.fullmatch(order):
        return Failed(f"the answer is no order of passages: {line}")
    named = [int(number) for number in _NUMBER.findall(order)]
    for number in named:
        if not 1 <= number <= n:
            return Failed(f"the answer names passage {number} of {n}")
    return list(dict.fromkeys([*(number - 1 for number in named), *range(n)]))
