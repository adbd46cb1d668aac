"""The version of the code behind a computation: the hash of all that its roots can reach."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path

from rag_assets.code_versions.closure import Closure, Root, SourceGraph, is_source
from rag_assets.errors import StoreError, UsageError
from rag_assets.store.atomic import write_text
from rag_assets.store.file_stamps import SourceFiles

PACKAGE = "rag_assets"
PACKAGE_DIR = Path(__file__).parent.parent
LENGTH = 16
"""Hexadecimal digits of a version: 64 bits tell any two states of the code apart."""


class CodeVersions:
    """Versions by roots; kept by the SHA-256 of the sources, so that equal ones are parsed once."""

    def __init__(self, folder: Path | None = None, source: Path = PACKAGE_DIR) -> None:
        """Remember in ``folder`` what was found; None remembers nothing across processes.

        Nothing is written before the folder's parent exists: loading definitions makes no store.
        """
        self._folder = folder
        self._source = source
        # The source of this process stays what it is, so it is parsed once, whatever is opened.
        self._graph = _own_graph() if source == PACKAGE_DIR else SourceGraph({PACKAGE: source})
        self._followed = _FOLLOWED if source == PACKAGE_DIR else {}

    @cached_property
    def source_digest(self) -> str:
        """SHA-256 of the names and contents of all files of this package."""
        if self._source in _DIGESTS:
            return _DIGESTS[self._source]
        stamps = self._folder / "files.json" if self._folder and self._may_write else None
        files = sorted(file for file in self._source.rglob("*") if is_source(file))
        digest = SourceFiles(stamps).digest(files, self._source)
        if self._source == PACKAGE_DIR:
            _DIGESTS[PACKAGE_DIR] = digest
        return digest

    def of(self, roots: Iterable[Root]) -> str:
        """Return the version of what these roots reach.

        A root of another package stands for all files of that package.

        Raises:
            LookupError: there is no such definition.
        """
        wanted = tuple(sorted(set(roots)))
        foreign = sorted({_top(root) for root in wanted} - {PACKAGE})
        name = " ".join([*wanted, *(f"{top}={_package_digest(top)}" for top in foreign)])
        if name not in self._stored:
            if name not in self._followed:
                self._followed[name] = self.closure(wanted, foreign).digest[:LENGTH]
            self._stored[name] = self._followed[name]
            self._save()
        return self._stored[name]

    def closure(self, roots: Iterable[Root], foreign: Iterable[str] = ()) -> Closure:
        """Return all definitions that roots and whole packages reach."""
        for package in foreign:
            self._graph.packages[package] = _package_place(package)
        package_roots = (root for root in roots if _top(root) == PACKAGE)
        return Closure(self._graph, package_roots, foreign)

    @cached_property
    def _stored(self) -> dict[str, str]:
        try:
            stored = json.loads(self._file.read_text(encoding="utf-8")) if self._file else {}
        except (OSError, ValueError):
            return {}
        return stored if isinstance(stored, dict) else {}

    @property
    def _file(self) -> Path | None:
        return self._folder / f"{self.source_digest[:LENGTH]}.json" if self._folder else None

    @property
    def _may_write(self) -> bool:
        return self._folder is not None and self._folder.parent.is_dir()

    def _save(self) -> None:
        if self._file is not None and self._may_write:
            write_text(self._file, json.dumps(self._stored), durable=False)


_FOLLOWED: dict[str, str] = {}
"""Roots of this process's source -> their version, whatever folder remembers it."""

_DIGESTS: dict[Path, str] = {}
"""The digest of this process's source, once it is known: it is read once, whatever is opened."""


@cache
def _own_graph() -> SourceGraph:
    return SourceGraph({PACKAGE: PACKAGE_DIR})


@cache
def _opened(folder: Path | None) -> CodeVersions:
    return CodeVersions(folder)


_last: list[Path | None] = [None]


def code_versions(folder: Path | None = None) -> CodeVersions:
    """Return the versions that are remembered in a folder, one object a process."""
    _last[0] = folder
    return _opened(folder)


SAME_RESULTS: dict[str, str] = {
    "a1fa158b07c5512c": "a5598868c1e36e0f",  # dense vectors
    "3742f40649c8eab6": "d8ea5cd31109fd70",  # vectors of tokens
    "6beab3eaa362e912": "f1a271a26cec0436",  # sparse vectors
    "c845b3782cf65d70": "20e50accfe9b80aa",  # scores of cross-encoders
}
"""Version of code that fills a cache -> the one that filled it before, and computed the same.

Whoever edits such code without another result writes its new version here, so that nothing is
computed again; else the line goes.
"""


def filled_by(*roots: Root) -> str:
    """Return the version of the code that fills a cache of computed values, for its keys.

    What another version computed is not found, and is computed once again, unless it is one of
    :data:`SAME_RESULTS`. It is remembered in the folder that this process opened last.
    """
    version = _opened(_last[0]).of(roots)
    return SAME_RESULTS.get(version, version)


def root_of(definition: type, method: str = "") -> Root:
    """Return the root for a class, or for one of its methods."""
    return f"{definition.__module__}:{definition.__qualname__}{method and f'.{method}'}"


LOOK_AGAIN_S = 0.1
"""Seconds for which the source counts as looked at: of 600 files that takes milliseconds."""


def check_unchanged() -> None:
    """Check that the source on disk is what this process was started with.

    A file that came since counts for nothing: what reads it was changed too.

    Raises:
        UsageError: it was changed since; what would be computed now is neither old nor new.
    """
    now = time.monotonic()
    if now < _LOOK_FROM[0]:
        return
    if _stamps(_AT_START) != _AT_START:
        raise UsageError(
            "the source of rag_assets changed since this process started; nothing "
            "was written, restart the process"
        )
    _LOOK_FROM[0] = now + LOOK_AGAIN_S


def _stamps(files: Iterable[str]) -> Mapping[str, tuple[int, int]]:
    """Return size and time of source files."""
    stamps = {}
    for file in files:
        with suppress(FileNotFoundError):
            status = os.stat(file)  # noqa: PTH116  # hundreds of files
            stamps[file] = (status.st_size, status.st_mtime_ns)
    return stamps


def _top(root: Root) -> str:
    return root.partition(":")[0].partition(".")[0]


@cache
def _package_place(package: str) -> Path:
    """Return the folder of an installed package, or the file of one that is a module."""
    spec = find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    place = folders[0] if folders else spec.origin if spec is not None else None
    if place is None or not Path(place).exists():
        raise StoreError(f"the source of the package {package} cannot be found")
    return Path(place)


@cache
def _package_digest(package: str) -> str:
    place = _package_place(package)
    files = [place] if place.is_file() else sorted(filter(is_source, place.rglob("*")))
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(place.parent)}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:LENGTH]


_LOOK_FROM = [0.0]
"""When the source is looked at again, on the monotonic clock."""

_AT_START = _stamps(map(str, PACKAGE_DIR.rglob("*.py")))
