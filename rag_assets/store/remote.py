"""A store on S3: where it lies, its objects, and the local copy in which everything is computed.

Objects have names that never mean anything else: artifacts, snapshots, rows of the history and
segments of caches are immutable. So a copy fetches what is missing, sends what is new, and then
moves the pointer, by a write on the condition that nobody else did meanwhile. Small records
(pointers, numbers of attempts) change: they are written there first, on the same condition.

Whoever removes something writes its name down first, in the store. A copy that still has it removes
it too, so that nothing comes back; what a killed process had sent is no exception.

botocore, the library under AWS's own tools, finds the credentials, signs, and reads answers; the
requests go by the transport of all our clients, which bounds their time and follows no redirect.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from rag_assets.errors import StoreError, UsageError
from rag_assets.store.atomic import (
    MANIFEST,
    MANIFESTS_DIR,
    TABLE,
    TEMPORARY_MARK,
    atomic_directory,
    atomic_file,
    manifest_file,
    remove,
    remove_below,
    write_text,
)
from rag_assets.store.canonical import fingerprint

if TYPE_CHECKING:
    from rag_assets.servers.transport import Server

ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""The first that is set names the server; without one it is AWS. So do the tools of AWS."""

ANY = "*"
"""As what is expected in the place of an object: whatever it is, it is overwritten."""

ABSENT = ""
"""As what is expected in the place of an object: nothing."""

MAX_AT_ONCE = 16
"""Requests in flight."""

REMOVED = "_removed.json"
"""The object with the names that were removed from the store, and when."""

REMEMBERED_S = 180 * 86400.0
"""Seconds for which they stand in it: a copy that was not used for so long may bring them back."""

OBJECTS_DIR, LEASES_DIR = "objects", "_leases"
SHARED_DIRS = (OBJECTS_DIR, "measurements", "cache", LEASES_DIR)
"""Folders that belong to no experiment; none of them is fetched as a whole."""

POINTERS, IMMUTABLE_DIRS = ("current", "anchor"), ("evaluations", "history")
"""In the folder of an experiment: ids of two evaluations, and folders of what never changes."""

_NEEDED = {
    "get_object": "ETag",
    "put_object": "ETag",
    "upload_part": "ETag",
    "create_multipart_upload": "UploadId",
}
"""Request -> what an answer to it holds, or it is none of S3."""
_OF_LISTED = {"Key", "LastModified", "Size"}

_PART = 8 << 20
_TRIES = 5
_MERGES = 10
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):/+", re.I)
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


@dataclass(frozen=True)
class Address:
    """A remote store: an existing bucket, the prefix of all names, and the server (None: AWS)."""

    bucket: str
    prefix: str
    endpoint: str | None = None

    @classmethod
    def of(cls, text: str) -> Address | None:
        """Return the address that a text is, with the endpoint in force; None: a local path.

        A path that was made of an address, and so lost a slash, counts as the address.
        """
        scheme = _SCHEME.match(text)
        if scheme is None:
            return None
        rest = text[scheme.end() :]
        bucket, _, prefix = rest.partition("/")
        if scheme[1].lower() != "s3" or not bucket:
            where = f"{scheme[1]}://{rest}"
            raise UsageError(f"the store '{where}' is neither a folder nor s3://BUCKET/PREFIX")
        return cls(bucket, "/".join(part for part in prefix.split("/") if part), _endpoint())

    @property
    def url(self) -> str:
        """``s3://bucket/prefix``."""
        return f"s3://{'/'.join(part for part in (self.bucket, self.prefix) if part)}"

    @property
    def folder_name(self) -> str:
        """A name for the local copy: no two stores share one."""
        plain = re.sub(r"[^A-Za-z0-9]+", "-", f"{self.bucket}-{self.prefix}").strip("-")
        return f"{plain[:60]}-{fingerprint([self.url, self.endpoint])[:8]}"


def _endpoint() -> str | None:
    for variable in ENDPOINT_VARIABLES:
        text = os.environ.get(variable, "")
        parts = urlsplit(text)
        if text and (parts.scheme not in ("http", "https") or not parts.hostname):
            hidden = text.rpartition("@")[2]
            raise UsageError(f"{variable} is '{hidden}'; allowed: http(s)://HOST[:PORT]")
        if text:
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"  # without a password
    return None


class Refused(StoreError):
    """The server answered with an error: its status, and what S3 calls it."""

    def __init__(self, message: str, status: int, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.is_missing = status == 404 and code != "NoSuchBucket"


class Listed(NamedTuple):
    """An object: its bytes, and when it was written (nanoseconds since 1970)."""

    size: int
    modified: int


class StoredObject(NamedTuple):
    """What an object holds, and the tag by which S3 knows that it has not changed since."""

    content: bytes
    tag: str


class Objects:
    """The objects below one address, each there as a whole or not at all; names are relative to it.

    Every method raises :class:`StoreError` where the store cannot be used.
    """

    def __init__(self, address: Address, *, seconds: float = 120.0, silence: float = 30.0) -> None:
        """Use an address: so many seconds a request, and so many of them in which no byte comes."""
        self.address = address
        self._bounds = (seconds, silence)

    def listed(self, folder: str) -> dict[str, Listed]:
        """Return name -> what is known of every object below a folder."""
        first = len(self._key(""))
        objects = {}
        for item in self._list(folder).get("Contents", ()):
            name, written = item["Key"][first:], int(item["LastModified"].timestamp() * 1e9)
            if _is_name(name):  # others are somebody else's
                objects[name] = Listed(item["Size"], written)
        return objects

    def folders(self, folder: str = "") -> list[str]:
        """Return the names of the folders in a folder."""
        items = self._list(folder, Delimiter="/").get("CommonPrefixes", ())
        return [item["Prefix"].split("/")[-2] for item in items]

    def read(self, name: str) -> bytes | None:
        """Return a small object; None: there is none."""
        stored = self.find(name)
        return None if stored is None else stored.content

    def find(self, name: str) -> StoredObject | None:
        """Return a small object with its tag; None: there is none."""
        try:
            answer = self._ask("get_object", name)
        except Refused as error:
            if error.is_missing:
                return None
            raise
        return StoredObject(answer["Body"], answer["ETag"])

    def fetch(self, name: str, path: Path) -> bool:
        """Write an object to a file, whole or not at all; return whether there is one."""
        start, end = 0, 1
        condition: dict[str, str] = {}  # all blocks are of one object
        try:
            with atomic_file(path, durable=False) as temporary, temporary.open("wb") as file:
                while start < end:
                    wanted = f"bytes={start}-{start + _PART - 1}"
                    answer = self._ask("get_object", name, Range=wanted, **condition)
                    file.write(answer["Body"])
                    end = answer["Whole"]
                    start += max(len(answer["Body"]), 1)
                    condition = {"IfMatch": answer["ETag"]}
        except Refused as error:
            if error.is_missing:
                return False
            if error.status != 416 or condition:
                raise
            path.write_bytes(b"")  # a block of an empty one is refused
        return True

    def write(self, name: str, content: bytes, expected: str = ANY) -> str | None:
        """Write a small object, and return its tag; None: something else is there than expected.

        It replaces :data:`ANY`, :data:`ABSENT`, or what has a tag.
        """
        try:
            return str(self._ask("put_object", name, expected, Body=content)["ETag"])
        except Refused as error:
            if expected == ANY or not (error.status == 412 or error.is_missing):
                raise
        # Of a request that was repeated, the first may have come through.
        there = self.find(name)
        return there.tag if there is not None and there.content == content else None

    def send(self, path: Path, name: str, expected: str = ANY) -> bool:
        """Write a file as an object over :data:`ANY` or :data:`ABSENT`; return whether that was."""
        if path.stat().st_size <= _PART:
            return self.write(name, path.read_bytes(), expected) is not None
        upload = {"UploadId": self._ask("create_multipart_upload", name)["UploadId"]}
        try:
            parts = []
            with path.open("rb") as file:
                for number, block in enumerate(iter(lambda: file.read(_PART), b""), 1):
                    part = {"Body": block, "PartNumber": number, **upload}
                    tag = self._ask("upload_part", name, **part)["ETag"]
                    parts.append({"PartNumber": number, "ETag": tag})
            end = {**upload, "MultipartUpload": {"Parts": parts}}
            self._ask("complete_multipart_upload", name, expected, **end)
        except BaseException as error:
            with suppress(StoreError):  # an upload that never ends is not shown either
                self._ask("abort_multipart_upload", name, **upload)
            if isinstance(error, Refused) and error.status == 412 and expected != ANY:
                return False
            raise
        return True

    def delete(self, name: str) -> None:
        """Delete an object; to S3, one that is gone is no failure."""
        self._ask("delete_object", name)

    def _list(self, folder: str, **within: str) -> Answer:
        prefix = f"{self._key(folder).rstrip('/')}/".lstrip("/")
        return self._ask("list_objects_v2", Prefix=prefix, **within)

    def _key(self, name: str) -> str:
        return f"{self.address.prefix}/{name}".lstrip("/")

    def _ask(
        self, operation: str, name: str | None = None, expected: str = ANY, **parameters: object
    ) -> Answer:
        """Return the answer to one request, its body read; of a list, the answer to all of it."""
        if name is not None:
            parameters["Key"] = self._key(name)
        if expected != ANY:
            parameters |= {"IfMatch": expected} if expected else {"IfNoneMatch": "*"}
        variables = tuple(item for item in os.environ.items() if item[0].startswith("AWS_"))
        try:
            client = _client(self.address.endpoint, *self._bounds, variables)
            parameters["Bucket"] = self.address.bucket
            if client.can_paginate(operation):
                pages = client.get_paginator(operation).paginate(**parameters)
                answer = pages.build_full_result()
                for item in answer.get("Contents", ()):
                    if lacks := _OF_LISTED - item.keys():
                        raise KeyError(*lacks)
                return dict(answer)
            answer = getattr(client, operation)(**parameters)
            if operation in _NEEDED and _NEEDED[operation] not in answer:
                raise KeyError(_NEEDED[operation])
            if operation == "get_object":
                answer["Body"] = content = answer["Body"].read()
                # A server that knows no ranges gives all of it.
                whole = answer.get("ContentRange", f"/{len(content)}").rpartition("/")[2]
                answer["Whole"] = int(whole)
            return dict(answer)
        except StoreError:
            raise
        except Exception as error:  # whatever the library makes of what a server sends
            problem = _failure(self.address, error)
        raise problem  # out here, nothing foreign is its context


def each(do: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Do something with each item, many at a time; what is in flight when one fails is finished."""
    with ThreadPoolExecutor(MAX_AT_ONCE) as threads:
        return list(threads.map(do, items))


class LocalCopy:
    """A folder, and the remote store that it is a copy of a part of; names are the same in both.

    Every method raises :class:`StoreError` where the remote store or the folder cannot be used.

    Attributes:
        listing: what was there when it was last refreshed, and what was sent since.
        written: artifacts that were written here; :meth:`send_new` sends them.
        damaged: artifacts that are not what was written there: the next one takes their place.
    """

    def __init__(self, folder: Path, objects: Objects) -> None:
        """Bind a folder to the objects; nothing is asked yet."""
        self.folder = folder
        self.objects = objects
        self.listing: dict[str, Listed] = {}
        self.damaged: set[Path] = set()
        self.written: set[Path] = set()

    def name(self, path: Path) -> str:
        """Return the name of an object by its path here; no name leads out of the folder."""
        if ".." in path.parts or not path.is_relative_to(self.folder):
            where = self.objects.address.url
            raise StoreError(f"the store {where} contains a name that leads out of it: {path}")
        return path.relative_to(self.folder).as_posix()

    def refresh(self) -> None:
        """List all that is there, and remove here what any machine removed there."""
        folders = [f"{OBJECTS_DIR}/{asset}" for asset in self.objects.folders(OBJECTS_DIR)]
        folders += [n for n in self.objects.folders() if n not in (OBJECTS_DIR, LEASES_DIR)]
        parts_listed = each(self.objects.listed, folders)
        self.listing = {name: entry for part in parts_listed for name, entry in part.items()}
        removed = _removed_names(self.objects.read(REMOVED))
        gone = {name: at for name, at in removed.items() if not self.has(self.folder / name)}
        obeyed = self._obeyed()
        new = (self.folder / name for name, at in gone.items() if obeyed.get(name) != at)
        remove_below(self.folder, (path for path in new if path.exists()))
        self._obey(gone)
        for file in (self.folder / MANIFESTS_DIR).glob("*/*.json"):
            if not self.has(self.folder / OBJECTS_DIR / file.parent.name / file.stem):
                remove(file)

    def _obeyed(self) -> dict[str, float]:
        """Return the removals that this copy followed: what was made anew since then stays."""
        file = self.folder / REMOVED
        return _removed_names(file.read_bytes() if file.exists() else None)

    def _obey(self, removed: Mapping[str, float]) -> None:
        if removed != self._obeyed():
            write_text(self.folder / REMOVED, json.dumps(removed), durable=False)

    def pull(self, experiments: Collection[str] = ()) -> list[str]:
        """Refresh, fetch all that is in the folders of experiments (empty: all), return these."""
        chosen = list(experiments) or sorted({*self.objects.folders()} - {*SHARED_DIRS})
        # Read before all is listed, and written after that came: a pointer names a part of it.
        names = [f"{experiment}/{name}" for experiment in chosen for name in POINTERS]
        pointers = dict(zip(names, each(self.objects.find, names), strict=True))
        self.refresh()
        new = [
            name
            for name in self.listing
            if name.partition("/")[0] in chosen and name not in pointers
            if not (name.split("/")[1] in IMMUTABLE_DIRS and (self.folder / name).exists())
        ]
        each(lambda name: self.objects.fetch(name, self.folder / name), new)
        for name, stored in pointers.items():
            path = self.folder / name
            if stored is not None and not (path.exists() and path.read_bytes() == stored.content):
                write_text(path, stored.content.decode("utf-8", "replace"), durable=False)
        return chosen

    def fetch(self, folder: str, starts: Collection[str] = ()) -> None:
        """Fetch the files below a folder (empty: all) that are not here, by the last listing.

        With ``starts``, only files whose names begin so, in 16 characters.
        """
        missing = [
            name
            for name in self.listing
            if name.startswith(f"{folder}/" if folder else "")
            and (not starts or name.rpartition("/")[2][:16] in starts)
            and not (self.folder / name).exists()
        ]
        each(lambda name: self.objects.fetch(name, self.folder / name), missing)

    def fetch_entries(self, paths: Iterable[Path]) -> None:
        """Fetch tables that are not here yet, and of folders, such as indexes, the manifests."""
        each(partial(self.fetch_artifact, whole=False), dict.fromkeys(paths))

    def has(self, path: Path) -> bool:
        """Return whether a file or an artifact was listed, and is not known to be damaged."""
        name = self.name(path)
        is_listed = name in self.listing or f"{name}/{MANIFEST}" in self.listing
        return is_listed and path not in self.damaged

    def names(self, folder: Path) -> set[str]:
        """Return the names of what is there in a folder."""
        start = f"{self.name(folder)}/"
        return {n[len(start) :].partition("/")[0] for n in self.listing if n.startswith(start)}

    def _manifest(self, path: Path) -> bytes | None:
        """Return the manifest of an artifact that is there; None: it is not."""
        return self.objects.read(f"{self.name(path)}/{MANIFEST}")

    def fetch_artifact(self, path: Path, *, whole: bool = True) -> bool:
        """Fetch an artifact, if it is a table or ``whole``; return whether it is here then.

        Of another folder, such as an index, the manifest alone is fetched.
        """
        if (path / MANIFEST).is_file():
            return True
        manifest = self._manifest(path) or b""
        try:
            files = [str(file) for file in json.loads(manifest)["files"]]
        except (ValueError, TypeError, KeyError):
            return False
        if not whole and TABLE not in files:
            write_text(manifest_file(path), manifest.decode("utf-8", "replace"), durable=False)
            return False
        remove(path)  # the rest of one
        with atomic_directory(path) as temporary:
            names = [(self.name(path / file), temporary / file) for file in files]
            is_whole = all(each(lambda pair: self.objects.fetch(*pair), names))
            (temporary / MANIFEST).write_bytes(manifest)
        if not is_whole:
            remove(path)
        return is_whole

    def send_new(self, artifacts: Iterable[Path] = ()) -> None:
        """Send artifacts, what was noted, and what caches and measurements grew by.

        Nothing refers to any of it yet, so the order does not matter.
        """
        paths = {path for path in {*artifacts, *self.written} if path.exists()}
        self.send(paths.union(*(_files(self.folder / name) for name in ("cache", "measurements"))))
        self.written.clear()

    def send(self, paths: Iterable[Path]) -> None:
        """Send artifacts and immutable files that are not there; all keep what was sent first."""
        new = [path for path in paths if not self.has(path)]
        for path, is_first in zip(new, each(self._send, new), strict=True):
            self.damaged.discard(path)
            if path.is_dir() and not is_first:
                remove(path)
                self.fetch_artifact(path)
            elif not is_first:
                self.objects.fetch(self.name(path), path)
            files = _files(path) if path.is_dir() else [path]
            self.listing.update({self.name(file): Listed(0, time.time_ns()) for file in files})

    def _send(self, path: Path) -> bool:
        """Send one; return whether what is there now is of this machine.

        The manifest of an artifact is sent last. Files without a manifest are the rest of an upload
        that was interrupted, and are overwritten; whose file another machine so overwrote leaves
        the manifest to that one, so that all files are of one.
        """
        expected = ANY if path in self.damaged else ABSENT
        if not path.is_dir():
            return self.objects.send(path, self.name(path), expected)
        manifest = path / MANIFEST
        files = [file for file in _files(path) if file != manifest]
        refused = [f for f in files if not self.objects.send(f, self.name(f), expected)]
        if refused:
            if self._manifest(path) is not None:
                return False
            expected = ANY
        for file in refused:
            self.objects.send(file, self.name(file))
        return self.objects.send(manifest, self.name(manifest), expected)

    def merge(self, path: Path, merged: Callable[[bytes | None], bytes | None]) -> bytes | None:
        """Write a record without losing what another machine writes, and return what is there.

        ``merged`` is given what is there, and returns what is to be there; None: as it is.
        """
        name = self.name(path)
        for _ in range(_MERGES):
            present = self.objects.find(name)
            there = None if present is None else present.content
            content = merged(there)
            if content is None or content == there:
                return there
            tag = self.objects.write(name, content, ABSENT if present is None else present.tag)
            if tag is not None:
                self.listing[name] = Listed(len(content), time.time_ns())
                return content
        raise StoreError(
            f"{self.objects.address.url}/{name} is being changed by other machines; "
            "run the command again"
        )

    def delete(self, paths: Iterable[Path]) -> None:
        """Delete files and artifacts there; other copies remove them when they are used next."""
        targets = {self.name(path) for path in paths}
        names = [name for name in self.listing if not targets.isdisjoint(_places(name))]
        # What is in this copy alone, such as state of this machine, is no matter of others.
        doomed = targets & set().union(*map(_places, names))
        now = time.time()

        def with_doomed(content: bytes | None) -> bytes:
            noted = _removed_names(content).items()
            recent = {name: at for name, at in noted if now - at < REMEMBERED_S}
            return json.dumps({**recent, **dict.fromkeys(sorted(doomed), now)}).encode()

        if names:
            self.merge(self.folder / REMOVED, with_doomed)
            self._obey(self._obeyed() | dict.fromkeys(doomed, now))
        # No snapshot then names what is gone, and a folder without its manifest is no artifact.
        for is_record in (True, False):
            each(self.objects.delete, [n for n in names if n.endswith(".json") is is_record])
        for name in names:
            del self.listing[name]


def _removed_names(content: bytes | None) -> dict[str, float]:
    """Return the names that were removed, and when; what is damaged counts as empty."""
    try:
        noted = {str(name): float(at) for name, at in json.loads(content or b"{}").items()}
        return {n: at for n, at in noted.items() if _is_name(n)}
    except (ValueError, TypeError, AttributeError):
        return {}


def _is_name(name: str) -> bool:
    """Return whether a name is that of a file below a folder."""
    return all(part not in ("", ".", "..") for part in name.split("/"))


def _files(folder: Path) -> list[Path]:
    paths = (path for path in folder.rglob("*") if TEMPORARY_MARK not in path.as_posix())
    return [path for path in paths if path.is_file()]


def _places(name: str) -> set[str]:
    """Return the name of a file, and those of its folders."""
    parts = name.split("/")
    return {"/".join(parts[: n + 1]) for n in range(len(parts))}


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
    from rag_assets.servers.transport import Server

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
    client.meta.events.register("needs-retry.s3", _wait_after_conflict)
    return client


def _wait_after_conflict(response: Any, attempts: int, **_: object) -> float | None:  # noqa: ANN401
    """Return the seconds until a write is sent again, because another machine was writing there."""
    is_conflict = response is not None and response[0].status_code == 409
    return 0.1 * 2**attempts if is_conflict and attempts < _TRIES else None


def _carrier(server: Server) -> Callable[..., Any]:
    """Return what sends a signed request: our transport in the place of botocore's own."""
    import httpx2
    from botocore import awsrequest, exceptions

    from rag_assets.servers.failures import ServerFailure
    from rag_assets.servers.transport import Transport

    transport = Transport(httpx2, server)

    def carry(request: Any, **_: object) -> Any:  # noqa: ANN401 (botocore's)
        headers = {n: t.decode() if isinstance(t, bytes) else t for n, t in request.headers.items()}
        headers.pop("Expect", None)  # the transport does not wait between head and body
        try:
            answer = transport.exchange(request.method, request.url, headers, request.body or b"")
            status, received, content = answer
            return awsrequest.AWSResponse(request.url, status, received, _Content(content))
        except ServerFailure as failed:
            failure = failed
        raise exceptions.HTTPClientError(error=failure)  # of this kind, so that it is tried again

    return carry


def _failure(address: Address, error: Exception) -> StoreError:
    """Return the error to raise for one of botocore's, or for what it makes of an odd answer.

    The server's own words are left out: they may repeat the headers that were sent to it.
    """
    from botocore import exceptions

    from rag_assets.servers.secrets import Secrets

    hide = Secrets(os.environ.get(name, "") for name in _CREDENTIALS).hide
    variable = ENDPOINT_VARIABLES[-1]
    at = f"at {address.endpoint} ({variable})"
    if address.endpoint is None:
        at = f"at AWS ({variable} names another server)"
    problem, status, code = f"what answers {at} does not speak S3", 0, ""
    if isinstance(error, exceptions.ClientError):
        status = int(error.response["ResponseMetadata"].get("HTTPStatusCode", 0))
        code = str(error.response.get("Error", {}).get("Code", ""))
        problem = _refusal(address, at, status, hide(code) if _CODE.fullmatch(code) else "")
    elif isinstance(error, exceptions.NoCredentialsError):
        problem = f"there are no credentials; {_SOUGHT}"
    elif isinstance(error, exceptions.HTTPClientError):  # of `_carrier`
        kind = getattr(error.kwargs.get("error"), "kind", "")
        unserved = {"late": f"no answer in time {at}", "unconnected": f"nothing answers {at}"}
        problem = unserved.get(kind, problem)
    elif isinstance(error, exceptions.BotoCoreError):
        problem = hide(" ".join(str(error).split()))
    message = f"the store {address.url} cannot be used: {problem[:300]}"
    return Refused(message, status, code) if status else StoreError(message)


def _refusal(address: Address, at: str, status: int, code: str) -> str:
    if code == "NoSuchBucket":
        return f"there is no bucket '{address.bucket}' {at}; create it first"
    if status in (401, 403) or code in ("ExpiredToken", "InvalidToken"):
        return f"access was denied {at} ({code or status}); {_SOUGHT}"
    if 300 <= status < 400:
        return f"what answers {at} redirects to another place, which is not followed"
    if status == 501:
        return f"what answers {at} does not support conditional writes (If-None-Match)"
    return f"what answers {at} says {status} {code}".strip()
