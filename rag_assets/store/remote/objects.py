"""The objects of a remote store: listed, fetched, sent and deleted.

An object is there as a whole or not at all. botocore, the library under AWS's own tools, finds the
credentials, signs, and reads answers; the requests go by the transport of all our clients, which
bounds their time and follows no redirect.
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

ANY = "*"
"""As what is expected in the place of an object: whatever it is, it is overwritten."""

ABSENT = ""
"""As what is expected in the place of an object: nothing."""

MAX_AT_ONCE = 16
"""Requests in flight."""

_PART = 8 << 20
_TRIES = 5
_CODE = re.compile(r"[A-Za-z.]{1,60}")
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_SOUGHT = (
    "the credentials are those of AWS_PROFILE, or of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    "or the role of this machine"
)

Item = TypeVar("Item")
Result = TypeVar("Result")

Answer = Mapping[str, Any]
"""What botocore makes of an answer."""


class Refused(StoreError):
    """The server answered with an error: its status, and what S3 calls it."""

    def __init__(self, message: str, status: int, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.is_missing = status == 404 and code != "NoSuchBucket"


class Listed(NamedTuple):
    """An object: its bytes, when it was written (nanoseconds since 1970), its tag."""

    size: int
    modified: int
    tag: str = ""


class StoredObject(NamedTuple):
    """What an object holds, and the tag by which S3 knows that it has not changed since."""

    content: bytes
    tag: str


class Objects:
    """The objects below one address; names are relative to it.

    Every method raises :class:`StoreError` where the store cannot be used.
    """

    def __init__(self, address: Address, *, seconds: float = 120.0, silence: float = 30.0) -> None:
        """Use an address; nothing is asked yet.

        Args:
            address: of the store.
            seconds: for one request, to the last byte of its answer.
            silence: seconds of it in which no byte comes.
        """
        self.address = address
        self._bounds = (seconds, silence)

    def listed(self, folder: str) -> dict[str, Listed]:
        """Return name -> what is known of every object below a folder."""
        first = len(self._key(""))
        found: dict[str, Listed] = {}
        for page in self._pages(folder):
            for item in page.get("Contents", ()):
                name, written = item["Key"][first:], int(item["LastModified"].timestamp() * 1e9)
                # Others are no files below a folder, and somebody else's.
                if all(part not in ("", ".", "..") for part in name.split("/")):
                    found[name] = Listed(item["Size"], written, item["ETag"])
        return found

    def folders(self, folder: str = "") -> list[str]:
        """Return the names of the folders in a folder."""
        pages = self._pages(folder, Delimiter="/")
        return [
            item["Prefix"].split("/")[-2]
            for page in pages
            for item in page.get("CommonPrefixes", ())
        ]

    def read(self, name: str) -> bytes | None:
        """Return a small object; None: there is none."""
        stored = self.find(name)
        return None if stored is None else stored.content

    def find(self, name: str) -> StoredObject | None:
        """Return a small object with its tag; None: there is none."""
        try:
            return self._ask("get_object", _stored, name)
        except Refused as error:
            if error.is_missing:
                return None
            raise

    def fetch(self, name: str, path: Path) -> bool:
        """Write an object to a file, whole or not at all; return whether there is one."""
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
        """
        for number in range(_TRIES):
            try:
                return self._ask("put_object", _tag, name, Body=content, **_condition(expected))
            except Refused as error:
                if expected == ANY:
                    raise
                if error.status == 412 or error.is_missing:
                    # Of a request that was repeated, the first may have come through.
                    there = self.find(name)
                    return there.tag if there is not None and there.content == content else None
                if error.status != 409 or number == _TRIES - 1:
                    raise
                time.sleep(0.1 * 2**number)  # another one is writing it just now
        return None

    def send(self, path: Path, name: str, expected: str = ANY) -> bool:
        """Write a file as an object, over :data:`ANY` or :data:`ABSENT`.

        Returns:
            Whether what was there is as expected.
        """
        if path.stat().st_size <= _PART:
            return self.write(name, path.read_bytes(), expected) is not None
        upload = self._ask("create_multipart_upload", lambda a: {"UploadId": a["UploadId"]}, name)
        try:
            parts = []
            with path.open("rb") as file:
                for number, block in enumerate(iter(lambda: file.read(_PART), b""), 1):
                    part = {"Body": block, "PartNumber": number, **upload}
                    tag = self._ask("upload_part", _tag, name, **part)
                    parts.append({"PartNumber": number, "ETag": tag})
            end = {**upload, "MultipartUpload": {"Parts": parts}, **_condition(expected)}
            self._ask("complete_multipart_upload", _nothing, name, **end)
        except BaseException as error:
            with suppress(StoreError):  # an upload that never ends is not shown either
                self._ask("abort_multipart_upload", _nothing, name, **upload)
            if isinstance(error, Refused) and error.status == 412 and expected != ANY:
                return False
            raise
        return True

    def delete(self, name: str) -> None:
        """Delete an object; one that is gone is no failure."""
        try:
            self._ask("delete_object", _nothing, name)
        except Refused as error:
            if not error.is_missing:
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
                if error.status == 416 and not condition:  # it is empty
                    yield b""
                    return
                raise
            yield block
            start += max(len(block), 1)
            condition = {"IfMatch": tag}

    def _pages(self, folder: str, **within: str) -> Iterator[Answer]:
        within["Prefix"] = f"{self._key(folder).rstrip('/')}/".lstrip("/")
        more: str | None = ""
        while more is not None:
            within |= {"ContinuationToken": more} if more else {}
            page = self._ask("list_objects_v2", dict, **within)
            more = page["NextContinuationToken"] if page.get("IsTruncated") else None
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
        variables = tuple(item for item in os.environ.items() if item[0].startswith("AWS_"))
        try:
            client = _client(self.address.endpoint, *self._bounds, variables)
            return take(getattr(client, operation)(Bucket=self.address.bucket, **parameters))
        except StoreError:
            raise
        except Exception as error:  # whatever the library makes of what a server sends
            problem = _failure(self.address, error)
        raise problem  # out here, nothing foreign is its context


def each(do: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Do something with each item, many at a time, and return what came of it.

    What is in flight when one fails is finished; the first failure is raised.
    """
    work = list(items)
    if len(work) < 2:
        return [do(item) for item in work]
    with ThreadPoolExecutor(min(MAX_AT_ONCE, len(work))) as threads:
        started = [threads.submit(do, item) for item in work]
        try:
            return [future.result() for future in started]
        except BaseException:
            for future in started:
                future.cancel()
            raise


def _stored(answer: Answer) -> StoredObject:
    return StoredObject(answer["Body"].read(), answer["ETag"])


def _range(answer: Answer) -> tuple[StoredObject, int]:
    """Return a part of an object, and the length of all of it."""
    part = _stored(answer)
    # A server that knows no ranges gives all of it.
    whole = answer.get("ContentRange", f"/{len(part.content)}")
    return part, int(whole.rpartition("/")[2])


def _tag(answer: Answer) -> str:
    return str(answer["ETag"])


def _nothing(_: Answer) -> None:
    return None


def _condition(expected: str) -> dict[str, str]:
    if expected == ANY:
        return {}
    return {"IfMatch": expected} if expected else {"IfNoneMatch": "*"}


class _Content(BytesIO):
    """The content of an answer, as botocore reads it."""

    def stream(self) -> Iterator[bytes]:
        yield self.read()


@cache
def _client(endpoint: str | None, seconds: float, silence: float, _: object) -> Any:  # noqa: ANN401
    """Return botocore's client for S3: a class that it makes at run time."""
    try:
        import botocore.session
        from botocore.config import Config
    except ImportError:
        problem = "a store on S3 needs the package botocore: pip install 'rag-assets[s3]'"
        raise StoreError(problem) from None
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
        body = request.body or b""
        try:
            answer = transport.exchange(request.method, request.url, headers, body)
        except ServerFailure as failed:
            kind, problem = failed.kind, str(failed)
        else:
            status, received, content = answer
            return awsrequest.AWSResponse(request.url, status, received, _Content(content))
        # Of these kinds, so that it is tried again.
        if kind == "late":
            raise exceptions.ReadTimeoutError(endpoint_url=server.place)
        if kind == "unconnected":
            raise exceptions.EndpointConnectionError(endpoint_url=server.place)
        raise exceptions.HTTPClientError(error=problem)

    return carry


def _failure(address: Address, error: Exception) -> StoreError:
    """Return the error to raise for one of botocore's, or for what it makes of an odd answer."""
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    variable = ENDPOINT_VARIABLES[-1]
    at = f"at {address.endpoint} ({variable})"
    if address.endpoint is None:
        at = f"at AWS ({variable} names another server)"
    if isinstance(error, exceptions.ClientError):
        return _refusal(address, at, error.response)
    if isinstance(error, exceptions.NoCredentialsError):
        problem = f"there are no credentials; {_SOUGHT}"
    elif isinstance(error, exceptions.ReadTimeoutError):
        problem = f"no answer in time {at}"
    elif isinstance(error, exceptions.EndpointConnectionError):
        problem = f"nothing answers {at}"
    elif isinstance(error, exceptions.HTTPClientError | ResponseParserError) or not isinstance(
        error, exceptions.BotoCoreError
    ):  # its text repeats what the server says
        problem = f"what answers {at} does not speak S3"
    else:
        problem = _hidden(" ".join(str(error).split()))
    return StoreError(f"the store {address.url} cannot be used: {problem[:300]}")


def _refusal(address: Address, at: str, answer: Answer) -> Refused:
    # The server's own words are left out: they may repeat the headers that were sent to it.
    status = int(answer["ResponseMetadata"].get("HTTPStatusCode", 0))
    code = str(answer.get("Error", {}).get("Code", ""))
    code = _hidden(code) if _CODE.fullmatch(code) else ""
    if code == "NoSuchBucket":
        problem = f"there is no bucket '{address.bucket}' {at}; create it first"
    elif status in (401, 403) or code in ("ExpiredToken", "InvalidToken"):
        problem = f"access was denied {at} ({code or status}); {_SOUGHT}"
    elif 300 <= status < 400:
        problem = f"what answers {at} names another place, which is not asked"
    elif status == 501:
        problem = f"what answers {at} knows no conditional writes (If-None-Match)"
    else:
        problem = f"what answers {at} says {status} {code}".strip()
    return Refused(f"the store {address.url} cannot be used: {problem[:300]}", status, code)


def _hidden(text: str) -> str:
    return Secrets(os.environ.get(name, "") for name in _CREDENTIALS).hide(text)
