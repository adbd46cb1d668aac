"""The imports of a package as a graph, those for types and inside functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from rag_assets.code_versions.source_modules import imported

PACKAGE = Path(__file__).resolve().parents[1] / "rag_assets"


def imports(package: Path) -> dict[str, set[str]]:
    """Return module -> modules of the package that it names, for types and in functions too."""
    files = {_module(package, file): file for file in sorted(package.rglob("*.py"))}
    return {module: set(_named(module, file, files)) - {module} for module, file in files.items()}


@cache
def package_imports() -> Mapping[str, set[str]]:
    """Return the imports of ``rag_assets``, read once in a process."""
    return imports(PACKAGE)


def _module(package: Path, file: Path) -> str:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _named(module: str, file: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    parent = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            for _, target in imported(node, parent):
                inner = f"{target.module}.{target.name}"
                yield from [name for name in (inner, target.module) if name in modules][:1]


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return modules of which each one names the next; none where there is no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []
