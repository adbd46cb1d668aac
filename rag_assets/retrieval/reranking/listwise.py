"""``type: listwise``: candidates put in order by a language model, window by window."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from rag_assets.errors import UsageError
from rag_assets.llm.budget import Budget, Limits, taken
from rag_assets.llm.cache import CompletionCache
from rag_assets.llm.completions import Completions
from rag_assets.llm.endpoint import DEFAULT_BASE_URL, Endpoint
from rag_assets.llm.openai_compatible import OpenAICompatible
from rag_assets.llm.templates import Template, packaged_template, read_template
from rag_assets.options import Number
from rag_assets.retrieval.derived import Reranked, RerankedRetriever
from rag_assets.retrieval.reranking.candidates import Candidates
from rag_assets.retrieval.reranking.listwise_scores import PLACES, Asking, rerank_listwise
from rag_assets.retrieval.workspace import Usage, Workspace

TEMPLATE = "listwise"
HOW_ASKED = frozenset({"api_key_env", "timeout", "retries", "backoff", "concurrency"})
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
            self._limits()
        except UsageError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def compares_queries(self) -> bool:
        """No: a score is made of ranks."""
        return False

    def described(self, *, exclude: frozenset[str] = frozenset()) -> Mapping[str, Any]:
        """Return the options that determine results."""
        return super().described(exclude=exclude | HOW_ASKED | LIMITS | {"base_url"})

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
        asking = Asking(
            self._template(),
            window=self.window,
            step=self.step,
            max_words=self.max_words,
            temperature=self.temperature,
            seed=self.seed,
            max_tokens=self.max_tokens,
        )
        model = OpenAICompatible(self._endpoint())
        with (
            _cache(workspace) as cache,
            workspace.progress("rerank", len(candidates)) as advance,
        ):
            budget, started = Budget(self._limits()), time.perf_counter()
            completions = Completions(model, cache, budget)
            scores, failures, answers = rerank_listwise(candidates, asking, completions, advance)
        seconds = time.perf_counter() - started
        cost = budget.cost if budget.limits.priced else None
        tokens = budget.tokens or None
        workspace.measure(Usage("ask", budget.calls, seconds, tokens=tokens, cost=cost))
        return Reranked(scores, failures, *taken(answers, budget.limits))

    def _template(self) -> Template:
        if self.template is None:
            return packaged_template(TEMPLATE, PLACES, ["n"])
        return read_template(self.template, PLACES, ["n"])

    def _limits(self) -> Limits:
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


@contextmanager
def _cache(workspace: Workspace) -> Iterator[CompletionCache]:
    """Open the answers that are kept; where nothing is, they are kept as long as the block."""
    folder = workspace.cache_of("completions")
    if folder is not None:
        yield CompletionCache(folder)
        return
    with TemporaryDirectory(prefix="rag-assets-") as temporary:
        yield CompletionCache(Path(temporary))
