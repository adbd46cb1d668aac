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
from rag_assets.servers.client import Retries, ServedModelOptions
from rag_assets.servers.secrets import host_of, is_loopback
from rag_assets.servers.transport import MEBIBYTE, Server

BASE_URL_VARIABLE = "OPENAI_BASE_URL"
API_KEY_VARIABLE = "OPENAI_API_KEY"
MODEL_VARIABLE = "RAG_ASSETS_LLM_MODEL"
DEFAULT_BASE_URL = "https://api.openai.com/v1"

_GIVEN: ContextVar[Mapping[str, str]] = ContextVar("given_keys", default=MappingProxyType({}))


@dataclass(frozen=True)
class Endpoint:
    """A server that speaks the OpenAI protocol, or ``/rerank``, and how to treat it.

    Attributes:
        model: the model's name at the server.
        base_url: address up to and with the version, as ``http://127.0.0.1:8080/v1``.
        api_key_variable: the environment variable that holds the key; None: the server needs none.
            Only the name is ever stored: the key is in no fingerprint, log or error.
        timeout: seconds for one attempt, to the last byte of its answer.
        concurrency: requests at a time.
        retries: further attempts after a rate limit, a time-out or a server error.
        backoff: seconds before the first retry; doubled for each further one.
    """

    model: str
    base_url: str = DEFAULT_BASE_URL
    api_key_variable: str | None = API_KEY_VARIABLE
    timeout: float = 60.0
    concurrency: int = 4
    retries: int = 4
    backoff: float = 1.0

    def __post_init__(self) -> None:
        """Raise UsageError for what is no address, and without a model."""
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                f"LLM base_url '{self.place}' is no address; it must begin with http:// or https://"
            )
        if not self.model:
            raise UsageError(f"no LLM is named; give `model`, or set {MODEL_VARIABLE}")

    @classmethod
    def of(cls, options: ServedModelOptions) -> Endpoint:
        """Return the endpoint of options.

        Raises:
            UsageError: the address is none.
        """
        return cls(
            options.model,
            options.base_url,
            options.api_key_env,
            timeout=options.timeout,
            concurrency=options.concurrency,
            retries=options.retries,
            backoff=options.backoff,
        )

    @property
    def place(self) -> str:
        """The address as it may be shown and stored: without user, password and query."""
        return Server(self.base_url).place

    @property
    def described(self) -> dict[str, str]:
        """The model's name and its server: what stands for them in caches and fingerprints."""
        return {"model": self.model, "server": self.place}

    def retrying(self, sleep: Callable[[float], None] = time.sleep) -> Retries:
        """Return when a request is sent again; ``sleep`` waits."""
        return Retries(self.retries, self.backoff, sleep=sleep)

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

    def api_key(self) -> str | None:
        """Return the key; None where none is sent.

        Raises:
            UsageError: the variable is not set.
        """
        if self.api_key_variable is None:
            return None
        key = key_of(self.api_key_variable)
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
    variable = API_KEY_VARIABLE if needs_key else None
    return Endpoint(model or environ.get(MODEL_VARIABLE, ""), base_url, variable)


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
