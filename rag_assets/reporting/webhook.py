"""Posts a message to an address that a user names: a chat, a pager, a service of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from rag_assets.errors import UsageError

TIMEOUT = 10.0
"""Seconds for the whole answer to begin."""


class NotDelivered(UsageError):
    """The address did not take the message."""


class _NoRedirect(HTTPRedirectHandler):
    """A message goes to the address that was named, and to no other."""

    def redirect_request(self, *_: object) -> None:
        return None


def place_of(address: str) -> str:
    """Return an address as it may be shown: the rest of a webhook's is its key.

    Raises:
        UsageError: it is no address.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("the address of a webhook must begin with http:// or https://")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def post(address: str, message: Mapping[str, object]) -> None:
    """Post a message as JSON.

    Raises:
        UsageError: the address is none.
        NotDelivered: nobody answered, or with another status than 2xx; names no more of the
            address than its host.
    """
    place = place_of(address)
    body = json.dumps(message).encode()
    request = Request(address, body, {"Content-Type": "application/json"}, method="POST")
    try:
        with build_opener(_NoRedirect).open(request, timeout=TIMEOUT):
            return
    except HTTPError as error:
        with error:
            raise NotDelivered(f"{place}: HTTP {error.code}") from None
    except (OSError, HTTPException, ValueError) as error:
        reason = str(getattr(error, "reason", "") or type(error).__name__)
        raise NotDelivered(f"{place}: {reason.replace(address, place)}") from None
