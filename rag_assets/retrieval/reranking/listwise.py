"""``type: listwise``: candidates put in order by a language model, window by window.

Sun et al.: Is ChatGPT Good at Search? Investigating Large Language Models as Re-Ranking Agents
(2023): the model is shown the last ``window`` candidates and answers with their order; the window
then moves up by ``step``, so that the best of a window meet those above it. The last window always
begins at the first candidate. With ``step`` below ``window`` the best ``window - step`` come to the
top, wherever they stood.

Candidates of equal text are shown once and have equal scores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from rag_assets.errors import UsageError
from rag_assets.llm.budget import (
    MESSAGE_TOKENS,
    Budget,
    Limits,
    prompt_tokens_at_most,
    taken,
)
from rag_assets.llm.client import ChatRequest, Completion
from rag_assets.llm.completions import Completions
from rag_assets.llm.endpoint import DEFAULT_BASE_URL, Endpoint
from rag_assets.llm.openai_compatible import OpenAICompatible
from rag_assets.llm.replies import ReplyStore
from rag_assets.llm.templates import Template, packaged_template, read_template
from rag_assets.options import Number
from rag_assets.retrieval.derived import Reranked, RerankedRetriever
from rag_assets.retrieval.reranking.candidates import Candidates, Scores
from rag_assets.retrieval.reranking.permutation import NoOrder, read_permutation
from rag_assets.retrieval.workspace import Usage, Workspace
from rag_assets.store.content_cache import COMPLETIONS

TEMPLATE = "listwise"


PLACES = ("query", "passages")
"""What a prompt must have a place for; ``n``, the number of passages, is allowed besides."""


TRANSPORT_OPTIONS = frozenset({"api_key_env", "timeout", "retries", "backoff", "concurrency"})


LIMITS = frozenset({"max_calls", "max_cost", "prompt_price", "completion_price"})


Count = Annotated[int, Field(ge=1, strict=True)]


NotNegative = Annotated[Number, Field(ge=0)]


class Listwise(RerankedRetriever):
    """Reranking by a language model that answers with the order of a window of candidates.

    The window of ``window`` candidates moves from the end up by ``step``. The server speaks the
    OpenAI protocol; the key is read from the environment variable ``api_key_env``, null for a
    server that needs none. ``template`` is a prompt file in place of ours. ``max_calls`` and
    ``max_cost`` bound what one ranking may take; prices are money a million tokens. A query with
    an answer that is no order has no results, and says why.
    """

    model_kind: ClassVar[str | None] = "openai"
    file_options: ClassVar[tuple[str, ...]] = ("template",)

    type: Literal["listwise"]
    model: str = Field(min_length=1)
    base_url: str = DEFAULT_BASE_URL
    api_key_env: str | None = "OPENAI_API_KEY"
    window: Annotated[int, Field(ge=2, strict=True)] = 20
    step: Count = 10
    max_words: Count = 300
    template: Path | None = None
    temperature: NotNegative | None = 0.0
    seed: Annotated[int, Field(ge=0, strict=True)] | None = 0
    max_tokens: Count = 512
    concurrency: Count = 4
    timeout: Annotated[Number, Field(gt=0)] = 60.0
    retries: Annotated[int, Field(ge=0, strict=True)] = 4
    backoff: NotNegative = 1.0
    max_calls: Annotated[int, Field(ge=0, strict=True)] | None = None
    max_cost: NotNegative | None = None
    prompt_price: NotNegative | None = None
    completion_price: NotNegative | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.step > self.window:
            raise ValueError(f"step {self.step} is above window {self.window}: it skips candidates")
        try:
            self._endpoint()
            self.limits()
        except UsageError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def compares_queries(self) -> bool:
        """No: a score is made of ranks."""
        return False

    def described(self, *, exclude: frozenset[str] = frozenset()) -> Mapping[str, Any]:
        """Return the options that determine results."""
        return super().described(exclude=exclude | TRANSPORT_OPTIONS | LIMITS | {"base_url"})

    def describe(self) -> Mapping[str, Any]:
        """Return the server and the prompt, and never the key or the name of its variable.

        Raises:
            ConfigError: ``template`` is no prompt with places for a query and passages.
        """
        template = self._template()
        return {
            "server": self._endpoint().place,
            "template": template.label,
            "messages": [list(message) for message in template.messages],
        }

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Ask for the order of every window that was not asked for before."""
        prompt = self._prompt()
        model = OpenAICompatible(self._endpoint())
        with (
            _replies(workspace) as replies,
            workspace.progress("rerank", len(candidates)) as advance,
        ):
            budget, started = Budget(self.limits()), time.perf_counter()
            completions = Completions(model, replies, budget)
            scores, failures, answers = rerank_listwise(candidates, prompt, completions, advance)
        seconds = time.perf_counter() - started
        cost = budget.cost if budget.limits.priced else None
        tokens = budget.tokens or None
        workspace.measure(Usage("ask", budget.calls, seconds, tokens=tokens, cost=cost))
        return Reranked(scores, failures, *taken(answers, budget.limits))

    def passages_by_request(self, depth: int) -> list[int]:
        """Return the sizes of the windows over one query's candidates."""
        return [end - start for start, end in windows(depth, self.window, self.step)]

    def tokens_at_most(
        self, n_queries: int, query_bytes: int, sizes: Sequence[int], depth: int
    ) -> tuple[int, float | None]:
        """Return tokens and cost; each window may show the longest passages."""
        shown = self.passages_by_request(depth)
        around = prompt_tokens_at_most(self._prompt().request("", []))
        passages = sum(sum(sizes[:size]) + size * MESSAGE_TOKENS for size in shown)
        prompts = n_queries * (passages + len(shown) * around) + query_bytes * len(shown)
        answers = n_queries * len(shown) * self.max_tokens
        limits = self.limits()
        return prompts + answers, limits.cost(prompts, answers) if limits.priced else None

    def _prompt(self) -> WindowPrompt:
        return WindowPrompt(
            self._template(),
            window=self.window,
            step=self.step,
            max_words=self.max_words,
            temperature=self.temperature,
            seed=self.seed,
            max_tokens=self.max_tokens,
        )

    def _template(self) -> Template:
        if self.template is None:
            return packaged_template(TEMPLATE, PLACES, ["n"])
        return read_template(self.template, PLACES, ["n"])

    def limits(self) -> Limits:
        """Return what one ranking may spend.

        Raises:
            UsageError: ``max_cost`` without prices.
        """
        return Limits(self.max_calls, self.max_cost, self.prompt_price, self.completion_price)

    def _endpoint(self) -> Endpoint:
        return Endpoint(
            self.model,
            self.base_url,
            self.api_key_env,
            timeout=self.timeout,
            concurrency=self.concurrency,
            retries=self.retries,
            backoff=self.backoff,
        )


def rerank_listwise(
    candidates: Sequence[Candidates],
    prompt: WindowPrompt,
    completions: Completions,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Scores], dict[str, str], dict[str, list[Completion]]]:
    """Return 1 / rank for every candidate of every query, why queries have none, and answers.

    The windows of one query follow each other; those of different queries are asked together.

    Args:
        candidates: of each query, in the order of the input.
        prompt: how they are shown.
        completions: the model, the store of its replies and its budget.
        progress: called with (queries that are done, queries).

    Returns:
        Scores, NaN where there are none; query id -> reason for queries that failed; and query id
        -> the answers about its windows, for the others.

    Raises:
        BudgetReached: the limits allow no more; what was answered is in the cache.
        ModelUnavailable: the endpoint refuses everything, or does not serve; likewise.
    """
    lists = [_opened(one, prompt) for one in candidates]
    while True:
        todo = [one for one in lists if one.is_open]
        if progress is not None:
            progress(len(lists) - len(todo), len(lists))
        if not todo:
            break
        requests = [prompt.request(one.query, one.shown) for one in todo]
        for one, answer in zip(todo, completions.answer(requests), strict=True):
            if isinstance(answer, Completion):
                one.answers.append(answer)
            one.take(read_permutation(answer, len(one.shown)))
    pairs = list(zip(candidates, lists, strict=True))
    failures = {one.query_id: own.failure for one, own in pairs if own.failure is not None}
    answers = {one.query_id: own.answers for one, own in pairs if own.failure is None}
    return [own.scores(one.texts) for one, own in pairs], failures, answers


@dataclass(frozen=True)
class WindowPrompt:
    """How candidates are shown.

    Attributes:
        template: the prompt.
        window: candidates in one request.
        step: how far the window moves up.
        max_words: words of a passage that are shown.
        temperature: 0 is the least random; None leaves it to the model's own default.
        seed: of the sampling; None sends none.
        max_tokens: most tokens of an answer.
    """

    template: Template
    window: int = 20
    step: int = 10
    max_words: int = 300
    temperature: float | None = 0.0
    seed: int | None = 0
    max_tokens: int = 512

    def __post_init__(self) -> None:
        """Raise UsageError for a window that does not move, or jumps over candidates."""
        if self.window < 2 or not 1 <= self.step <= self.window:
            raise UsageError(
                f"window is {self.window} and step is {self.step}; the window must be at least 2, "
                f"the step from 1 to the window"
            )

    def request(self, query: str, passages: Sequence[str]) -> ChatRequest:
        """Return what is asked about the passages of one window."""
        shown = [
            f"[{number}] {' '.join(text.split()[: self.max_words])}"
            for number, text in enumerate(passages, start=1)
        ]
        values = {
            "query": " ".join(query.split()),
            "n": len(passages),
            "passages": "\n".join(shown),
        }
        filled = self.template.filled(values)
        label = self.template.label
        return ChatRequest(filled, self.temperature, self.seed, self.max_tokens, label)


def windows(n: int, window: int, step: int) -> list[tuple[int, int]]:
    """Return (start, end) of the windows over ``n`` candidates, the last ones first.

    One candidate needs no order, and has no window.
    """
    found: list[tuple[int, int]] = []
    end = n
    while n > 1 and (not found or found[-1][0] > 0):
        found.append((max(0, end - window), end))
        end -= step
    return found


@dataclass
class _List:
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
    def shown(self) -> list[str]:
        start, end = self.windows[self.done]
        return self.texts[start:end]

    def take(self, order: list[int] | NoOrder) -> None:
        """Put the texts of the window into the order of an answer."""
        if isinstance(order, NoOrder):
            several = len(self.windows) > 1
            where = f"window {self.done + 1} of {len(self.windows)}: " if several else ""
            self.failure = f"{where}{order.reason}"
            return
        start, end = self.windows[self.done]
        shown = self.shown
        self.texts[start:end] = [shown[number] for number in order]
        self.done += 1

    def scores(self, texts: Sequence[str]) -> Scores:
        """Return 1 / rank of each text; NaN when the query failed."""
        if self.failure is not None:
            return np.full(len(texts), np.nan)
        rank = {text: number for number, text in enumerate(self.texts, start=1)}
        return np.array([1.0 / rank[text] for text in texts], dtype=np.float64)


def _opened(one: Candidates, prompt: WindowPrompt) -> _List:
    texts = list(dict.fromkeys(one.texts))
    return _List(one.query, texts, windows(len(texts), prompt.window, prompt.step))


@contextmanager
def _replies(workspace: Workspace) -> Iterator[ReplyStore]:
    """Open the store of replies; where nothing is stored, one for as long as the block."""
    folder = workspace.cache_of(COMPLETIONS)
    if folder is not None:
        yield ReplyStore(folder)
        return
    with TemporaryDirectory(prefix="rag-assets-") as temporary:
        yield ReplyStore(Path(temporary))
