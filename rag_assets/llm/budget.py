"""What an evaluation may spend on a language model: a number of calls, and money.

A call is a request that is answered or fails; attempts that the server turned away (rate limits)
belong to the same call. Costs are in the unit of the prices, which is the user's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Annotated, Self, TypeVar

from pydantic import Field, model_validator

from rag_assets.errors import RagAssetsError
from rag_assets.llm.client import Answer, ChatRequest, Completion
from rag_assets.options import Number, Options
from rag_assets.servers.failures import Failed

Result = TypeVar("Result")

MILLION = 1_000_000
MESSAGE_TOKENS = 16
"""Most tokens that a chat format puts around a message; a generous guess."""


class BudgetReached(RagAssetsError):
    """The next request does not fit ``max_calls`` or ``max_cost``; what was answered is kept."""

    exit_code = 3


class Limits(Options):
    """What may be spent on a language model; prices are money a million tokens."""

    max_calls: Annotated[int, Field(ge=0, strict=True)] | None = None
    max_cost: Annotated[Number, Field(ge=0)] | None = None
    prompt_price: Annotated[Number, Field(ge=0)] | None = None
    completion_price: Annotated[Number, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _prices_belong_together(self) -> Self:
        if (self.prompt_price is None) != (self.completion_price is None):
            raise ValueError("prompt_price and completion_price belong together; give both")
        if self.max_cost is not None and not self.priced:
            raise ValueError(
                "max_cost needs prompt_price and completion_price, in money per million tokens"
            )
        return self

    @property
    def priced(self) -> bool:
        """Whether both prices are known."""
        return self.prompt_price is not None and self.completion_price is not None

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return what so many tokens cost; 0 without prices."""
        prompt = prompt_tokens * (self.prompt_price or 0.0)
        return (prompt + completion_tokens * (self.completion_price or 0.0)) / MILLION

    def cost_at_most(self, request: ChatRequest) -> float:
        """Return more than a request will cost: a token for each byte, and the longest answer."""
        return self.cost(prompt_tokens_at_most(request), request.max_tokens)


class Budget:
    """The limits of one evaluation, and what it has spent."""

    def __init__(self, limits: Limits | None = None) -> None:
        """Begin with nothing spent; without limits it only counts."""
        self.limits = limits or Limits()
        self.calls = 0
        self.cost = 0.0
        self.tokens = 0  # of requests and answers, as far as the server tells
        self._sent: list[ChatRequest] = []

    def reserve(self, request: ChatRequest) -> bool:
        """Count a request that is sent now; False, and not counted, where it may not fit.

        It is held for the most that it can cost until :meth:`spend` says what it did.
        """
        limits = self.limits
        if limits.max_calls is not None and self.calls >= limits.max_calls:
            return False
        if limits.max_cost is not None:
            held = sum(map(limits.cost_at_most, (*self._sent, request)))
            if self.cost + held > limits.max_cost:
                return False
        self.calls += 1
        self._sent.append(request)
        return True

    def spend(self, request: ChatRequest, answer: Answer) -> None:
        """Count what a request cost; where the server tells no usage, the most that it can have."""
        self._sent.remove(request)
        if isinstance(answer, Failed):
            self.cost += self.limits.cost_at_most(request) if answer.maybe_paid else 0.0
        elif answer.prompt_tokens is None or answer.completion_tokens is None:
            self.cost += self.limits.cost_at_most(request)
        else:
            self.cost += self.limits.cost(answer.prompt_tokens, answer.completion_tokens)
            self.tokens += answer.prompt_tokens + answer.completion_tokens

    def reached(self, answered: int, missing: int) -> BudgetReached:
        """Return the error for requests that do not fit any more."""
        limits = self.limits
        out_of_calls = limits.max_calls is not None and self.calls >= limits.max_calls
        limit = f"max_calls {limits.max_calls}" if out_of_calls else f"max_cost {limits.max_cost}"
        spent = f"{self.calls} calls" + (f", cost {self.cost:.4g}" if limits.priced else "")
        return BudgetReached(
            f"stopped before LLM {limit} would be passed ({spent}): {answered} answers are there "
            f"and kept, {missing} are missing; run again to ask only for those, or raise the limit"
        )


class CallLimit:
    """``max_calls`` of a server that is no language model: of embeddings, or a reranker."""

    def __init__(self, max_calls: int | None) -> None:
        """Begin with no request; None: any number is allowed."""
        self._max_calls = max_calls
        self._calls = 0

    def results(
        self, works: Sequence[tuple[Callable[[], Result], int]], width: int
    ) -> Iterator[tuple[int, Result]]:
        """Yield (number of a piece of work, its result), several at a time, while requests fit.

        What a piece raises is raised when the results of the others beside it were given.

        Args:
            works: what asks a server, and how many requests it takes.
            width: pieces at a time.

        Raises:
            BudgetReached: the next one does not fit.
        """
        done = 0
        with ThreadPoolExecutor(width, thread_name_prefix="requests") as pool:
            while done < len(works):
                block = works[done : done + width]
                sent = [pool.submit(work) for work, n in block[: self._n_fitting(block)]]
                wait(sent)
                for number, future in enumerate(sent, start=done):
                    if future.exception() is None:
                        yield number, future.result()
                for future in sent:
                    future.result()
                done += len(sent)

    def _n_fitting(self, works: Sequence[tuple[object, int]]) -> int:
        """Count the requests of the first pieces of work that fit; return how many pieces."""
        for n_pieces, (_, n_requests) in enumerate(works):
            if self._max_calls is not None and self._calls + n_requests > self._max_calls:
                if n_pieces:
                    return n_pieces
                raise BudgetReached(
                    f"stopped before max_calls {self._max_calls} would be passed ({self._calls} "
                    "requests); answers are stored, run again to get only the rest, or raise the "
                    "limit"
                )
            self._calls += n_requests
        return len(works)


def taken(
    answers: Mapping[str, Sequence[Completion]], limits: Limits
) -> tuple[dict[str, float], float | None]:
    """Return query id -> what its answers took when they were given, and what a query costs.

    The cost is None without prices, or where a server told no usage.
    """
    seconds, cost = dict[str, float](), 0.0
    is_known = limits.priced and bool(answers)
    for query_id, completions in answers.items():
        times = [answer.seconds for answer in completions if answer.seconds is not None]
        if len(times) == len(completions):
            seconds[query_id] = sum(times)
        for answer in completions:
            is_known &= answer.prompt_tokens is not None and answer.completion_tokens is not None
            cost += limits.cost(answer.prompt_tokens or 0, answer.completion_tokens or 0)
    return seconds, cost / len(answers) if is_known else None


def prompt_tokens_at_most(request: ChatRequest) -> int:
    """Return a bound: no tokenizer makes more tokens than UTF-8 bytes."""
    lengths = [len(message.content.encode()) + MESSAGE_TOKENS for message in request.messages]
    return sum(lengths) + MESSAGE_TOKENS
