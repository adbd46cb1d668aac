"""The objects of a remote store: listed, fetched, sent and deleted, many at a time.

An object is there as a whole or not at all: S3 shows it when its upload is complete. botocore, the
library under AWS's own tools, finds the credentials, signs, and reads answers; the requests go by
the transport of all our clients, which bounds their time and follows no redirect.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rag_assets.errors import StoreError
from rag_assets.servers.failures import ServerFailure
from rag_assets.servers.secrets import Secrets
from rag_assets.servers.transport import Server, Transport
from rag_assets.store.atomic import atomic_file
from rag_assets.store.remote.address import ENDPOINT_VARIABLES, Address

MISSING = "a store on S3 needs the package botocore: pip install 'rag-assets[s3]'"

_DENIED = (401, 403)
_SOUGHT = (
    "the credentials are those of AWS_PROFILE, or of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    "or the role of this machine"
)
_MAX_CHARACTERS = 300
_CODE = re.compile(r"[A-Za-z.]{1,60}")
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")

AT_ONCE = 16
"""Requests in flight."""

ANY = "*"
"""As what is expected in the place of an object: whatever it is, it is overwritten."""

ABSENT = ""
"""As what is expected in the place of an object: nothing."""

SECONDS = 120.0
"""For one request; none carries more than a part of a large object."""

SILENCE = 30.0
"""Seconds of it in which no byte comes."""

_PART = 8 << 20
_TRIES = 5
_CONFLICT = 409
_CHANGED = 412
_EMPTY = 416

Item = TypeVar("Item")
Result = TypeVar("Result")

Answer = Mapping[str, Any]
"""What botocore makes of an answer."""


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


class Listed(NamedTuple):
    """An object: its bytes, and when it was written, in nanoseconds since 1970."""

    size: int
    modified: int


class StoredObject(NamedTuple):
    """What an object holds, and the tag by which S3 knows that it has not changed since."""

    content: bytes
    tag: str


class Objects:
    """The objects below one address; names are relative to it."""

    def __init__(
        self, address: Address, *, seconds: float = SECONDS, silence: float = SILENCE
    ) -> None:
        """Use an address; nothing is asked yet.

        Args:
            address: of the store.
            seconds: for one request, to the last byte of its answer.
            silence: seconds of it in which no byte comes.
        """
        self.address = address
        self._bounds = (seconds, silence)

    def listed(self, folder: str, *, recursive: bool = True) -> dict[str, Listed]:
        """Return name -> what is known of every object below a folder; none where there is none.

        Raises:
            StoreError: the store cannot be used.
        """
        first = len(self._key(""))
        pages = self._pages(folder, lambda page: _listed(page, first), recursive=recursive)
        return {name: listed for page in pages for name, listed in page.items()}

    def folders(self, folder: str = "") -> list[str]:
        """Return the names of the folders in a folder.

        Raises:
            StoreError: the store cannot be used.
        """
        pages = self._pages(folder, _folders, recursive=False)
        return [name for page in pages for name in page]

    def read(self, name: str) -> bytes | None:
        """Return a small object; None: there is none.

        Raises:
            StoreError: the store cannot be used.
        """
        stored = self.find(name)
        return None if stored is None else stored.content

    def find(self, name: str) -> StoredObject | None:
        """Return a small object with its tag; None: there is none.

        Raises:
            StoreError: the store cannot be used.
        """
        try:
            return self._ask("get_object", _found, name)
        except Refused as error:
            if error.is_missing:
                return None
            raise

    def fetch(self, name: str, path: Path) -> bool:
        """Write an object to a file, whole or not at all; return whether there is one.

        Raises:
            StoreError: the store cannot be used, or the file cannot be written.
        """
        blocks = self._blocks(name)
        first = next(blocks, None)
        if first is None:
            return False
        with atomic_file(path, durable=False) as temporary, temporary.open("wb") as file:
            file.write(first)
            for block in blocks:
                file.write(block)
        return True

    def write(self, name: str, content: bytes, expected: str = ANY) -> str | None:
        """Write a small object, and return its tag; None: something else is there than expected.

        Args:
            name: of the object.
            content: of it.
            expected: what it replaces: :data:`ANY`, :data:`ABSENT`, or what has a tag.

        Raises:
            StoreError: the store cannot be used.
        """
        for number in range(_TRIES):
            try:
                return self._ask("put_object", _tag, name, Body=content, **_condition(expected))
            except Refused as error:
                if expected == ANY:
                    raise
                if error.status == _CHANGED or error.is_missing:
                    # Of a request that was repeated, the first may have come through.
                    return self._tag_of(name, content)
                if error.status != _CONFLICT or number == _TRIES - 1:
                    raise
                time.sleep(0.1 * 2**number)  # it is being written by another one just now
        return None

    def send(self, path: Path, name: str, expected: str = ANY) -> bool:
        """Write a file as an object; return whether what was there is as expected.

        Args:
            path: of the file.
            name: of the object.
            expected: :data:`ANY` or :data:`ABSENT`.

        Raises:
            StoreError: the store cannot be used.
            OSError: the file cannot be read.
        """
        if path.stat().st_size <= _PART:
            return self.write(name, path.read_bytes(), expected) is not None
        upload = self._ask("create_multipart_upload", _upload, name)
        try:
            with path.open("rb") as file:
                parts = [
                    {"PartNumber": number, "ETag": self._part(name, upload, number, block)}
                    for number, block in enumerate(iter(lambda: file.read(_PART), b""), 1)
                ]
            return self._complete(name, upload, parts, expected)
        except BaseException:
            with suppress(StoreError):  # an upload that never ends is not shown either
                self._ask("abort_multipart_upload", _nothing, name, **upload)
            raise

    def delete(self, name: str) -> None:
        """Delete an object; one that is gone is no failure.

        Raises:
            StoreError: the store cannot be used.
        """
        try:
            self._ask("delete_object", _nothing, name)
        except Refused as error:
            if not error.is_missing:
                raise

    @staticmethod
    def each(do: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Do something with each item, many at a time, and return what came of it.

        What is in flight when one fails is finished; the first failure is raised.
        """
        work = list(items)
        if len(work) < 2:
            return [do(item) for item in work]
        with ThreadPoolExecutor(min(AT_ONCE, len(work))) as threads:
            started = [threads.submit(do, item) for item in work]
            try:
                return [future.result() for future in started]
            except BaseException:
                for future in started:
                    future.cancel()
                raise

    def _blocks(self, name: str) -> Iterator[bytes]:
        """Yield the content of one object as of one moment; nothing: there is none."""
        start, end = 0, 1
        condition: dict[str, str] = {}
        while start < end:
            wanted = f"bytes={start}-{start + _PART - 1}"
            try:
                (block, tag), end = self._ask("get_object", _range, name, Range=wanted, **condition)
            except Refused as error:
                if error.is_missing and not condition:
                    return
                if error.status == _EMPTY and not condition:  # no range of it can be had
                    yield b""
                    return
                raise
            yield block
            start += max(len(block), 1)
            condition = {"IfMatch": tag}

    def _tag_of(self, name: str, content: bytes) -> str | None:
        """Return the tag of an object if that is its content."""
        present = self.find(name)
        return present.tag if present is not None and present.content == content else None

    def _part(self, name: str, upload: dict[str, str], number: int, block: bytes) -> str:
        return self._ask("upload_part", _tag, name, Body=block, PartNumber=number, **upload)

    def _complete(
        self, name: str, upload: dict[str, str], parts: list[dict[str, Any]], expected: str
    ) -> bool:
        end = {**upload, "MultipartUpload": {"Parts": parts}}
        try:
            self._ask("complete_multipart_upload", _nothing, name, **end, **_condition(expected))
        except Refused as error:
            if expected == ANY or error.status != _CHANGED:
                raise
            self._ask("abort_multipart_upload", _nothing, name, **upload)
            return False
        return True

    def _pages(
        self, folder: str, take: Callable[[Answer], Result], *, recursive: bool
    ) -> Iterator[Result]:
        within = {"Prefix": f"{self._key(folder).rstrip('/')}/".lstrip("/")}
        within |= {} if recursive else {"Delimiter": "/"}
        more: str | None = ""
        while more is not None:
            within |= {"ContinuationToken": more} if more else {}
            page, more = self._ask(
                "list_objects_v2", lambda page: (take(page), _next_page(page)), **within
            )
            yield page

    def _key(self, name: str) -> str:
        return f"{self.address.prefix}/{name}".lstrip("/")

    def _ask(
        self,
        operation: str,
        take: Callable[[Answer], Result],
        name: str | None = None,
        **parameters: object,
    ) -> Result:
        """Return what is taken from the answer to one request; it may be whatever a server sends.

        Raises:
            Refused: the server answered with an error.
            StoreError: there is no answer that can be read.
        """
        if name is not None:
            parameters["Key"] = self._key(name)
        try:
            client = _client(self.address.endpoint, *self._bounds, _environment())
            return take(getattr(client, operation)(Bucket=self.address.bucket, **parameters))
        except StoreError:
            raise
        except Exception as error:  # whatever the library makes of what a server sends
            problem = _failure(self.address, error)
        raise problem  # out here, nothing foreign is its context


def _listed(page: Answer, first: int) -> dict[str, Listed]:
    return {
        one["Key"][first:]: Listed(one["Size"], int(one["LastModified"].timestamp() * 1e9))
        for one in page.get("Contents", ())
        # Others are no files below a folder, and somebody else's.
        if all(part not in ("", ".", "..") for part in one["Key"][first:].split("/"))
    }


def _folders(page: Answer) -> list[str]:
    names = [one["Prefix"].split("/")[-2] for one in page.get("CommonPrefixes", ())]
    return [name for name in names if name not in ("", ".", "..")]


def _next_page(page: Answer) -> str | None:
    return page["NextContinuationToken"] if page.get("IsTruncated") else None


def _found(answer: Answer) -> StoredObject:
    return StoredObject(answer["Body"].read(), answer["ETag"])


def _range(answer: Answer) -> tuple[StoredObject, int]:
    """Return a part of an object, and the length of all of it."""
    answered = _found(answer)
    # A server that knows no ranges gives all of it.
    whole = answer.get("ContentRange", f"/{len(answered.content)}")
    return answered, int(whole.rpartition("/")[2])


def _tag(answer: Answer) -> str:
    return str(answer["ETag"])


def _upload(answer: Answer) -> dict[str, str]:
    return {"UploadId": answer["UploadId"]}


def _nothing(_: Answer) -> None:
    return None


class _Content(BytesIO):
    """The content of an answer, as botocore reads it."""

    def stream(self) -> Iterator[bytes]:
        yield self.read()


def _environment() -> tuple[tuple[str, str], ...]:
    """Return what decides which client is the right one."""
    return tuple((name, text) for name, text in os.environ.items() if name.startswith("AWS_"))


@cache
def _client(endpoint: str | None, seconds: float, silence: float, _: object) -> Any:  # noqa: ANN401
    """Return botocore's client for S3: a class that it makes at run time.

    Raises:
        StoreError: botocore is not installed.
    """
    try:
        import botocore.session
        from botocore.config import Config
    except ImportError:
        raise StoreError(MISSING) from None
    logger = logging.getLogger("botocore")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)  # below, it logs what is signed, with the session's token
    config = Config(
        s3={"addressing_style": "path" if endpoint else "auto", "payload_signing_enabled": True},
        retries={"mode": "standard"},
        # Checksums of newer kinds are not known to every server; what is signed has its SHA-256.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        ignore_configured_endpoint_urls=True,
    )
    session = botocore.session.Session()
    region = os.environ.get("AWS_REGION") or session.get_config_variable("region")
    client = session.create_client(
        "s3", region_name=region or "us-east-1", endpoint_url=endpoint, config=config
    )
    # It names AWS's own host otherwise, which depends on the bucket and its region.
    server = Server(endpoint or "https://s3.amazonaws.com", timeout=seconds, silence=silence)
    client.meta.events.register("before-send.s3", _carrier(server))
    return client


def _carrier(server: Server) -> Callable[..., Any]:
    """Return what sends a signed request: our transport in the place of botocore's own."""
    import httpx2
    from botocore import awsrequest, exceptions

    transport = Transport(httpx2, server)

    def carry(request: Any, **_: object) -> Any:  # noqa: ANN401 (botocore's)
        headers = {n: t.decode() if isinstance(t, bytes) else t for n, t in request.headers.items()}
        headers.pop("Expect", None)  # the transport does not wait between head and body
        try:
            status, found, content = transport.exchange(
                request.method, request.url, headers, request.body or b""
            )
        except ServerFailure as failed:
            kind, told = failed.kind, str(failed)
        else:
            return awsrequest.AWSResponse(request.url, status, found, _Content(content))
        # Of these kinds, so that it is tried again.
        if kind == "late":
            raise exceptions.ReadTimeoutError(endpoint_url=server.place)
        if kind == "unconnected":
            raise exceptions.EndpointConnectionError(endpoint_url=server.place)
        raise exceptions.HTTPClientError(error=told)

    return carry


def _condition(expected: str) -> dict[str, str]:
    if expected == ANY:
        return {}
    return {"IfMatch": expected} if expected else {"IfNoneMatch": "*"}


def _failure(address: Address, error: Exception) -> StoreError:
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
    return StoreError(f"the store {address.url} cannot be used: {problem[:_MAX_CHARACTERS]}")


def _hidden(text: str) -> str:
    return Secrets(os.environ.get(name, "") for name in _CREDENTIALS).hide(text)


def _server(address: Address) -> str:
    if address.endpoint is None:
        return f"at AWS ({ENDPOINT_VARIABLES[-1]} names another server)"
    return f"at {address.endpoint} ({ENDPOINT_VARIABLES[-1]})"
