"""Requests and endpoints that several tests use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from rag_assets.llm.client import Answer, ChatModel, ChatRequest, Completion, Failure, Message
from rag_assets.llm.endpoint import Endpoint
from rag_assets.llm.openai_server import OpenAICompatible
from rag_assets.llm.replies import ReplyStore
from tests.llm.server import Server


def asking(text: str, **settings: Any) -> ChatRequest:
    return ChatRequest((Message("user", text),), template="test/1", **settings)


def endpoint(server: Server, **settings: Any) -> Endpoint:
    quick = Endpoint("tiny", server.base_url, None, timeout=5.0, backoff=0.01)
    return replace(quick, **settings)


def model(server: Server, **settings: Any) -> OpenAICompatible:
    return OpenAICompatible(endpoint(server, **settings))


def completion(answer: Answer) -> Completion:
    assert isinstance(answer, Completion), answer
    return answer


def failure(answer: Answer) -> Failure:
    assert isinstance(answer, Failure), answer
    return answer


def answers_of(model: ChatModel, requests: Sequence[ChatRequest]) -> list[Answer]:
    """Ask for all, as many at a time as the model allows; nothing is stored."""
    with ThreadPoolExecutor(model.concurrency) as pool:
        return list(pool.map(model.answer, requests))


def untimed(answers: Sequence[Answer]) -> list[Answer]:
    """The answers without their times, which every one has."""
    timed = [one for one in answers if isinstance(one, Completion)]
    assert all(one.seconds and one.seconds > 0 and one.time for one in timed)
    return [
        one._replace(seconds=None, time=None) if isinstance(one, Completion) else one
        for one in answers
    ]


def store_replies(
    folder: Path, identity: Mapping[str, str], replies: Sequence[tuple[ChatRequest, Completion]]
) -> None:
    """Store what was never asked."""
    with ReplyStore(folder).journal(identity) as journal:
        for request, reply in replies:
            journal.add(request, reply)
