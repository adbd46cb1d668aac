"""Requests made of a template: what is put into it is data, whatever characters it has."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, JsonValue

from rag_assets.errors import UsageError
from rag_assets.llm.endpoint import key_of

PLACES = ("query", "k", "vector", "queries", "vectors")
"""What may stand in braces."""

_PLACE = re.compile(rf"\{{({'|'.join(PLACES)})(:json)?\}}")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_CREDENTIAL = re.compile(
    r"(^|[-_.])(auth|authorization|cookie|credentials?|key|passw(or)?d|secret|sig|signature|token)$"
    r"|api-?_?key",
    re.IGNORECASE,
)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OF_THE_CONNECTION = {"host", "content-length", "transfer-encoding", "connection"} | {
    "accept-encoding",
    "te",
    "upgrade",
}


def filled(template: JsonValue, values: Mapping[str, object]) -> Any:  # noqa: ANN401 (JSON)
    """Return JSON in which each text that is a place has its value, of whatever type.

    In a longer text the value is written: a text as it is, with ``:json`` in quotes and escaped, as
    a GraphQL or SQL-like text inside of JSON wants it. What was put in is not looked at again.

    Args:
        template: JSON with places.
        values: of :data:`PLACES`, those that there are.
    """
    if isinstance(template, Mapping):
        return {key: filled(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [filled(value, values) for value in template]
    if not isinstance(template, str):
        return template
    whole = _PLACE.fullmatch(template)
    if whole and not whole[2]:
        return values[whole[1]]
    return _PLACE.sub(lambda place: _written(values[place[1]], bool(place[2])), template)


def filled_url(template: str, values: Mapping[str, object]) -> str:
    """Return a URL with values in its query, each character of them escaped that means anything."""

    def escaped(place: re.Match[str]) -> str:
        return quote(_written(values[place[1]], bool(place[2])), safe="", errors="replace")

    return _PLACE.sub(escaped, template)


def places_in(template: JsonValue) -> Iterator[str]:
    """Yield the name of each place of a template."""
    if isinstance(template, Mapping):
        template = list(template.values())
    if isinstance(template, list):
        for value in template:
            yield from places_in(value)
    elif isinstance(template, str):
        yield from (place[1] for place in _PLACE.finditer(template))


def secret_headers(headers: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the headers with a value from the environment, and all that must not be repeated.

    Raises:
        UsageError: a variable is not set, or holds what no header can.
    """
    values: dict[str, str] = {}
    for header, text in headers.items():
        for name in _VARIABLE.findall(text):
            values[name] = key_of(name)
            if not values[name]:
                raise UsageError(f"environment variable {name} of header '{header}' is not set")
            if not (values[name].isascii() and values[name].isprintable()):
                raise UsageError(
                    f"environment variable {name} of header '{header}' holds other characters "
                    "than printable ASCII"
                )
    found = {
        header: _VARIABLE.sub(lambda variable: values[variable[1]], text)
        for header, text in headers.items()
        if _VARIABLE.search(text)
    }
    return found, [secret for value in values.values() for secret in (value, *_user_in(value))]


def fixed_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers without anything from the environment."""
    return {header: text for header, text in headers.items() if not _VARIABLE.search(text)}


def _user_in(value: str) -> list[str]:
    """Return user and password where a value holds them as basic authentication sends them."""
    try:
        pair = base64.b64decode(value, validate=True).decode()
    except ValueError:
        return []
    user, colon, password = pair.partition(":")
    return [pair, user, password] if colon else []


def _written(value: object, as_json: bool) -> str:
    if isinstance(value, str) and not as_json:
        return value
    return json.dumps(value, ensure_ascii=False)


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    for header, text in headers.items():
        if not _HEADER.fullmatch(header):
            raise ValueError(f"'{header}' is not the name of a header")
        if header.lower() in _OF_THE_CONNECTION:
            raise ValueError(f"'{header}' is set by the connection; leave it out")
        if not (text.isascii() and text.isprintable()):
            raise ValueError(f"'{header}' must have printable ASCII characters only")
        if _CREDENTIAL.search(header) and not _VARIABLE.search(text):
            raise ValueError(
                f"'{header}' holds a credential; write ${{NAME}} instead, which is read "
                "from the environment and never stored"
            )
    return {header.lower(): text for header, text in headers.items()}


def _checked_url(url: str) -> str:
    try:
        parts, _ = urlsplit(url), urlsplit(url).port
    except ValueError as error:
        raise ValueError("must be an address with a host and a port from 0 to 65535") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address that begins with http:// or https://")
    if parts.username or parts.password or parts.fragment:
        raise ValueError("must hold no user, password or fragment; put credentials into headers")
    if _PLACE.search(url.partition("?")[0]):
        raise ValueError("has a placeholder before its `?`; placeholders may only come after it")
    names = [pair.partition("=")[0] for pair in parts.query.split("&")]
    secret = next(filter(_CREDENTIAL.search, names), None)
    if secret is not None:
        raise ValueError(f"has a credential in '{secret}'; put it into headers")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("has characters that must be escaped as in %20")
    return url


def _checked_body(body: JsonValue) -> JsonValue:
    for value in _mappings(body):
        if len(value) == 1 and list(value.values()) == [None] and next(iter(value)) in PLACES:
            name = next(iter(value))
            raise ValueError(f"{{{name}}} without quotes is a mapping in YAML; write '{{{name}}}'")
    json.dumps(body, allow_nan=False)
    return body


def _mappings(value: JsonValue) -> Iterator[Mapping[str, JsonValue]]:
    if isinstance(value, Mapping):
        yield value
    inner = list(value.values()) if isinstance(value, Mapping) else value
    for one in inner if isinstance(inner, list) else ():
        yield from _mappings(one)


Headers = Annotated[dict[str, str], AfterValidator(_checked_headers)]
"""Headers without a credential: ``${NAME}`` stands for one."""

Url = Annotated[str, AfterValidator(_checked_url)]
"""Where a search is; places stand in its query only."""

Body = Annotated[JsonValue, AfterValidator(_checked_body)]
"""JSON with places."""
