"""What went wrong between us and a remote store, in one line that says what to look at."""

from __future__ import annotations

import os
import re
from typing import Any

from rag_assets.errors import StoreError
from rag_assets.servers.secrets import Secrets
from rag_assets.store.remote.address import ENDPOINT_VARIABLES, Address

MISSING = "a store on S3 needs the package botocore: pip install 'rag-assets[s3]'"

_DENIED = (401, 403)
_SOUGHT = (
    "the credentials are those of AWS_PROFILE, or of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    "or the role of this machine"
)
_LONGEST = 300
_CODE = re.compile(r"[A-Za-z.]{1,60}")
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class Refused(StoreError):
    """The server answered with an error.

    Attributes:
        status: of the answer.
        code: what S3 calls the error; empty: the server calls it nothing that can be shown.
    """

    def __init__(self, message: str, status: int, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    @property
    def is_missing(self) -> bool:
        """Whether there is no such object, in a bucket that is there."""
        return self.status == 404 and self.code != "NoSuchBucket"


def failure(address: Address, error: Exception) -> StoreError:
    """Return the error to raise for one of botocore's, or for what it makes of an odd answer."""
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    if isinstance(error, exceptions.ClientError):
        return _refused(address, error.response)
    if isinstance(error, exceptions.NoCredentialsError):
        problem = f"there are no credentials; {_SOUGHT}"
    elif isinstance(error, exceptions.ReadTimeoutError):
        problem = f"no answer in time {_server(address)}"
    elif isinstance(error, exceptions.EndpointConnectionError):
        problem = f"nothing answers {_server(address)}"
    elif isinstance(error, exceptions.BotoCoreError) and not isinstance(
        error, ResponseParserError | exceptions.HTTPClientError
    ):
        problem = _hidden(" ".join(str(error).split()))
    else:  # its text repeats what the server says
        problem = f"what answers {_server(address)} does not speak S3"
    return _unusable(address, problem)


def _refused(address: Address, answer: dict[str, Any]) -> Refused:
    # The server's own words are left out: they may repeat the headers that were sent to it.
    status = int(answer["ResponseMetadata"].get("HTTPStatusCode", 0))
    code = str(answer.get("Error", {}).get("Code", ""))
    code = _hidden(code) if _CODE.fullmatch(code) else ""
    if code == "NoSuchBucket":
        problem = f"there is no bucket '{address.bucket}' {_server(address)}; create it first"
    elif status in _DENIED or code in ("ExpiredToken", "InvalidToken"):
        problem = f"access was denied {_server(address)} ({code or status}); {_SOUGHT}"
    elif 300 <= status < 400:
        problem = f"what answers {_server(address)} names another place, which is not asked"
    elif status == 501:
        problem = f"what answers {_server(address)} knows no conditional writes (If-None-Match)"
    else:
        problem = (
            f"what answers {_server(address)} says {' '.join(filter(None, (str(status), code)))}"
        )
    return Refused(str(_unusable(address, problem)), status, code)


def _unusable(address: Address, problem: str) -> StoreError:
    return StoreError(f"the store {address.url} cannot be used: {problem[:_LONGEST]}")


def _hidden(text: str) -> str:
    return Secrets(os.environ.get(name, "") for name in _CREDENTIALS).hide(text)


def _server(address: Address) -> str:
    if address.endpoint is None:
        return f"at AWS ({ENDPOINT_VARIABLES[-1]} names another server)"
    return f"at {address.endpoint} ({ENDPOINT_VARIABLES[-1]})"
