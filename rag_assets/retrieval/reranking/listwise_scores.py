"""Candidates put in order by a language model, a window of them at a time, from the end upwards.

Sun et al.: Is ChatGPT Good at Search? Investigating Large Language Models as Re-Ranking Agents
(2023): the model is shown the last ``window`` candidates and answers with their order; the window
then moves up by ``step``, so that the best of a window meet those above it. The last window always
begins at the first candidate. With ``step`` below ``window`` the best ``window - step`` come to the
top, wherever they stood.

Candidates of equal text are shown once and have equal scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from rag_assets.errors import UsageError
from rag_assets.llm.client import ChatRequest, Completion
from rag_assets.llm.completions import Completions
from rag_assets.llm.templates import Template
from rag_assets.retrieval.reranking.candidates import Candidates, Scores
from rag_assets.retrieval.reranking.permutation import NoOrder, read_permutation

PLACES = ("query", "passages")
"""What a prompt must have a place for; ``n``, the number of passages, is allowed besides."""


@dataclass(frozen=True)
class Asking:
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


def rerank_listwise(
    candidates: Sequence[Candidates],
    asking: Asking,
    completions: Completions,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Scores], dict[str, str], dict[str, list[Completion]]]:
    """Return 1 / rank for every candidate of every query, why queries have none, and answers.

    The windows of one query follow each other; those of different queries are asked together.

    Args:
        candidates: of each query, in the order of the input.
        asking: how they are shown.
        completions: the model, its cache and its budget.
        progress: called with (queries that are done, queries).

    Returns:
        Scores, NaN where there are none; query id -> reason for queries that failed; and query id
        -> the answers about its windows, for the others.

    Raises:
        BudgetReached: the limits allow no more; what was answered is in the cache.
        ModelUnavailable: the endpoint refuses everything, or does not serve; likewise.
    """
    lists = [_opened(one, asking) for one in candidates]
    while True:
        todo = [one for one in lists if one.is_open]
        if progress is not None:
            progress(len(lists) - len(todo), len(lists))
        if not todo:
            break
        requests = [asking.request(one.query, one.shown) for one in todo]
        for one, answer in zip(todo, completions.answer(requests), strict=True):
            if isinstance(answer, Completion):
                one.answers.append(answer)
            one.take(read_permutation(answer, len(one.shown)))
    pairs = list(zip(candidates, lists, strict=True))
    failures = {one.query_id: own.failure for one, own in pairs if own.failure is not None}
    answers = {one.query_id: own.answers for one, own in pairs if own.failure is None}
    return [own.scores(one.texts) for one, own in pairs], failures, answers


def _opened(one: Candidates, asking: Asking) -> _List:
    texts = list(dict.fromkeys(one.texts))
    return _List(one.query, texts, windows(len(texts), asking.window, asking.step))
