"""Posts a message to an address that a user names: a chat, a pager, a service of their own."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from rag_assets.errors import UsageError
from rag_assets.servers.failures import ServerFailure
from rag_assets.servers.transport import Server, Transport

TIMEOUT = 10.0
"""Seconds until the whole answer is there."""


class NotDelivered(UsageError):
    """The address did not take the message."""


def place_of(address: str) -> str:
    """Return an address as it may be shown: the rest of a webhook's is its key.

    Raises:
        UsageError: it is no address.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("the address of a webhook must begin with http:// or https://")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def post(address: str, message: Mapping[str, object], timeout: float = TIMEOUT) -> None:
    """Post a message as JSON; of the answer only the status counts.

    Raises:
        UsageError: the address is none.
        NotDelivered: nobody answered, or with another status than 2xx; names no more of the
            address than its host.
    """
    server = Server(address, timeout=timeout, most_bytes=0, hidden_path=True)
    place_of(address)
    import httpx2

    with Transport(httpx2, server) as transport:
        try:
            transport.post("", message)
        except ServerFailure as error:
            failure = error
        else:
            return
    raise NotDelivered(f"{server.place}: {failure}")
