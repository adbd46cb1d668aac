"""What a language model is asked, what comes back, and which model it is.

An experiment, a program or variables of the environment say together which one is asked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from rag_assets.errors import UsageError
from rag_assets.servers.client import ServedModelOptions, checked_address
from rag_assets.servers.failures import Failed as Failed
from rag_assets.servers.secrets import host_of, is_loopback
from rag_assets.servers.transport import Server

STOP = "stop"
"""The answer is whole."""

LENGTH = "length"
"""The answer was cut at ``max_tokens``."""

REFUSAL = "refusal"
"""The model, or a filter before it, declined; ``text`` says how, when it is known."""


class Message(NamedTuple):
    """One turn of a conversation; ``role`` is ``system``, ``user`` or ``assistant``."""

    role: str
    content: str


@dataclass(frozen=True)
class ChatRequest:
    """All that determines an answer, but the model.

    Attributes:
        messages: the conversation so far.
        temperature: 0 is the least random; None leaves it to the model's own default.
        seed: of the sampling, where the server honours it; None sends none.
        max_tokens: most tokens of the answer.
        template: name and version of the prompt, as ``hyde/1``; no part of what is asked.
        sample: 0, 1, ... where the same is asked more than once, for several answers.
    """

    messages: tuple[Message, ...]
    temperature: float | None = 0.0
    seed: int | None = 0
    max_tokens: int = 256
    template: str = ""
    sample: int = 0

    def content(self) -> dict[str, object]:
        """Return what identifies the request, as JSON can hold it: what a server sees of it."""
        return {
            "messages": [list(message) for message in self.messages],
            "temperature": None if self.temperature is None else float(self.temperature),
            "seed": self.seed,
            "max_tokens": self.max_tokens,
            "sample": self.sample,
        }


class Completion(NamedTuple):
    """An answer, which may have been paid for; a refusal and a half answer are answers too.

    Attributes:
        text: what the model wrote.
        prompt_tokens: tokens of the request as the server counts them, None when it does not.
        completion_tokens: tokens of the answer, likewise.
        finish_reason: ``stop``, ``length``, ``refusal``, or another word of the server's.
        seconds: what the request took when it was made; None where nobody looked.
        served_model: the name that the server gives the model that answered; None: it gives none.
        time: when the answer came, in ISO 8601, UTC; None where nobody looked.
    """

    text: str
    prompt_tokens: int | None
    completion_tokens: int | None
    finish_reason: str
    seconds: float | None = None
    served_model: str | None = None
    time: str | None = None


Answer = Completion | Failed


def now() -> str:
    """Return the time as :attr:`Completion.time` has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class ChatModel(Protocol):
    """A language model behind a server or in this process."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What determines the model's answers besides the request; holds no secret."""
        ...

    @property
    def concurrency(self) -> int:
        """How many requests it may be given at a time."""
        ...

    def answer(self, request: ChatRequest) -> Answer:
        """Answer a request, in any thread; a bad answer is a :class:`Failed`, never an error.

        Raises:
            ModelUnavailable: no request can succeed.
        """
        ...


BASE_URL_VARIABLE = "OPENAI_BASE_URL"
API_KEY_VARIABLE = "OPENAI_API_KEY"
MODEL_VARIABLE = "RAG_ASSETS_LLM_MODEL"
DEFAULT_BASE_URL = "https://api.openai.com/v1"
NO_MODEL = f"no LLM is named; give `model`, or set {MODEL_VARIABLE}"


def model_named(model: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the name of a model at its server: as it is given, else that of the variable.

    Raises:
        UsageError: there is neither.
    """
    name = model or environ.get(MODEL_VARIABLE)
    if not name:
        raise UsageError(NO_MODEL)
    return name


def address_of(base_url: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the address of an experiment's language model.

    Texts leave this machine only for a host that the experiment names. So ``OPENAI_BASE_URL``
    counts for a server on this machine alone; whoever can set a variable gets no documents.

    Args:
        base_url: as the experiment names it; None: that of the variable, else OpenAI's.
        environ: the variables.

    Raises:
        UsageError: only the variable names it, and it is another machine's, or no address.
    """
    given = environ.get(BASE_URL_VARIABLE)
    if base_url or not given:
        return base_url or DEFAULT_BASE_URL
    if not is_loopback(given):
        raise UsageError(
            f"{BASE_URL_VARIABLE} names {host_of(given)}, and the experiment does not: texts leave "
            "this machine only for a host that the experiment names; add to `llm` the line "
            f"`base_url: {Server(given).place}`, or unset the variable"
        )
    try:
        return checked_address(given)
    except ValueError as error:
        problem = str(error)
    raise UsageError(f"{BASE_URL_VARIABLE} {problem}")  # out here, nothing is its context


def endpoint_from_environment(
    model: str | None = None, environ: Mapping[str, str] = os.environ
) -> ServedModelOptions:
    """Return the model that ``OPENAI_BASE_URL`` and ``RAG_ASSETS_LLM_MODEL`` name.

    The key is that of ``OPENAI_API_KEY``. A server on this machine needs none: without the
    variable none is sent there.

    Args:
        model: goes before the variable.
        environ: the variables.

    Raises:
        UsageError: no model is named, or the address is that of another machine.
    """
    base_url = address_of(None, environ)
    needs_key = bool(environ.get(API_KEY_VARIABLE)) or not is_loopback(base_url)
    variable = API_KEY_VARIABLE if needs_key else None
    name = model_named(model, environ)
    return ServedModelOptions(model=name, base_url=base_url, api_key_env=variable)
