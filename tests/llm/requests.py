"""Requests and endpoints that several tests use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rag_assets.llm.client import Answer, ChatRequest, Completion, Failure, Message
from rag_assets.llm.endpoint import Endpoint
from rag_assets.llm.openai_compatible import OpenAICompatible
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
