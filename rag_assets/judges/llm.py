"""``type: llm``: a language model judges, and its reply ends with a score.

Whether it judges its own work is told by the names of models. One model has several: providers put
their own before it (``openai/gpt-4o``), and a version stands behind it (``gpt-4o-2024-08-06``), so
these are left out of the comparison. Two sizes or generations are two models.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from rag_assets.judges.base import (
    CORRECTNESS,
    HIGHEST,
    RELEVANCE,
    UNPARSED,
    Item,
    Judge,
    Kind,
    RelevanceItem,
    Verdict,
    parse,
)
from rag_assets.llm.client import (
    Answer,
    ChatRequest,
    Completion,
    Failed,
    Template,
    packaged_template,
    passages_block,
    read_template,
)
from rag_assets.llm.completions import ModelSession
from rag_assets.llm.replies import reply_key
from rag_assets.options import Number
from rag_assets.store.canonical import canonical_json

PLACES: Mapping[Kind, tuple[str, ...]] = {
    RELEVANCE: ("question", "passage"),
    CORRECTNESS: ("question", "golds", "answer"),
}
"""What a prompt must have a place for."""

Stored = Callable[[Sequence[ChatRequest]], Sequence[Completion | None]]
"""Returns the stored reply to each request."""

_VERSION = re.compile(r"(?:[-@:](?:\d{4}-\d{2}-\d{2}|\d{8}|latest|free))+$")


class LlmJudge(Judge):
    """A language model that is asked for a score, with its reasons before it.

    ``llm`` names one of the experiment's ``llms``; without it, it is the experiment's ``llm``.
    ``relevance_prompt`` and ``correctness_prompt`` are prompt files in place of ours, with places
    for ``question`` and ``passage``, or ``question``, ``golds`` and ``answer``; they must ask for a
    last line ``##final score: n``. A reply without it is asked for once more, then the verdict is
    missing.
    """

    file_options: ClassVar[tuple[str, ...]] = ("relevance_prompt", "correctness_prompt")

    type: Literal["llm"]
    llm: str | None = None
    relevance_prompt: Path | None = None
    correctness_prompt: Path | None = None
    temperature: Annotated[Number, Field(ge=0)] | None = 0.0
    seed: Annotated[int, Field(ge=0, strict=True)] | None = 0
    max_tokens: Annotated[int, Field(ge=1, strict=True)] = 512

    def described(self, kind: Kind) -> Mapping[str, Any]:
        """Return the options and the prompt of the kind; which model it is says its identity."""
        options = self.model_dump(include={"type", "temperature", "seed", "max_tokens"})
        return {**options, **self.template(kind).as_config()}

    def template(self, kind: Kind) -> Template:
        """Return the prompt for a kind: ours, or the file's."""
        file = self.relevance_prompt if kind == RELEVANCE else self.correctness_prompt
        if file is None:
            return packaged_template(f"judge_{kind}", PLACES[kind], ())
        return read_template(file, PLACES[kind], ())

    def requests(self, items: Sequence[Item], *, again: bool = False) -> list[ChatRequest]:
        """Return what is asked of each item, all of one kind; ``again``: for the next sample."""
        if not items:
            return []
        template = self.template(items[0].kind)
        options = (self.temperature, self.seed, self.max_tokens, template.label)
        requests = [ChatRequest(template.filled(_values(item)), *options) for item in items]
        return [asked_again(request) for request in requests] if again else requests

    def open_requests(self, items: Sequence[Item], stored: Stored) -> list[ChatRequest]:
        """Return the requests that the verdicts on items can take, at most.

        The first one of each, and the second unless the first reply is ``stored`` and has a score.
        """
        first = self.requests(items)
        return first + [
            asked_again(request)
            for request, reply in zip(first, stored(first), strict=True)
            if reply is None or parse(reply.text, HIGHEST[items[0].kind]) is None
        ]

    def verdicts(
        self, items: Sequence[Item], session: ModelSession, *, again: bool = False
    ) -> Iterable[Verdict]:
        """Ask for each verdict that is not stored; once more where the reply has no score."""
        if not items:
            return []
        highest = HIGHEST[items[0].kind]
        with session.completions(len(items), self.llm) as completions:

            def read(requests: Sequence[ChatRequest]) -> list[Verdict]:
                keys = (reply_key(completions.model.identity, request) for request in requests)
                replies = zip(completions.answer(requests), keys, strict=True)
                return [_read(*reply, highest) for reply in replies]

            requests = self.requests(items, again=again)
            verdicts = read(requests)
            unparsed = [n for n, verdict in enumerate(verdicts) if verdict.problem == UNPARSED]
            second = read([asked_again(requests[number]) for number in unparsed])
            session.served_models.extend(completions.served_models)
        of_second = dict(zip(unparsed, second, strict=True))
        return [of_second.get(number, verdict) for number, verdict in enumerate(verdicts)]


def asked_again(request: ChatRequest) -> ChatRequest:
    """Return the request for another reply to the same prompt."""
    seed = None if request.seed is None else request.seed + 1
    return replace(request, sample=request.sample + 1, seed=seed)


def _values(item: Item) -> Mapping[str, str]:
    # The mark is made of all texts: none of them can write it, nor that of another.
    nonce = canonical_json(list(item.texts))
    if isinstance(item, RelevanceItem):
        return {"question": item.question, "passage": passages_block([item.passage], nonce)}
    golds, answer = passages_block(item.golds, nonce), passages_block([item.answer], nonce)
    return {"question": item.question, "golds": golds, "answer": answer}


def _read(reply: Answer, key: str, highest: int) -> Verdict:
    if isinstance(reply, Failed):
        return Verdict(None, reply.reason, unanswered=True)
    grade = parse(reply.text, highest)
    return Verdict(grade, UNPARSED if grade is None else None, key)


def model_name(name: str) -> str:
    """Return what two names of one model have in common."""
    return _VERSION.sub("", name.strip().lower().rsplit("/", 1)[-1])
