"""Requests and endpoints that several tests use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rag_assets.llm.client import Answer, ChatModel, ChatRequest, Completion, Message
from rag_assets.llm.models import OpenAICompatible
from rag_assets.llm.replies import ReplyStore
from rag_assets.servers.client import ServedModelOptions
from rag_assets.servers.failures import Failed
from tests.llm.server import Server


def asking(text: str, **settings: Any) -> ChatRequest:
    return ChatRequest((Message("user", text),), template="test/1", **settings)


def served(base_url: str, **settings: Any) -> ServedModelOptions:
    quick = {"model": "tiny", "base_url": base_url, "timeout": 5.0, "backoff": 0.01}
    return ServedModelOptions.model_validate({**quick, **settings})


def model(server: Server, **settings: Any) -> OpenAICompatible:
    return OpenAICompatible(served(server.base_url, **settings))


def completion(answer: Answer) -> Completion:
    assert isinstance(answer, Completion), answer
    return answer


def failure(answer: Answer) -> Failed:
    assert isinstance(answer, Failed), answer
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
    with ReplyStore(folder).journal(identity) as journal:
        for request, reply in replies:
            journal.add(request, reply)
