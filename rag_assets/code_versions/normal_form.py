"""The normal form of a piece of source: what it does, without what it says to people.

Comments, layout, docstrings, annotations of functions, messages of exceptions, log lines, labels of
progress bars and descriptions do not count, nor does a variable of a function that holds a text for
them. The form is ours, so it is the same on every version of Python.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

DESCRIPTIVE = {
    "Field": frozenset({"description", "examples", "title"}),
    "ConfigDict": frozenset({"title"}),
    "Column": frozenset({"meaning"}),
    "TableSchema": frozenset({"row"}),
}
"""Calls with keyword arguments that are read by people only."""

DESCRIPTIVE_ATTRIBUTES = frozenset({"group", "kinds", "row", "model_kind", "search_kind"})
"""Class attributes that are read by people only."""

DESCRIBED_CALLS = {"Column": 2, "TableSchema": 1, "completions": 0, "progress": 0}
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
            kept = _counted_parts(node, name, value)
            if kept:
                yield name, kept
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
    kept = [part for part in parts if not isinstance(part, ast.stmt) or counted(part)]
    return [part for part in kept if not (isinstance(node, ast.ClassDef) and _describes(part))]


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
    return any(isinstance(one, ast.Name) and one.id in DESCRIPTIVE_ATTRIBUTES for one in targets)


def statements_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all statements in it; no expression, which `ast.walk` spends its time on."""
    yield node
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for part in getattr(node, name, ()):
            yield from statements_of(part)


def drop_message_variables(function: Function) -> None:
    """Remove what binds a text to a variable that is only told: in what is raised or logged."""
    while texts := _texts(function):
        loaded = set(_loaded(function))
        removed = {statement for one, statement in texts if one.id not in loaded}
        if not removed:
            return
        for node in ast.walk(function):
            for name, value in ast.iter_fields(node):
                if isinstance(value, list) and not removed.isdisjoint(_statements(value)):
                    setattr(node, name, [part for part in value if part not in removed])


def _statements(parts: list[Any]) -> Iterator[ast.stmt]:
    return (part for part in parts if isinstance(part, ast.stmt))


def _texts(function: Function) -> list[tuple[ast.Name, ast.Assign]]:
    """Return all that binds a text to one name."""
    return [
        (target, node)
        for node in statements_of(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and len(node.targets) == 1 and _is_text(node.value)
    ]


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.IfExp):
        return _is_text(node.body) and _is_text(node.orelse)
    if isinstance(node, ast.Call):  # ", ".join(...)
        return isinstance(node.func, ast.Attribute) and _is_text(node.func.value)
    is_constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_constant or isinstance(node, ast.JoinedStr)


def _loaded(node: ast.AST) -> Iterator[str]:
    """Yield the names that a result can depend on, and those that are no variables of their own."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Global | ast.Nonlocal):
        yield from node.names
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    for _, value in counted_children(node):
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                yield from _loaded(part)
