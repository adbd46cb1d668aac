"""Answers for many requests: those that are stored, and the others from the model, in a budget.

Only distinct requests that are not stored are asked, as many at a time as the model allows, and
each reply is on the disk before its place is given to another request. So a process that is killed
repeats at most that many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import NamedTuple

from rag_assets.errors import ModelUnavailable, NotServed
from rag_assets.llm.budget import Budget, Limits, prompt_tokens_at_most
from rag_assets.llm.client import Answer, ChatModel, ChatRequest, Completion, Failure
from rag_assets.llm.replies import Journal, ReplyStore, request_text
from rag_assets.progress import Advance

GIVE_UP_AFTER = 8
"""Requests in a row that a server did not serve in spite of retries: it will not serve the rest."""


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
    distinct = _distinct(identity, requests)
    known = store.get(identity, distinct)
    missing = [one for one, reply in zip(distinct, known, strict=True) if reply is None]
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
        return [one.name for one in self.store.served(self.model.identity)]

    def answer(self, requests: Sequence[ChatRequest]) -> list[Answer]:
        """Return the answer to each request, in order; raises as :meth:`complete`."""
        answers = dict(self.complete(requests))
        return [answers[number] for number in range(len(requests))]

    def complete(self, requests: Sequence[ChatRequest]) -> Iterator[tuple[int, Answer]]:
        """Yield (number of a request, its answer): first what is stored, then as it arrives.

        Equal requests are asked once. A request without an answer has a :class:`Failure` with its
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
        same = {own[0]: own for own in numbers.values()}
        known = self.store.get(identity, [requests[first] for first in same])
        replies = dict(zip(same, known, strict=True))
        missing = [first for first, reply in replies.items() if reply is None]
        tally = _Tally(len(same) - len(missing), len(missing), self._tell)
        for first, reply in replies.items():
            if reply is not None:
                yield from ((number, reply) for number in same[first])
        with self.store.journal(identity) as journal:
            for first, answer in self._ask({one: requests[one] for one in missing}, journal, tally):
                yield from ((number, answer) for number in same[first])

    def _ask(
        self, requests: Mapping[int, ChatRequest], journal: Journal, tally: _Tally
    ) -> Iterator[tuple[int, Answer]]:
        waiting = deque(requests)
        sent: dict[Future[Answer], int] = {}
        unserved: list[Failure] = []
        width = self.model.concurrency
        with ThreadPoolExecutor(width, thread_name_prefix="llm") as pool:
            while waiting or sent:
                while waiting and len(sent) < width and self.budget.reserve(requests[waiting[0]]):
                    number = waiting.popleft()
                    sent[pool.submit(self._stored_answer, requests[number], journal)] = number
                if not sent:
                    raise self.budget.reached(tally.done, len(waiting))
                arrived, _ = wait(sent, return_when=FIRST_COMPLETED)
                for future in [one for one in sent if one in arrived]:
                    number = sent.pop(future)
                    answer = future.result()
                    self.budget.spend(requests[number], answer)
                    tally.count(answer)
                    unserved = _unserved(unserved, answer)
                    yield number, answer

    def _stored_answer(self, request: ChatRequest, journal: Journal) -> Answer:
        answer = self.model.answer(request)
        if isinstance(answer, Completion):
            journal.add(request, answer)
        return answer

    def _tell(self, done: int, failed: int, remaining: int) -> None:
        if self._progress is not None:
            cost = self.budget.cost if self.budget.limits.priced else None
            self._progress(Counts(done, failed, remaining, cost))


class _Tally:
    """Counts answers, and tells."""

    def __init__(self, done: int, remaining: int, tell: Callable[[int, int, int], None]) -> None:
        self.done, self.failed, self.remaining = done, 0, remaining
        self._tell = tell
        tell(self.done, self.failed, self.remaining)

    def count(self, answer: Answer) -> None:
        is_failure = isinstance(answer, Failure)
        self.done += not is_failure
        self.failed += is_failure
        self.remaining -= 1
        self._tell(self.done, self.failed, self.remaining)


def _distinct(identity: Mapping[str, str], requests: Iterable[ChatRequest]) -> list[ChatRequest]:
    return list({request_text(identity, request): request for request in requests}.values())


def _unserved(before: list[Failure], answer: Answer) -> list[Failure]:
    """Return the failures to serve at the end of the row of answers; refuse a row too long."""
    if not isinstance(answer, Failure) or answer.kind == "answer":
        return []
    if answer.kind == "endpoint":
        raise ModelUnavailable(f"LLM: {answer.reason}")
    row = [*before, answer]
    if len(row) >= GIVE_UP_AFTER:
        raise NotServed(
            f"LLM: {len(row)} requests in a row were not served in spite of retries, the last "
            f"one: {row[-1].reason}; the answers so far are stored, run again later"
        )
    return row
