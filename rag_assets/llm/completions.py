"""Answers for many requests: those that are stored, and the others from the model, in a budget.

Only distinct requests that are not stored are asked, as many at a time as the model allows, and
each reply is on the disk before its place is given to another request. So a process that is killed
repeats at most that many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import NamedTuple

from rag_assets.llm.budget import Budget, Limits, prompt_tokens_at_most
from rag_assets.llm.client import Answer, ChatModel, ChatRequest, Completion
from rag_assets.llm.replies import Journal, ReplyStore, request_text
from rag_assets.progress import Advance
from rag_assets.servers.client import Outage
from rag_assets.servers.failures import Failed


class Counts(NamedTuple):
    """How far it is, in distinct requests.

    Attributes:
        done: answered, now or before.
        failed: asked in vain.
        remaining: not asked yet, or on their way.
        cost: of the budget so far, in the unit of its prices; None without prices.
    """

    done: int
    failed: int
    remaining: int
    cost: float | None

    @property
    def total(self) -> int:
        """All of them."""
        return self.done + self.failed + self.remaining

    def after(self, answer: Answer) -> Counts:
        """Return the counts when one more request has an answer, or failed."""
        is_failure = isinstance(answer, Failed)
        done, failed = self.done + (not is_failure), self.failed + is_failure
        return Counts(done, failed, self.remaining - 1, self.cost)


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
    requests: Sequence[ChatRequest],
    identity: Mapping[str, str],
    store: ReplyStore,
    limits: Limits,
) -> Estimate:
    """Return what the answers of the model ``identity`` would need; no model and no key does it."""
    distinct = list({request_text(identity, request): request for request in requests}.values())
    stored = store.get(identity, distinct)
    missing = [request for request, reply in zip(distinct, stored, strict=True) if reply is None]
    cost = sum(limits.cost_at_most(request) for request in missing) if limits.priced else None
    tokens = sum(prompt_tokens_at_most(request) + request.max_tokens for request in missing)
    return Estimate(len(distinct) - len(missing), len(missing), cost, tokens)


def shown_by(advance: Advance) -> Callable[[Counts], None]:
    """Return a progress callback that shows its counts in a bar."""

    def show(counts: Counts) -> None:
        notes = [f"{counts.failed} failed"] if counts.failed else []
        notes += [f"cost {counts.cost:.4g}"] if counts.cost is not None else []
        advance(counts.done + counts.failed, counts.total, ", ".join(notes))

    return show


class Completions:
    """A model with the store of its replies and its budget."""

    def __init__(
        self,
        model: ChatModel,
        store: ReplyStore,
        budget: Budget | None = None,
        *,
        progress: Callable[[Counts], None] | None = None,
    ) -> None:
        """Ask ``model`` for what ``store`` does not hold.

        Args:
            model: who answers.
            store: where every reply is stored as it arrives.
            budget: asked before each request; shared by all that one evaluation does.
            progress: called at the beginning and after each request.
        """
        self.model = model
        self.store = store
        self.budget = budget or Budget()
        self._progress = progress

    @property
    def served_models(self) -> list[str]:
        """The names that the server gave the model, by the first stored reply of each."""
        return [served.name for served in self.store.served(self.model.identity)]

    def answer(self, requests: Sequence[ChatRequest]) -> list[Answer]:
        """Return the answer to each request, in order; raises as :meth:`complete`."""
        answers = dict(self.complete(requests))
        return [answers[number] for number in range(len(requests))]

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
        counts = Counts(len(equal) - len(missing), 0, len(missing), None)
        self._tell(counts)
        for first, reply in replies.items():
            if reply is not None:
                yield from ((number, reply) for number in equal[first])
        with self.store.journal(identity) as journal:
            for first, answer in self._ask(requests, missing, journal, counts):
                yield from ((number, answer) for number in equal[first])

    def _ask(
        self, requests: Sequence[ChatRequest], missing: Sequence[int], journal: Journal, at: Counts
    ) -> Iterator[tuple[int, Answer]]:
        """Yield answers of the model as they arrive; the journal has each before."""
        waiting, outage = deque(missing), Outage("LLM")
        sent: dict[Future[Answer], int] = {}
        width = self.model.concurrency
        with ThreadPoolExecutor(width, thread_name_prefix="llm") as pool:
            while waiting or sent:
                while waiting and len(sent) < width and self.budget.reserve(requests[waiting[0]]):
                    number = waiting.popleft()
                    sent[pool.submit(self._stored_answer, requests[number], journal)] = number
                if not sent:
                    raise self.budget.reached(at.done, len(waiting))
                arrived, _ = wait(sent, return_when=FIRST_COMPLETED)
                for future in [future for future in sent if future in arrived]:
                    number, answer = sent.pop(future), future.result()
                    self.budget.spend(requests[number], answer)
                    at = at.after(answer)
                    self._tell(at)
                    outage.note(answer if isinstance(answer, Failed) else None)
                    outage.check()
                    yield number, answer

    def _stored_answer(self, request: ChatRequest, journal: Journal) -> Answer:
        answer = self.model.answer(request)
        if isinstance(answer, Completion):
            journal.add(request, answer)
        return answer

    def _tell(self, counts: Counts) -> None:
        if self._progress is not None:
            is_priced = self.budget.limits.priced
            self._progress(counts._replace(cost=self.budget.cost if is_priced else None))
