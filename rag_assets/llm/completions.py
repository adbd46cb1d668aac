"""Answers for many requests: those that are stored, and the others from the model, in a budget.

Only distinct requests that are not stored are asked, as many at a time as the model allows, and
each reply is on the disk before its place is given to another request. So a process that is killed
repeats at most that many.

A budget says what an evaluation may spend: a number of calls, and money. A call is a request that
is answered or fails; retries after a rate limit or a failure belong to the same call.
Costs are in the unit of the prices, which is the user's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Annotated, Self, TypeVar

from pydantic import Field, model_validator

from rag_assets.errors import RagAssetsError
from rag_assets.llm.client import Answer, ChatModel, ChatRequest, Completion
from rag_assets.llm.replies import Journal, ReplyStore, request_text
from rag_assets.options import Number, Options
from rag_assets.progress import Advance
from rag_assets.servers.client import Outage
from rag_assets.servers.failures import Failed

Result = TypeVar("Result")

MILLION = 1_000_000
MESSAGE_TOKENS = 16
"""Most tokens that a chat format puts around a message; a generous guess."""


class BudgetReached(RagAssetsError):
    """The next request does not fit ``max_calls`` or ``max_cost``; what was answered is kept."""

    exit_code = 3


class Limits(Options):
    """Limits of what a language model may cost; prices are per million tokens."""

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

    def reached(self, request: ChatRequest, n_done: int, n_missing: int) -> BudgetReached:
        """Return the error for requests of one step, whose next one does not fit any more."""
        limits, most = self.limits, self.limits.cost_at_most(request)
        out_of_calls = limits.max_calls is not None and self.calls >= limits.max_calls
        limit = f"max_calls {limits.max_calls}" if out_of_calls else f"max_cost {limits.max_cost}"
        spent = f"{self.calls} calls" + (f", cost {self.cost:.4g}" if limits.priced else "")
        advice = "run again to go on with what is missing, or raise the limit"
        if not Budget(limits).reserve(request):  # so running again would end here again
            lower = f"one request alone may cost {most:.4g}: lower `max_tokens`, or "
            advice = f"{'' if out_of_calls else lower}raise the limit"
        return BudgetReached(
            f"stopped before LLM {limit} would be passed ({spent}): of this step, {n_done} answers "
            f"are stored and {n_missing} are missing, and later steps may ask for more; {advice}"
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
                advice = "the answers are stored; run again to get the rest, or raise the limit"
                if n_requests > self._max_calls:
                    advice = f"what comes next takes {n_requests} at once, so raise the limit"
                limit = f"max_calls {self._max_calls} would be passed ({self._calls} requests)"
                raise BudgetReached(f"stopped before {limit}; {advice}")
            self._calls += n_requests
        return len(works)


def times_and_cost(
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


@dataclass(frozen=True)
class Estimate:
    """What requests would need.

    Attributes:
        cached: different requests whose answer is stored.
        calls: different requests that would be sent.
        cost_at_most: what these cost at most, in the unit of the prices; None without prices.
        tokens_at_most: of these requests, at most a token for each byte, and of their answers.
    """

    cached: int
    calls: int
    cost_at_most: float | None
    tokens_at_most: int = 0


def estimate(
    requests: Sequence[ChatRequest], identity: Mapping[str, str], store: ReplyStore, limits: Limits
) -> Estimate:
    """Return what the answers of the model ``identity`` would need; no model and no key does it."""
    distinct = list({request_text(identity, request): request for request in requests}.values())
    stored = store.get(identity, distinct)
    missing = [request for request, reply in zip(distinct, stored, strict=True) if reply is None]
    cost = sum(limits.cost_at_most(request) for request in missing) if limits.priced else None
    tokens = sum(prompt_tokens_at_most(request) + request.max_tokens for request in missing)
    return Estimate(len(distinct) - len(missing), len(missing), cost, tokens)


class Completions:
    """A model with the store of its replies and its budget."""

    def __init__(
        self,
        model: ChatModel,
        store: ReplyStore,
        budget: Budget | None = None,
        *,
        progress: Advance | None = None,
    ) -> None:
        """Ask ``model`` for what ``store`` does not hold.

        Args:
            model: who answers.
            store: where every reply is stored as it arrives.
            budget: asked before each request; shared by all that one evaluation does.
            progress: told how many distinct requests are done, how many failed, and the cost.
        """
        self.model = model
        self.store = store
        self.budget = budget or Budget()
        self._progress = progress

    @property
    def served_models(self) -> list[str]:
        """The names that the server gave the model, by the first stored reply of each."""
        return self.store.served_models(self.model.identity)

    def answer(self, requests: Sequence[ChatRequest]) -> list[Answer]:
        """Return the answer to each request, in order; raises as :meth:`complete`."""
        return [answer for _, answer in sorted(self.complete(requests), key=lambda pair: pair[0])]

    def complete(self, requests: Sequence[ChatRequest]) -> Iterator[tuple[int, Answer]]:
        """Yield (number of a request, its answer): first what is stored, then as it arrives.

        Equal requests are asked once. A request without an answer has a :class:`Failed` with its
        reason, and is asked again the next time.

        Raises:
            BudgetReached: the limits allow no more; what was answered is stored.
            ModelUnavailable: the endpoint refuses everything, or does not serve; likewise.
            StoreError: the store cannot be written.
        """
        identity = self.model.identity
        numbers: dict[str, list[int]] = {}
        for number, request in enumerate(requests):
            numbers.setdefault(request_text(identity, request), []).append(number)
        equal = {same[0]: same for same in numbers.values()}
        stored = self.store.get(identity, [requests[first] for first in equal])
        replies = dict(zip(equal, stored, strict=True))
        missing = [first for first, reply in replies.items() if reply is None]
        n_stored = len(equal) - len(missing)
        self._tell(n_stored, 0, len(equal))
        for first, reply in replies.items():
            if reply is not None:
                yield from ((number, reply) for number in equal[first])
        with self.store.journal(identity) as journal:
            for first, answer in self._ask(requests, missing, journal, n_stored):
                yield from ((number, answer) for number in equal[first])

    def _ask(
        self, requests: Sequence[ChatRequest], missing: Sequence[int], journal: Journal, n_done: int
    ) -> Iterator[tuple[int, Answer]]:
        """Yield answers of the model as they arrive; the journal has each before."""
        waiting, outage = deque(missing), Outage("LLM")
        n_failed, n_all = 0, n_done + len(missing)
        sent: dict[Future[Answer], int] = {}
        width = self.model.concurrency
        with ThreadPoolExecutor(width, thread_name_prefix="llm") as pool:
            while waiting or sent:
                while waiting and len(sent) < width and self.budget.reserve(requests[waiting[0]]):
                    number = waiting.popleft()
                    sent[pool.submit(self._stored_answer, requests[number], journal)] = number
                if not sent:
                    raise self.budget.reached(requests[waiting[0]], n_done, n_all - n_done)
                arrived, _ = wait(sent, return_when=FIRST_COMPLETED)
                for future in [future for future in sent if future in arrived]:
                    number, answer = sent.pop(future), future.result()
                    self.budget.spend(requests[number], answer)
                    failed = answer if isinstance(answer, Failed) else None
                    n_done, n_failed = n_done + (failed is None), n_failed + (failed is not None)
                    self._tell(n_done, n_failed, n_all)
                    outage.note(failed)
                    outage.check()
                    yield number, answer

    def _stored_answer(self, request: ChatRequest, journal: Journal) -> Answer:
        answer = self.model.answer(request)
        if isinstance(answer, Completion):
            journal.add(request, answer)
        return answer

    def _tell(self, n_done: int, n_failed: int, n_all: int) -> None:
        if self._progress is not None:
            notes = [f"{n_failed} failed"] if n_failed else []
            notes += [f"cost {self.budget.cost:.4g}"] if self.budget.limits.priced else []
            self._progress(n_done + n_failed, n_all, ", ".join(notes))


@dataclass(frozen=True)
class ModelSession:
    """What a generator or a judge may use, and what it says of its work as a whole.

    Attributes:
        completions: opens a language model, by the number of requests and its name, or itself.
        notes: to which it adds lines for people.
        served_models: to which it adds the names that a server gave its model.
        revision: in which code or a server of the user's own is asked; None: it says none.
    """

    completions: Callable[[int, str | ChatModel | None], AbstractContextManager[Completions]]
    notes: list[str] = field(default_factory=list)
    served_models: list[str] = field(default_factory=list)
    revision: str | None = None
