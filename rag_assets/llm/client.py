"""What a language model is asked, and what comes back.

A prompt is a file: ``version: <number>``, then for each message a line ``[system]``, ``[user]`` or
``[assistant]`` and its text. ``{name}`` is a place for a value; other braces stand for themselves.
Lines that begin with ``#`` before the first message are comments.

A passage may hold anything: instructions, other numbers, an imitation of the end of the passages.
So each begins behind a line with its number and a mark, and a last such line ends them. The mark
is the HMAC-SHA-256 of all passages, keyed by what else the request is about (its question, and the
experiment's seed): 128 bits that cannot be guessed by who does not know all of that; and who does
would have to write a text that holds a hash of itself. It is no random number, so that an equal
request has equal bytes, and its reply is found again.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rag_assets.errors import ConfigError
from rag_assets.input_files import content_file
from rag_assets.servers.failures import Failed as Failed
from rag_assets.store.canonical import canonical_json

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

_DIGITS = 32


def passages_block(texts: Sequence[str], nonce: str) -> str:
    """Return passages as a prompt shows them: numbered from [1], each behind a line with the mark.

    Args:
        texts: the passages, in the order of their numbers.
        nonce: what else the request is about; the same for the same request.

    Returns:
        Lines ``<mark> [n]``, each before its passage, and ``<mark> end``; of no passage, the last
        one alone.
    """
    mark = passages_mark(texts, nonce)
    passages = [f"<{mark}> [{number}]\n{text}\n" for number, text in enumerate(texts, start=1)]
    return "".join([*passages, f"<{mark}> end"])


def passages_mark(texts: Sequence[str], nonce: str) -> str:
    """Return the mark of a block: 32 hexadecimal digits that occur in none of its texts."""
    content, number = canonical_json(list(texts)), 0
    while True:
        key = canonical_json([nonce, number]).encode()
        mark = hmac.new(key, content.encode(), hashlib.sha256).hexdigest()[:_DIGITS]
        if not any(mark in text.lower() for text in texts):
            return mark
        number += 1


_ROLE = re.compile(r"\[(system|user|assistant)\]")
_VERSION = re.compile(r"version:\s*([0-9A-Za-z._-]+)\s*")
_PLACE = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True)
class Template:
    """A prompt.

    Attributes:
        name: the file's name without its suffix.
        version: as the file says; raised when the text changes.
        messages: with places for values.
    """

    name: str
    version: str
    messages: tuple[Message, ...]

    @property
    def label(self) -> str:
        """Name and version, as ``hyde/1``."""
        return f"{self.name}/{self.version}"

    def as_config(self) -> dict[str, Any]:
        """Return the prompt as a recipe names it."""
        return {"template": self.label, "messages": [list(message) for message in self.messages]}

    @property
    def places(self) -> frozenset[str]:
        """The names of the values that the prompt takes."""
        return frozenset(name for _, text in self.messages for name in _PLACE.findall(text))

    def filled(self, values: Mapping[str, object]) -> tuple[Message, ...]:
        """Return the messages with each place filled once: braces in a value stay as they are."""

        def value(match: re.Match[str]) -> str:
            return str(values[match[1]]) if match[1] in values else match[0]

        return tuple(Message(role, _PLACE.sub(value, text)) for role, text in self.messages)


def packaged_template(
    name: str, needed: Iterable[str], allowed: Iterable[str], instead: Path | None = None
) -> Template:
    """Return a prompt of the package, or that of a file ``instead``, as :func:`read_template`."""
    if instead is not None:
        return read_template(instead, needed, allowed)
    with resources.as_file(resources.files("rag_assets.llm") / "prompts" / f"{name}.txt") as file:
        return read_template(file, needed, allowed)


def read_template(path: Path, needed: Iterable[str], allowed: Iterable[str]) -> Template:
    """Return the prompt in a file.

    Args:
        path: the file.
        needed: values that the prompt must have a place for.
        allowed: values that it may have a place for besides.

    Raises:
        ConfigError: the file cannot be read, has no version or message, lacks a place that is
            needed, or has one that nothing fills.
    """
    try:
        lines = content_file(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        what = getattr(error, "strerror", None) or "not UTF-8"
        raise ConfigError(f"the prompt cannot be read: {what}", file=path) from error
    version = _VERSION.fullmatch(lines[0]) if lines else None
    if version is None:
        raise ConfigError("the first line must be `version: <number>`", file=path, line=1)
    template = Template(path.stem, version[1], _messages(lines, path))
    required, optional = frozenset(needed), frozenset(allowed)
    for name in sorted(required - template.places):
        problem = "the prompt does not use it; write {" + name + "}"
        raise ConfigError(problem, file=path, key=name)
    for name in sorted(template.places - required - optional):
        names = ", ".join(sorted(required | optional))
        raise ConfigError(f"unknown placeholder; allowed: {names}", file=path, key=name)
    return template


def _messages(lines: list[str], path: Path) -> tuple[Message, ...]:
    texts: list[tuple[str, list[str]]] = []
    for number, line in enumerate(lines[1:], start=2):
        role = _ROLE.fullmatch(line.strip())
        if role is not None:
            texts.append((role[1], []))
        elif texts:
            texts[-1][1].append(line)
        elif line.strip() and not line.startswith("#"):
            problem = "text before the first message; begin one by a line [system] or [user]"
            raise ConfigError(problem, file=path, line=number)
    messages = tuple(Message(role, "\n".join(text).strip()) for role, text in texts)
    if not any(message.role == "user" for message in messages):
        raise ConfigError("the prompt has no message [user]", file=path)
    return messages
