"""What a language model is asked, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

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
        template: name and version of the prompt, as ``hyde/1``.
    """

    messages: tuple[Message, ...]
    temperature: float | None = 0.0
    seed: int | None = 0
    max_tokens: int = 256
    template: str = ""

    def content(self) -> dict[str, object]:
        """Return what identifies the request, as JSON can hold it."""
        return {
            "messages": [list(message) for message in self.messages],
            "temperature": None if self.temperature is None else float(self.temperature),
            "seed": self.seed,
            "max_tokens": self.max_tokens,
            "template": self.template,
        }


class Completion(NamedTuple):
    """An answer, which may have been paid for; a refusal and a half answer are answers too.

    Attributes:
        text: what the model wrote.
        prompt_tokens: tokens of the request as the server counts them, None when it does not.
        completion_tokens: tokens of the answer, likewise.
        finish_reason: ``stop``, ``length``, ``refusal``, or another word of the server's.
        seconds: what the request took when it was made; None where nobody looked.
    """

    text: str
    prompt_tokens: int | None
    completion_tokens: int | None
    finish_reason: str
    seconds: float | None = None


FailureKind = Literal["answer", "transient", "endpoint"]


class Failure(NamedTuple):
    """Why a request has no answer.

    Attributes:
        reason: one phrase, without any secret.
        kind: ``answer``: this one request, or its answer, is bad. ``transient``: rate limits,
            time-outs and server errors outlasted the retries. ``endpoint``: no request can
            succeed, because of the address, the key or the name of the model.
        maybe_paid: whether the server may have done the work and charged for it.
    """

    reason: str
    kind: FailureKind = "answer"
    maybe_paid: bool = False


Answer = Completion | Failure


class ChatModel(Protocol):
    """A language model behind a server or in this process."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What determines the model's answers besides the request; holds no secret."""
        ...

    def complete(self, requests: Sequence[ChatRequest]) -> list[Answer]:
        """Answer each request, in order; a bad answer is a :class:`Failure`, never an error."""
        ...
