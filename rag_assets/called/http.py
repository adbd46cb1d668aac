"""A server of the user's own: requests by a template, answers read by JMESPaths (jmespath.org).

A request is a template with placeholders; what is put into it is data, whatever characters it has.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, Field, JsonValue

from rag_assets.called.asked import AskedOptions
from rag_assets.called.hits import Rejected, described
from rag_assets.errors import UsageError
from rag_assets.options import Number, Role
from rag_assets.plain_text import shortened
from rag_assets.servers.client import Retries
from rag_assets.servers.failures import malformed, message_in
from rag_assets.servers.secrets import key_of
from rag_assets.servers.transport import MEBIBYTE, Server, Transport

MAX_BYTES = 64 * MEBIBYTE
"""Of one answer."""

_PLACEHOLDER = re.compile(r"\{(query|k|vector|question|contexts)(:json)?\}")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_CREDENTIAL = re.compile(
    r"(^|[-_.])(auth|authorization|cookie|credentials?|key|passw(or)?d|secret|sig|signature|token)$"
    r"|api-?_?key",
    re.IGNORECASE,
)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def _checked_path(text: str) -> str:
    import jmespath

    try:
        jmespath.compile(text)
    except jmespath.exceptions.JMESPathError as error:
        why = str(error).partition(": ")[2].partition(":\n")[0]
        raise ValueError(f"'{text}' is not a JMESPath: {why}") from error
    return text


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    for header, text in headers.items():
        if not _HEADER.fullmatch(header):
            raise ValueError(f"'{header}' is not the name of a header")
        if not (text.isascii() and text.isprintable()):
            raise ValueError(f"'{header}' must have printable ASCII characters only")
        if _CREDENTIAL.search(header) and not _VARIABLE.search(text):
            advice = "write ${NAME} instead, which is read from the environment and never stored"
            raise ValueError(f"'{header}' holds a credential; {advice}")
    return {header.lower(): text for header, text in headers.items()}


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError("must be an address that begins with http:// or https://")
    if parts.username or parts.password or parts.fragment:
        raise ValueError("must hold no user, password or fragment; put credentials into headers")
    if _PLACEHOLDER.search(url.partition("?")[0]):
        raise ValueError("has a placeholder before its `?`; placeholders may only come after it")
    for pair in parts.query.split("&"):
        name = pair.partition("=")[0]
        if _CREDENTIAL.search(name):
            raise ValueError(f"has a credential in '{name}'; put it into headers")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("has characters that must be escaped as in %20")
    return url


JmesPath = Annotated[str, Field(min_length=1), AfterValidator(_checked_path)]


class HttpOptions(AskedOptions):
    """How a server is asked: in ``body`` and behind the ``?`` of ``url`` stand placeholders.

    What ``error`` leads to says why there is no answer, whatever its status. ``${NAME}`` in
    ``headers`` is a variable of the environment; its value is never stored, shown or part of a
    fingerprint.
    """

    url: Annotated[str, AfterValidator(_checked_url)]
    method: Literal["POST", "GET"] = "POST"
    headers: Annotated[dict[str, str], AfterValidator(_checked_headers)] = Field(
        default_factory=dict
    )
    body: JsonValue = None
    error: JmesPath | None = None
    retries: Annotated[int, Field(ge=0, le=20, strict=True), Role.NOTHING] = 2
    backoff: Annotated[Number, Field(ge=0), Role.NOTHING] = 1.0

    def checked_places(self, needed: Collection[str]) -> set[str]:
        """Return the placeholders of the request; raises ValueError if none of these is there."""
        if (self.body is None) == (self.method == "POST"):
            raise ValueError("`method: POST` needs a body, `method: GET` has none")
        names = {*placeholders_in(self.body), *placeholders_in(self.url)}
        if names.isdisjoint(needed):
            places = " and no ".join(f"'{{{name}}}'" for name in needed)
            raise ValueError(f"`body` and `url` have no {places}")
        return names

    @property
    def sent_headers(self) -> dict[str, str]:
        """The headers without those that hold a variable."""
        return {h: text for h, text in self.headers.items() if not _VARIABLE.search(text)}

    def connect(self) -> HttpConnection:
        """Return the server; its variables are read."""
        return HttpConnection(self)

    def check_error(self, answer: Any) -> None:  # noqa: ANN401 (JSON)
        """Raise Rejected where an answer says that something is wrong."""
        if self.error is None:
            return
        message = value_at(f"`error: {self.error}`", self.error, answer)
        if message not in (None, False, "", [], {}):
            is_text = isinstance(message, str)
            text = message if is_text else json.dumps(message, ensure_ascii=False)
            raise Rejected(f"the server says: {shortened(text)}")


def value_at(label: str, path: str, answer: Any, *, is_needed: bool = False) -> Any:  # noqa: ANN401
    """Return what a path leads to; None: nothing, unless it ``is_needed``."""
    import jmespath

    try:
        value = jmespath.search(path, answer)
    except Exception as error:  # whatever the library makes of what a server sends
        raise Rejected(f"{label}: {' '.join(str(error).split())}") from error
    if value is None and is_needed:
        message = message_in(answer)
        reason = f"; the server says: {message}" if message else ""
        raise Rejected(f"{label} matches nothing in {described(answer)}{reason}")
    return value


class HttpConnection:
    """A server that is asked by several threads at once."""

    def __init__(self, config: HttpOptions) -> None:
        import httpx2

        headers, hidden = headers_of(config.headers)
        self._config = config
        self._headers = {"content-type": "application/json", "accept": "application/json"}
        self._server = Server(
            config.url.partition("?")[0],
            timeout=config.timeout,
            most_bytes=MAX_BYTES,
            headers=tuple(headers.items()),
            hidden=tuple(hidden),
        )
        self._retries = Retries(config.retries, config.backoff, self._server)
        self._transport = Transport(httpx2, self._server)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def line(self, reason: str) -> str:
        """Return why there is no answer, without a credential."""
        return self._server.secrets.line(reason)

    def ask(self, values: Mapping[str, Any]) -> tuple[Any, float]:
        """Return the JSON that answers a request, and the seconds until it came."""
        return self._retries.answer(lambda: self._attempt(values))

    def _attempt(self, values: Mapping[str, Any]) -> tuple[Any, float]:
        config, started = self._config, time.perf_counter()
        parts = urlsplit(filled_url(config.url, values))
        target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        body = b"" if config.body is None else json.dumps(filled(config.body, values)).encode()
        content = self._transport.send(config.method, target, self._headers, body)
        try:
            return json.loads(content), time.perf_counter() - started
        except (ValueError, RecursionError):
            raise malformed("it is not JSON") from None


def filled(template: JsonValue, values: Mapping[str, object]) -> Any:  # noqa: ANN401 (JSON)
    """Return JSON in which each text that is a placeholder has its value, of whatever type.

    One that nothing fills stays as it is. In a longer text the value is written: a text as it is,
    with ``:json`` in quotes and escaped, as a text of GraphQL or SQL inside of JSON wants it. What
    was put in is not looked at again.
    """
    if isinstance(template, Mapping):
        return {key: filled(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [filled(value, values) for value in template]
    if not isinstance(template, str):
        return template
    whole = _PLACEHOLDER.fullmatch(template)
    if whole and not whole[2] and whole[1] in values:
        return values[whole[1]]
    return _PLACEHOLDER.sub(lambda place: _written(place, values), template)


def filled_url(template: str, values: Mapping[str, object]) -> str:
    """Return a URL with values in its query, each character of them escaped that means anything."""
    return _PLACEHOLDER.sub(
        lambda place: quote(_written(place, values), safe="", errors="replace"), template
    )


def _written(place: re.Match[str], values: Mapping[str, object]) -> str:
    if place[1] not in values:
        return place[0]
    value = values[place[1]]
    return (
        value if isinstance(value, str) and not place[2] else json.dumps(value, ensure_ascii=False)
    )


def placeholders_in(template: JsonValue) -> Iterator[str]:
    """Yield the name of each placeholder of a template."""
    if isinstance(template, str):
        yield from (place[1] for place in _PLACEHOLDER.finditer(template))
    elif isinstance(template, Mapping | list):
        for value in template.values() if isinstance(template, Mapping) else template:
            yield from placeholders_in(value)


def headers_of(headers: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the headers with the values of variables, and all texts that must not be repeated.

    Of a value that holds user and password as basic authentication sends them, these are too.
    """
    sent, hidden = dict[str, str](), list[str]()
    for header, text in headers.items():
        for name in _VARIABLE.findall(text):
            value = key_of(name)
            if not (value and value.isascii() and value.isprintable()):
                problem = "holds other characters than printable ASCII" if value else "is not set"
                raise UsageError(f"environment variable {name} of header '{header}' {problem}")
            hidden.append(value)
            with suppress(ValueError):
                pair = base64.b64decode(value, validate=True).decode()
                hidden += [pair, *pair.split(":", 1)] if ":" in pair else []
        sent[header] = _VARIABLE.sub(lambda variable: key_of(variable[1]) or "", text)
        hidden += [sent[header]] if sent[header] != text else []
    return sent, hidden
