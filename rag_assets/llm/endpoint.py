"""Where an OpenAI-compatible server is, and its key: by configuration, a program or variables."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import urlsplit

from rag_assets.errors import UsageError
from rag_assets.servers.client import MAX_WAIT, Retries
from rag_assets.servers.secrets import host_of, is_loopback
from rag_assets.servers.transport import MEBIBYTE, Server

BASE_URL_VARIABLE = "OPENAI_BASE_URL"


API_KEY_VARIABLE = "OPENAI_API_KEY"


MODEL_VARIABLE = "RAG_ASSETS_LLM_MODEL"


DEFAULT_BASE_URL = "https://api.openai.com/v1"


_GIVEN: ContextVar[Mapping[str, str]] = ContextVar("given_keys", default=MappingProxyType({}))


@dataclass(frozen=True)
class Endpoint:
    """A server that speaks the OpenAI protocol, and how to treat it.

    Attributes:
        model: the model's name at the server.
        base_url: address up to and with the version, as ``http://127.0.0.1:8080/v1``.
        api_key_variable: the environment variable that holds the key; None: the server needs none.
            Only the name is ever stored: the key is in no fingerprint, log or error.
        identity: what stands for the server in the cache; default ``base_url`` without user and
            query. Two addresses of the same model can be given the same.
        timeout: seconds for one attempt, to the last byte of its answer.
        concurrency: requests at a time.
        retries: further attempts after a rate limit, a time-out or a server error.
        backoff: seconds before the first retry; doubled for each further one.
        max_backoff: longest wait, in seconds; a longer ``Retry-After`` ends the attempts.
        token_limit: the name under which the server knows ``max_tokens``.
    """

    model: str
    base_url: str = DEFAULT_BASE_URL
    api_key_variable: str | None = API_KEY_VARIABLE
    identity: str = ""
    timeout: float = 60.0
    concurrency: int = 4
    retries: int = 4
    backoff: float = 1.0
    max_backoff: float = MAX_WAIT
    token_limit: str = "max_tokens"

    def __post_init__(self) -> None:
        """Raise UsageError for a value that cannot be."""
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                f"LLM base_url '{self.place}' is no address; it must begin with http:// or https://"
            )
        if not self.model:
            raise UsageError(f"no LLM is named; give `model`, or set {MODEL_VARIABLE}")
        if self.token_limit not in ("max_tokens", "max_completion_tokens"):
            raise UsageError(
                f"LLM token_limit '{self.token_limit}'; allowed: max_tokens, max_completion_tokens"
            )
        for name in ("timeout", "concurrency"):
            if not getattr(self, name) > 0:
                raise UsageError(f"LLM {name} is {getattr(self, name)}; it must be above 0")
        for name in ("retries", "backoff", "max_backoff"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"LLM {name} is {getattr(self, name)}; it must be 0 or more")

    @property
    def place(self) -> str:
        """The address as it may be shown and stored: without user, password and query."""
        return Server(self.base_url).place

    def retrying(self, sleep: Callable[[float], None] = time.sleep) -> Retries:
        """Return when a request is sent again; ``sleep`` waits."""
        return Retries(self.retries, self.backoff, self.max_backoff, sleep)

    @property
    def described(self) -> dict[str, str]:
        """The model's name and its server: what stands for them in caches and fingerprints."""
        return {"model": self.model, "server": self.identity or self.place}

    def server(self, most_mebibytes: int = 16) -> Server:
        """Return who is asked, with the key, and the bounds of a request.

        Raises:
            UsageError: the key's variable is not set, or holds what no header can.
        """
        key = self.api_key()
        if key is not None and not (key.isascii() and key.isprintable()):
            raise UsageError(
                f"environment variable {self.api_key_variable} holds no API key: a key has "
                "printable ASCII characters only"
            )
        most = most_mebibytes * MEBIBYTE
        return Server(self.base_url, key, timeout=self.timeout, most_bytes=most)

    def api_key(self, environ: Mapping[str, str] | None = None) -> str | None:
        """Return the key; None where none is sent.

        Raises:
            UsageError: the variable is not set.
        """
        if self.api_key_variable is None:
            return None
        name = self.api_key_variable
        key = key_of(name) if environ is None else environ.get(name, "").strip()
        if not key:
            raise UsageError(
                f"environment variable {self.api_key_variable} is not set; it must hold the API "
                f"key of {self.place}"
            )
        return key


def address_of(base_url: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the address of an experiment's language model.

    Texts leave this machine only for a host that the experiment names. So ``OPENAI_BASE_URL``
    counts for a server on this machine alone; whoever can set a variable gets no documents.

    Args:
        base_url: as the experiment names it; None: that of the variable, else OpenAI's.
        environ: the variables.

    Raises:
        UsageError: only the variable names it, and it is another machine's.
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
    return given


def endpoint_from_environment(
    model: str | None = None, environ: Mapping[str, str] = os.environ
) -> Endpoint:
    """Return the endpoint that ``OPENAI_BASE_URL`` and ``RAG_ASSETS_LLM_MODEL`` name.

    The key is that of ``OPENAI_API_KEY``. A server on this machine needs none: without the
    variable none is sent there.

    Args:
        model: goes before the variable.
        environ: the variables.

    Raises:
        UsageError: no model is named, or the address is none, or that of another machine.
    """
    base_url = address_of(None, environ)
    needs_key = bool(environ.get(API_KEY_VARIABLE)) or not is_loopback(base_url)
    return Endpoint(
        model or environ.get(MODEL_VARIABLE, ""),
        base_url,
        API_KEY_VARIABLE if needs_key else None,
    )


@contextmanager
def given_keys(keys: Mapping[str, str]) -> Iterator[None]:
    """Let models that are opened in a block use these keys.

    Args:
        keys: name of an environment variable -> the key that it would hold.
    """
    token = _GIVEN.set(keys)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def key_of(variable: str) -> str:
    """Return the key that an experiment names by a variable; empty where there is none."""
    return (_GIVEN.get().get(variable) or os.environ.get(variable, "")).strip()
