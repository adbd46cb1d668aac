"""Hashes of the source of every stage and retriever type, whatever comments, docstrings, layout.

``python -m tests.write_code_versions`` keeps them in ``code_versions.json``;
``test_code_versions.py`` compares.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

import rag_assets
from rag_assets.pipeline.stage import Stage
from rag_assets.pipeline.stages import STAGES
from rag_assets.retrievers.registry import OWN_TYPES
from rag_assets.retrievers.retriever import Retriever

LOCK_FILE = Path(__file__).with_name("code_versions.json")
COMMAND = "make code-versions"
PACKAGE = Path(rag_assets.__file__).parent

Unit = Stage | type[Retriever]
"""What has a code version of its own."""

UNITS: dict[str, Unit] = {
    **STAGES,
    **{f"retriever {name}": kind for name, kind in OWN_TYPES.items()},
}


def found() -> dict[str, dict[str, str]]:
    """Return, for each stage and retriever type, its code version and the hash of its source."""
    return {
        name: {"code_version": unit.code_version, "source": source_hash(unit)}
        for name, unit in UNITS.items()
    }


def problems(locked: dict[str, dict[str, str]], now: dict[str, dict[str, str]]) -> list[str]:
    """Return a line for each stage whose entry in the lock file does not fit."""
    lines = []
    for name in sorted(locked.keys() | now.keys()):
        old, new = locked.get(name), now.get(name)
        if old == new:
            continue
        if old is not None and new is not None and old["code_version"] == new["code_version"]:
            where = ", ".join(modules_of(UNITS[name]))
            lines.append(
                f"{name}: its source changed, its code_version ('{new['code_version']}') did not. "
                f"If the change can change what is computed, raise `code_version` in "
                f"{own_module(UNITS[name])}. Either way run `{COMMAND}`. "
                f"Its source is: {where}"
            )
        else:
            lines.append(f"{name}: {LOCK_FILE.name} is not up to date; run `{COMMAND}`")
    return lines


def source_hash(unit: Unit) -> str:
    """Return the SHA-256 of the syntax of all modules of a stage or retriever type."""
    digest = hashlib.sha256()
    for name in modules_of(unit):
        digest.update(f"{name}\0{normalised(source_of(name))}\0".encode())
    return digest.hexdigest()


def own_module(unit: Unit) -> str:
    """Return the module in which a stage or retriever type is defined."""
    return unit.__module__


def modules_of(unit: Unit) -> list[str]:
    """Return the unit's own module and all that its ``implementation`` names, sorted."""
    names = (own_module(unit), *unit.implementation)
    return sorted({module for name in names for module in below(name)})


def below(name: str) -> Iterator[str]:
    """Yield a module; for a package, all modules below it."""
    path = PACKAGE.joinpath(*name.split(".")[1:])
    if not path.is_dir():
        yield name
        return
    for file in path.rglob("*.py"):
        parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__")


def source_of(name: str) -> str:
    """Return the source of a module of the package."""
    path = PACKAGE.joinpath(*name.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.read_text(encoding="utf-8")


def normalised(source: str) -> str:
    """Return the syntax tree of a source as text, without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [part for part in node.body if not _is_text(part)]
    return _text(tree)


def _is_text(node: ast.stmt) -> bool:
    """Whether a statement is a lone string: a docstring, or one below an attribute."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _text(node: object) -> str:
    """Like ``ast.dump``, whose output differs between versions of Python: without empty fields."""
    if isinstance(node, list):
        return f"[{','.join(map(_text, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, [])]
    return f"{type(node).__name__}({','.join(f'{name}={_text(v)}' for name, v in fields)})"
