"""What a language model is asked, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from rag_assets.servers.failures import Failed as Failed

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


API_KEY_VARIABLE = "OPENAI_API_KEY"
DEFAULT_BASE_URL = "https://api.openai.com/v1"
