"""The objects of a remote store: listed, fetched, sent and deleted, many at a time.

An object is there as a whole or not at all: S3 shows it when its upload is complete. pyarrow's file
system is used; credentials are found as AWS's tools find them, and are never read here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rag_assets.store.atomic import atomic_file
from rag_assets.store.remote.address import Address
from rag_assets.store.remote.failures import failure

if TYPE_CHECKING:
    from pyarrow import NativeFile
    from pyarrow.fs import S3FileSystem

AT_ONCE = 16
"""Requests in flight."""

_BLOCK = 8 << 20

Item = TypeVar("Item")
Result = TypeVar("Result")


class Listed(NamedTuple):
    """An object: its bytes, and when it was written, in nanoseconds since 1970."""

    size: int
    modified: int


class Objects:
    """The objects below one address; names are relative to it."""

    def __init__(self, address: Address) -> None:
        """Use an address; nothing is asked yet."""
        self.address = address

    @cached_property
    def _files(self) -> S3FileSystem:
        from pyarrow import fs

        endpoint = self.address.endpoint
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if endpoint is None:
            region = region or fs.resolve_s3_region(self.address.bucket)
            return fs.S3FileSystem(region=region, allow_delayed_open=True)
        scheme, _, host = endpoint.partition("://")
        return fs.S3FileSystem(
            endpoint_override=host,
            scheme=scheme,
            region=region or "us-east-1",
            # Small objects are then one request.
            allow_delayed_open=True,
        )

    def listed(self, folder: str, *, recursive: bool = True) -> dict[str, Listed]:
        """Return name -> what is known of every object below a folder; none where there is none.

        Raises:
            StoreError: the store cannot be used.
        """
        from pyarrow import fs

        selector = fs.FileSelector(self._path(folder), recursive=recursive)
        try:
            # A missing bucket is an error here; with allow_not_found it would be an empty one.
            with self._errors():
                infos = self._files.get_file_info(selector)
        except FileNotFoundError:
            return {}
        first = len(self._path("")) + 1
        return {
            info.path[first:]: Listed(info.size, info.mtime_ns or 0)
            for info in infos
            if info.type == fs.FileType.File
        }

    def folders(self, folder: str = "") -> list[str]:
        """Return the names of the folders in a folder.

        Raises:
            StoreError: the store cannot be used.
        """
        from pyarrow import fs

        try:
            with self._errors():
                infos = self._files.get_file_info(fs.FileSelector(self._path(folder)))
        except FileNotFoundError:
            return []
        return [info.base_name for info in infos if info.type == fs.FileType.Directory]

    def existing(self, names: Iterable[str]) -> set[str]:
        """Return those of some names that are there now.

        Raises:
            StoreError: the store cannot be used.
        """
        asked = set(names)
        # One request a folder; asking for an object that is not there takes two.
        folders = {name.rpartition("/")[0] for name in asked}
        listings = self.each(lambda folder: self.listed(folder, recursive=False), folders)
        return {name for listing in listings for name in listing} & asked

    def read(self, name: str) -> bytes | None:
        """Return a small object; None: there is none.

        Raises:
            StoreError: the store cannot be used.
        """
        try:
            with self._errors(), self._files.open_input_stream(self._path(name)) as stream:
                content: bytes = stream.read()
        except FileNotFoundError:
            return None
        return content

    def fetch(self, name: str, path: Path, modified: int | None = None) -> bool:
        """Write an object to a file, whole or not at all; return whether there is one.

        Args:
            name: of the object.
            path: the file.
            modified: the time that the file gets; None: now.

        Raises:
            StoreError: the store cannot be used, or the file cannot be written.
        """
        try:
            with self._errors():
                stream = self._files.open_input_stream(self._path(name))
        except FileNotFoundError:
            return False
        with stream, atomic_file(path, durable=False) as temporary:
            with temporary.open("wb") as file:
                for block in self._blocks(stream):
                    file.write(block)
            if modified is not None:
                os.utime(temporary, ns=(modified, modified))
        return True

    def write(self, name: str, content: bytes) -> None:
        """Write a small object.

        Raises:
            StoreError: the store cannot be used.
        """
        with self._errors(), self._files.open_output_stream(self._path(name)) as stream:
            stream.write(content)

    def send(self, path: Path, name: str) -> None:
        """Write a file as an object.

        Raises:
            StoreError: the store cannot be used.
            OSError: the file cannot be read.
        """
        if path.stat().st_size <= _BLOCK:
            self.write(name, path.read_bytes())
            return
        with path.open("rb") as file, self._errors():
            try:
                with self._files.open_output_stream(self._path(name)) as stream:
                    while block := file.read(_BLOCK):
                        stream.write(block)
            except BaseException:
                # Leaving the block completes the upload, of a part of the file.
                self.delete(name)
                raise

    def delete(self, name: str) -> None:
        """Delete an object; one that is gone is no failure.

        Raises:
            StoreError: the store cannot be used.
        """
        try:
            with self._errors():
                self._files.delete_file(self._path(name))
        except FileNotFoundError:
            return

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

    def _blocks(self, stream: NativeFile) -> Iterator[bytes]:
        while True:
            with self._errors():
                block: bytes = stream.read(_BLOCK)
            if not block:
                return
            yield block

    def _path(self, name: str) -> str:
        parts = (self.address.bucket, self.address.prefix, name)
        return "/".join(part for part in parts if part)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            # Not chained: pyarrow repeats what the server says.
            raise failure(self.address, error) from None
