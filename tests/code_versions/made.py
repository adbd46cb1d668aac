"""Small packages that tests of code versions write, and copies of this one that they change."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

from rag_assets.code_versions.closure import Closure, SourceGraph


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files of a package, and return its folder."""
    for name, content in {"__init__.py": "", **files}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(content), encoding="utf-8")
    return folder


def closure(folder: Path, *roots: str) -> Closure:
    """Return what roots of the package ``pkg`` in a folder reach."""
    return Closure(SourceGraph({"pkg": folder}), roots)


def reached(folder: Path, *roots: str) -> set[str]:
    """Return the names of the definitions that roots reach."""
    return names(closure(folder, *roots))


def names(found: Closure) -> set[str]:
    return {f"{one.module.removeprefix('pkg.')}:{one.name}" for one in found.definitions}


def digests(folder: Path, roots: Iterable[str], changed: Mapping[str, str]) -> tuple[str, str]:
    """Return the digest of some roots before and after some files are rewritten."""
    before = closure(folder, *roots).digest
    return before, closure(write(folder, changed), *roots).digest
