"""How requests are sent: to one server, within a time and a size, and with its credentials.

Our clients send by httpx2, ``qdrant-client`` by httpx, which is the same from outside. Here is the
part of these that carries a request, by the connections of httpcore, on which both stand: these
take a network of ours, which bounds the time of a whole request. No library gets to know a
credential: they are added to the request on its way, and taken out of what comes back, so none can
stand in a line of a log or in an error.
"""

from __future__ import annotations

import base64
import json
import logging
import ssl
import threading
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, Self
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from rag_assets.servers.failures import (
    ServerFailure,
    late,
    malformed,
    message_in,
    refused,
    retry_after,
    unconnected,
)
from rag_assets.servers.secrets import Secrets, is_loopback

MEBIBYTE = 2**20
_OF_AN_ERROR = 2**16
_SLICE = 2**16

_KEPT_SECONDS = 5.0
_KEPT_CONNECTIONS = 20
"""Connections that are kept for the next request, and how long: those of httpx."""

_CORES = {"httpx": "httpcore", "httpx2": "httpcore2"}
"""Library -> the package of its connections."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Server:
    """Who is asked, and within which bounds.

    Attributes:
        address: may hold user, password and query, which are sent and never shown.
        key: an API key; None sends none.
        header: which one holds the key.
        timeout: seconds for a whole request, from the connection to the last byte of the answer.
        silence: seconds within them in which nothing comes; None: all of them.
        most_bytes: of an answer.
        headers: further ones that hold credentials.
        hidden: the credentials in them.
    """

    address: str
    key: str | None = None
    header: Literal["authorization", "api-key"] = "authorization"
    timeout: float = 60.0
    silence: float | None = None
    most_bytes: int = 256 * MEBIBYTE
    headers: tuple[tuple[str, str], ...] = ()
    hidden: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The address as it may be shown: without user, password and query."""
        parts = urlsplit(self.address)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))

    @cached_property
    def secrets(self) -> Secrets:
        """All that a server could repeat."""
        parts = urlsplit(self.address)
        user = parts.netloc.rpartition("@")[0]
        words = [self.key or "", user, unquote(user), *self._user, parts.query, *self.hidden]
        words += [value for _, value in parse_qsl(parts.query)]
        if any(self._user):
            words.append(":".join(self._user))  # this is sent, in base64
        return Secrets(words)

    @property
    def credentials(self) -> dict[str, str]:
        """The headers that say who asks."""
        headers = dict(self.headers)
        if any(self._user):
            pair = base64.b64encode(":".join(self._user).encode()).decode()
            return {**headers, "authorization": f"Basic {pair}"}
        if self.key is None:
            return headers
        value = self.key if self.header == "api-key" else f"Bearer {self.key}"
        return {**headers, self.header: value}

    @property
    def _user(self) -> tuple[str, str]:
        parts = urlsplit(self.address)
        return unquote(parts.username or ""), unquote(parts.password or "")


class Transport:
    """Sends requests to one server, for the client of a library.

    No redirect is followed: key and texts are for the server that was named.
    """

    def __init__(self, library: Any, server: Server) -> None:  # noqa: ANN401 (a module)
        """Carry the requests of ``library``, ``httpx`` or ``httpx2``; nothing is sent yet."""
        self._library = library
        self._server = server
        self._clock = _Clock(server.timeout, server.silence)
        self._core = import_module(_CORES[library.__name__])
        self._connections = self._opened_connections(_proxy_of(server.address))

    def handle_request(self, request: Any) -> Any:  # noqa: ANN401 (the library's)
        """Return the answer to a request, read to its end.

        Raises:
            ServerFailure: there is none within the bounds, or it is an error.
        """
        status, headers, content = self._answer(self._with_credentials(request), check=True)
        secrets = self._server.secrets
        kind = headers.get("content-type", "application/json")
        return self._library.Response(
            status,
            headers={"content-type": secrets.hide(kind)},
            content=secrets.hide_in_answer(content),
            request=request,
        )

    def exchange(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and content of an answer, whatever the status.

        The request is sent as it is, for a library that signs it and so knows its credentials.

        Raises:
            ServerFailure: there is no answer within the bounds.
        """
        whole = self._library.Request(method, url, headers=headers, content=content)
        # The address as it was signed: the library's own may escape other characters.
        signed = self._core.Request(
            method, self._core.URL(url), headers=whole.headers.raw, content=content
        )
        return self._answer(signed, check=False)

    def send(self, method: str, target: str, headers: Mapping[str, str], content: bytes) -> bytes:
        """Return the answer to a request for a target, which is a path and may be a query too.

        Raises:
            ServerFailure: there is none within the bounds, or it is an error.
        """
        parts = urlsplit(self._server.address)
        url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{target}"
        request = self._library.Request(method, url, headers=headers, content=content)
        answer: bytes = self.handle_request(request).content
        return answer

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def __del__(self) -> None:
        """Close what nobody closed: a client of a model lives as long as the model."""
        # One that could not be opened has none; at the end of a process half of Python is gone,
        # `suppress` too.
        try:  # noqa: SIM105
            self._connections.close()
        except (AttributeError, TypeError):
            pass

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    def _answer(self, request: Any, *, check: bool) -> tuple[int, dict[str, str], bytes]:  # noqa: ANN401
        """Return status, headers in small letters, and content; ``check`` refuses an error."""
        started = time.perf_counter()
        try:
            self._clock.start()
            response = self._connections.handle_request(request)
            try:
                answer = self._read(response, check=check)
            finally:
                response.close()
            failure = None
        except ServerFailure as error:
            failure = error
        except self._core.TimeoutException:
            failure = late(self._server.timeout)
        except Exception as error:  # whatever a library makes of what a server sends
            failure = unconnected(self._server.secrets.line(str(error)) or type(error).__name__)
        seconds = time.perf_counter() - started
        _log.debug("%s: %s in %.2f s", self._server.place, failure or "answered", seconds)
        if failure is not None:  # out here, nothing is its context
            raise ServerFailure(str(failure), failure.kind, failure.status, failure.asked)
        return answer

    def _read(self, response: Any, *, check: bool) -> tuple[int, dict[str, str], bytes]:  # noqa: ANN401
        status = int(response.status)
        headers = {n.decode("latin-1").lower(): t.decode("latin-1") for n, t in response.headers}
        if check and not 200 <= status < 300:
            raise self._refused(response, headers, status)
        return status, headers, _content(headers, response.stream, self._server.most_bytes)

    def _refused(self, response: Any, headers: Mapping[str, str], status: int) -> ServerFailure:  # noqa: ANN401
        secrets = self._server.secrets
        if 300 <= status < 400:
            parts = urlsplit(headers.get("location", ""))
            other = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
            where = other if parts.netloc else "another path"
            return refused(status, secrets.line(f"a redirect to {where}, which is not followed"))
        try:
            content = _content(headers, response.stream, _OF_AN_ERROR, cut=True)
            message = message_in(json.loads(content)) or ""
        except (ServerFailure, ValueError, RecursionError):
            message = ""
        return refused(status, secrets.line(message), retry_after(headers))

    def _with_credentials(self, request: Any) -> Any:  # noqa: ANN401
        """Return a request with its credentials, as the connections take it."""
        server = self._server
        ours = {"accept-encoding": "gzip", **server.credentials}
        hidden = {b"authorization", b"api-key", *(name.lower().encode() for name in ours)}
        headers = [pair for pair in request.headers.raw if pair[0].lower() not in hidden]
        behind = urlsplit(server.address).query
        query = {"query": behind.encode()} if behind else {}
        return self._core.Request(
            request.method,
            self._core_url(request.url.copy_with(**query)),
            headers=[*headers, *((name.encode(), text.encode()) for name, text in ours.items())],
            content=request.read(),
            extensions={
                "timeout": dict.fromkeys(("connect", "read", "write", "pool"), server.timeout)
            },
        )

    def _opened_connections(self, proxy: str | None) -> Any:  # noqa: ANN401
        through = None
        if proxy is not None:
            parts = self._library.Proxy(proxy)
            through = self._core.Proxy(self._core_url(parts.url), parts.raw_auth)
        # Certificates are read where they are needed only.
        is_safe = self._server.address.startswith("https:")
        return self._core.ConnectionPool(
            ssl_context=self._library.create_ssl_context() if is_safe else None,
            proxy=through,
            max_connections=None,
            max_keepalive_connections=_KEPT_CONNECTIONS,
            keepalive_expiry=_KEPT_SECONDS,
            network_backend=_Network(self._core.SyncBackend(), self._clock),
        )

    def _core_url(self, url: Any) -> Any:  # noqa: ANN401
        return self._core.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
        )


class _Clock(threading.local):
    """When the time of this thread's request is over."""

    def __init__(self, timeout: float, silence: float | None) -> None:
        self.timeout = timeout
        self.silence = timeout if silence is None else silence
        self.end = 0.0

    def start(self) -> None:
        self.end = time.monotonic() + self.timeout

    def left(self) -> float:
        """Return the seconds that the next read or write may take.

        Raises:
            ServerFailure: there are none.
        """
        left = self.end - time.monotonic()
        if left <= 0:
            raise late(self.timeout)
        return min(left, self.silence)


class _Network:
    """Opens connections whose every read and write ends with the time of the request."""

    def __init__(self, inner: Any, clock: _Clock) -> None:  # noqa: ANN401
        self._inner, self._clock = inner, clock

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **more: Any) -> Any:  # noqa: ANN401
        stream = self._inner.connect_tcp(host, port, timeout=self._clock.left(), **more)
        return _Stream(stream, self._clock)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class _Stream:
    """A connection; ``timeout``, of one read, is the library's and does not count."""

    def __init__(self, inner: Any, clock: _Clock) -> None:  # noqa: ANN401
        self._inner, self._clock = inner, clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        content: bytes = self._inner.read(max_bytes, timeout=self._clock.left())
        return content

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _SLICE):
            self._inner.write(buffer[start : start + _SLICE], timeout=self._clock.left())

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None, timeout: float | None
    ) -> _Stream:
        stream = self._inner.start_tls(ssl_context, server_hostname, timeout=self._clock.left())
        return _Stream(stream, self._clock)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401
        return self._inner.get_extra_info(info)


def _content(
    headers: Mapping[str, str], stream: Iterable[bytes], most: int, *, cut: bool = False
) -> bytes:
    """Return the content of an answer; with ``cut``, the first ``most`` bytes of a longer one.

    Raises:
        ServerFailure: it is longer, damaged, or compressed in a way that was not asked for.
    """
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "", "gzip"):
        raise malformed("it has a compression that was not requested")
    inflater = zlib.decompressobj(wbits=31) if coding == "gzip" else None
    content = bytearray()
    for raw in stream:
        try:
            content += inflater.decompress(raw, most + 1 - len(content)) if inflater else raw
        except zlib.error:
            raise malformed("it is compressed and damaged") from None
        if len(content) > most:
            break
    if not cut and len(content) > most:
        raise malformed(f"it is longer than {most // MEBIBYTE} MiB")
    if not cut and inflater is not None and not inflater.eof:
        raise malformed("it is compressed, and its end is missing")
    return bytes(content[:most])


def _proxy_of(address: str) -> str | None:
    """Return the proxy that the environment names for an address, as httpx and urllib do.

    None for this machine: what is sent to it leaves it by no variable.
    """
    parts = urlsplit(address)
    if is_loopback(address) or proxy_bypass(parts.hostname or ""):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy
