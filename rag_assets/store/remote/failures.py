"""What went wrong between us and a remote store, in one line that says what to look at."""

from __future__ import annotations

import os
import re

from rag_assets.errors import StoreError
from rag_assets.servers.secrets import Secrets
from rag_assets.store.remote.address import ENDPOINT_VARIABLES, Address

_DENIED = (
    "ACCESS_DENIED",
    "EXPIRED",
    "HTTP status 401",
    "HTTP status 403",
    "INVALID_ACCESS_KEY",
    "INVALID_CLIENT_TOKEN",
    "MISSING_AUTHENTICATION",
    "SIGNATURE",
)
_UNREACHABLE = ("NETWORK_CONNECTION", "curlCode", "REQUEST_TIMEOUT")
_CODE = re.compile(r"AWS Error (\w+)")
_LONGEST = 300
_OWN_WORDS = re.compile(r"(?<= operation): ")
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def failure(address: Address, error: OSError) -> StoreError:
    """Return the error to raise for one of pyarrow's, whose kind stands in its text only."""
    text = " ".join(str(error).split())
    code = _CODE.search(text)
    if "NO_SUCH_BUCKET" in text:
        problem = f"there is no bucket '{address.bucket}' {_server(address)}; create it first"
    elif any(mark in text for mark in _DENIED):
        problem = (
            f"access was denied {_server(address)} ({code[1] if code else 403}); the credentials "
            "are those of AWS_PROFILE, or of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the "
            "role of this machine"
        )
    elif any(mark in text for mark in _UNREACHABLE):
        problem = f"nothing answers {_server(address)}"
    else:
        # What the server says stands behind: it may repeat the headers that were sent to it.
        problem = _OWN_WORDS.split(text, maxsplit=1)[0]
        problem = Secrets(os.environ.get(name, "") for name in _CREDENTIALS).hide(problem)
        problem = problem[:_LONGEST]
    return StoreError(f"the store {address.url} cannot be used: {problem}")


def _server(address: Address) -> str:
    if address.endpoint is None:
        return f"at AWS ({ENDPOINT_VARIABLES[-1]} names another server)"
    return f"at {address.endpoint} ({ENDPOINT_VARIABLES[-1]})"
