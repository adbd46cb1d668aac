"""Writes that are either complete or not there: a temporary name, fsync, then a rename.

An artifact, a folder, is complete when its manifest is there.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rag_assets.errors import StoreError
from rag_assets.input_files import regular

WriteRecord = Callable[[Path, str, Callable[[bytes | None], str]], str]
"""Writes a small file as :meth:`rag_assets.store.settings.StoreSettings.write_record` does."""

TEMPORARY_MARK = ".tmp-"
"""Part of the name of everything that is not finished; such a name may be removed at any time."""

MANIFEST = "manifest.json"
"""The last file of an artifact: with it, the artifact is whole."""

TABLE = "table.parquet"
"""The file of an artifact that is a table."""

MANIFESTS_DIR = "manifests"
"""In the copy of a remote store: manifests of folders, such as indexes, that are not fetched."""


@contextmanager
def atomic_file(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that replaces it when the block ends well.

    Args:
        path: the file.
        durable: whether it must survive a power failure from then on.
    """
    temporary = _temporary(path)
    try:
        regular(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        if durable:
            _fsync(temporary)
        temporary.replace(path)
        if durable:
            _fsync(path.parent)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # already renamed, or its folder could never be made
            temporary.unlink()


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``path`` when the block ends well.

    When ``path`` already exists (another process was first) the new folder is dropped: artifacts
    are immutable and both hold the same content.
    """
    temporary = _temporary(path)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        for file in temporary.rglob("*"):
            _fsync(file)
        _rename_unless_there(temporary, path)
        _fsync(path.parent)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Write a small text file as :func:`atomic_file` does."""
    with atomic_file(path, durable=durable) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_record(path: Path, text: str, _: Callable[[bytes | None], str]) -> str:
    """Write a small file of a store that is a folder, and return what was written."""
    write_text(path, text)
    return text


def _rename_unless_there(temporary: Path, path: Path) -> None:
    try:
        temporary.rename(path)
    except OSError:
        if not path.is_dir():
            raise


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}{TEMPORARY_MARK}{uuid.uuid4().hex[:12]}")


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file or a folder; one that is gone is no failure."""
    try:
        if path.is_dir() and not path.is_symlink():
            # Renamed first: a folder of which half is gone must not be taken for an artifact.
            doomed = path if TEMPORARY_MARK in path.name else path.rename(_temporary(path))
            shutil.rmtree(doomed)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"cannot remove {path}: {error.strerror or error}") from error


def remove_below(store: Path, paths: Iterable[Path]) -> None:
    """Remove files and folders in the order given, and folders of a store that are empty then."""
    for path in paths:
        remove(path)
        for folder in path.parents:
            if folder == store:
                break
            with suppress(OSError):  # not empty
                folder.rmdir()


def manifest_file(path: Path) -> Path:
    """Return where the manifest of an artifact lies that is not fetched itself."""
    return path.parents[2] / MANIFESTS_DIR / path.parent.name / f"{path.name}.json"


def append_line(file: Path, text: str) -> None:
    """Append a line in one write; it is on the disk when this returns."""
    line = text.encode() + b"\n"
    try:
        regular(file)
        descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # a torn line stays one line, and is reported as such
            if os.write(descriptor, line) != len(line):
                raise StoreError(f"cannot write {file}: the disk is full")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(f"cannot write {file}: {error.strerror or error}") from error
