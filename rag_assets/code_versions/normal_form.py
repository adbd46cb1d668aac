"""The normal form of a piece of source: what it does, without what it says to people.

Comments, layout, docstrings, annotations of functions, messages of exceptions, log lines and
descriptions do not count. The form is ours, so it is the same on every version of Python.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

DESCRIPTIVE = frozenset({"description", "examples", "help", "label", "meaning", "title"})
"""Keyword arguments that are read by people only."""

DESCRIPTIVE_ATTRIBUTES = frozenset({"group", "kinds", "row", "model_kind", "search_kind"})
"""Class attributes that are read by people only."""

DESCRIBED_CALLS = {"Column": 2, "TableSchema": 1}
"""Calls with a description among their positional arguments, and where it stands."""

LOGGERS = frozenset({"_log", "logger", "log"})

UNCOUNTED_FIELDS = frozenset({"ctx", "kind", "type_comment"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


def counted(node: ast.stmt) -> bool:
    """Return whether a statement can change a result: no docstring, no log line."""
    if not isinstance(node, ast.Expr):
        return True
    if isinstance(node.value, ast.Constant):
        return False
    return not _is_log_line(node.value)


def counted_children(node: ast.AST) -> Iterator[tuple[str, object]]:
    """Yield the fields of a node that can change a result."""
    for name, value in ast.iter_fields(node):
        if value is None or value == [] or name in UNCOUNTED_FIELDS:
            continue
        if isinstance(node, Function | ast.arg) and name in {"returns", "annotation"}:
            continue
        if isinstance(value, list):
            kept = _counted_parts(node, name, value)
            if kept:
                yield name, kept
        elif isinstance(node, ast.Raise) and isinstance(value, ast.Call):
            yield name, value.func
        else:
            yield name, value


def _counted_parts(node: ast.AST, name: str, parts: list[Any]) -> list[Any]:
    if isinstance(node, ast.Call) and name == "keywords":
        return [part for part in parts if part.arg not in DESCRIPTIVE]
    if isinstance(node, ast.Call) and name == "args":
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        return [part for i, part in enumerate(parts) if i != DESCRIBED_CALLS.get(called)]
    kept = [part for part in parts if not isinstance(part, ast.stmt) or counted(part)]
    return [part for part in kept if not (isinstance(node, ast.ClassDef) and _describes(part))]


def text(node: object) -> str:
    """Return the normal form of a syntax tree, or of a list of them."""
    if isinstance(node, list):
        return f"[{','.join(map(text, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = ",".join(f"{name}={text(value)}" for name, value in counted_children(node))
    return f"{type(node).__name__}({fields})"


def _is_log_line(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in LOGGERS
    )


def _describes(node: ast.AST) -> bool:
    """Return whether a statement of a class body is a class attribute for people."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(one, ast.Name) and one.id in DESCRIPTIVE_ATTRIBUTES for one in targets)
