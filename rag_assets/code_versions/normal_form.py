"""The normal form of a piece of source: what it does, without what it says to people.

Comments, layout, docstrings, annotations of functions, messages of exceptions, log lines, labels of
progress bars and descriptions do not count. The form is ours, so it is the same on every version of
Python.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

DESCRIPTIVE = {
    "Field": frozenset({"description", "examples", "title"}),
    "ConfigDict": frozenset({"title"}),
    "Column": frozenset({"meaning"}),
}
"""Calls with keyword arguments that are read by people only."""

DESCRIPTIVE_ATTRIBUTES = frozenset(
    {"group", "kinds", "kinds_by", "row", "model_kind", "search_kind"}
)
"""Class attributes that are read by people only."""

DESCRIBED_CALLS = dict(Column=1, TableSchema=1, OpenTableSchema=1, completions=0, progress=0)
"""Calls with a description among their positional arguments, and where it stands."""

LOGGERS = frozenset({"_log", "logger", "log"})
LOG_LINES = frozenset({"critical", "debug", "error", "exception", "info", "log", "warning"})

UNCOUNTED_FIELDS = frozenset({"ctx", "kind", "type_comment"})

Function = ast.FunctionDef | ast.AsyncFunctionDef

_ANNOTATED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.arg)


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
        if name in {"returns", "annotation"} and isinstance(node, _ANNOTATED):
            continue
        if isinstance(value, list):
            children = _counted_parts(node, name, value)
            if children:
                yield name, children
        elif isinstance(node, ast.Raise) and isinstance(value, ast.Call):
            yield name, value.func
        else:
            yield name, value


def _counted_parts(node: ast.AST, name: str, parts: list[Any]) -> list[Any]:
    if isinstance(node, ast.Call):
        called: str = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name == "keywords":
            return [part for part in parts if part.arg not in DESCRIPTIVE.get(called, ())]
        return [part for i, part in enumerate(parts) if i != DESCRIBED_CALLS.get(called)]
    if isinstance(node, ast.JoinedStr):  # Python 3.12.1 adds empty texts
        return [part for part in parts if getattr(part, "value", None) != ""]
    nodes = [part for part in parts if not isinstance(part, ast.stmt) or counted(part)]
    return [part for part in nodes if not (isinstance(node, ast.ClassDef) and _describes(part))]


def text(node: object) -> str:
    """Return the normal form of a syntax tree, or of a list of them."""
    if isinstance(node, list):
        return f"[{','.join(map(text, node))}]"
    if not isinstance(node, ast.AST):
        return ascii(node)  # repr knows more characters with each version of Python
    fields = ",".join(f"{name}={text(value)}" for name, value in counted_children(node))
    return f"{type(node).__name__}({fields})"


def _is_log_line(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in LOGGERS
        and node.func.attr in LOG_LINES
    )


def _describes(node: ast.AST) -> bool:
    """Return whether a statement of a class body is a class attribute for people."""
    if getattr(node, "value", None) is None:  # the field of a record
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(name, ast.Name) and name.id in DESCRIPTIVE_ATTRIBUTES for name in targets)
