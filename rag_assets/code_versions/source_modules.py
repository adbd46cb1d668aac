"""Modules of a package as definitions that name each other, read from their source."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from rag_assets.code_versions.normal_form import Function, counted, counted_children, text

_COMPOUND = (ast.If, ast.Try, ast.With, ast.For, ast.While)


@dataclass(frozen=True)
class Imported:
    """What a name stands for that was imported: a module, or a name in one."""

    module: str
    name: str | None = None


@dataclass(frozen=True, eq=False)
class Definition:
    """A function, a method, the head of a class, an assignment, or what else a module runs.

    Attributes:
        module: its module.
        name: ``function``, ``Class``, ``Class.method``, a variable, or "" for the statements of a
            module that define nothing.
        nodes: its statements.
    """

    module: str
    name: str
    nodes: tuple[ast.stmt, ...]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of its normal form."""
        return hashlib.sha256(text(list(self.nodes)).encode()).hexdigest()

    @cached_property
    def mentions(self) -> Mentions:
        """What it names."""
        mentions = Mentions(self.module)
        for node in self.nodes:
            mentions.add(node)
        return mentions


@dataclass
class Class:
    """A class: its head, its methods, and the names of its bases."""

    head: Definition
    bases: tuple[str, ...]
    methods: dict[str, Definition] = field(default_factory=dict)
    called_by_frameworks: set[str] = field(default_factory=set)


class SourceModule:
    """One module: its definitions, classes, imports, and tables from which one entry is chosen.

    ``choices`` are the entries of each table: a variable that is a dictionary, written out.
    """

    def __init__(self, name: str, path: Path) -> None:
        """Parse a module.

        Raises:
            SyntaxError: it is no Python.
            OSError: it cannot be read.
        """
        self.name = name
        self.path = path
        self.definitions: dict[str, Definition] = {}
        self.classes: dict[str, Class] = {}
        self.choices: dict[str, dict[str, Definition]] = {}
        self.imports: dict[str, Imported] = {}
        self._statements: dict[str, list[ast.stmt]] = {}
        is_package = path.name == "__init__.py"
        self.package = name if is_package else name.rpartition(".")[0]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for statement in tree.body:
            self._add(statement)
        for defined, nodes in self._statements.items():
            self.definitions[defined] = Definition(name, defined, tuple(nodes))
            if len(nodes) > 1:  # a table that is changed after it was written out
                self.choices.pop(defined, None)

    def _add(self, node: ast.stmt) -> None:
        if not counted(node):
            return
        if isinstance(node, ast.Import | ast.ImportFrom):
            self.imports |= dict(imported(node, self.package))
        elif isinstance(node, ast.ClassDef):
            self._add_class(node)
        elif isinstance(node, ast.If) and (dotted(node.test) or "").endswith("TYPE_CHECKING"):
            for inner in node.body:
                self._add(inner)
        else:
            names = set(_defined(node))
            for part in ast.walk(node) if isinstance(node, _COMPOUND) else ():
                if isinstance(part, ast.Import | ast.ImportFrom):
                    self.imports |= dict(imported(part, self.package))
            for name in names or {""}:
                self._statements.setdefault(name, []).append(node)
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if isinstance(value, ast.Dict) and isinstance(_target(node), ast.Name):
                (table,) = names
                self.choices[table] = {
                    name: Definition(self.name, f"{table}[{name}]", (entry,))
                    for name, entry in map(_entry, value.keys, value.values)
                }

    def _add_class(self, node: ast.ClassDef) -> None:
        methods = [part for part in node.body if isinstance(part, Function)]
        others = [part for part in node.body if not isinstance(part, Function)]
        head = ast.ClassDef(
            name=node.name,
            bases=node.bases,
            keywords=node.keywords,
            body=others,
            decorator_list=node.decorator_list,
        )
        made = Class(
            Definition(self.name, node.name, (head,)),
            tuple(filter(None, map(dotted, map(_unsubscripted, node.bases)))),
        )
        grouped: dict[str, list[ast.stmt]] = {}
        for part in methods:
            grouped.setdefault(part.name, []).append(part)
            if not all(map(_is_plain, part.decorator_list)):
                made.called_by_frameworks.add(part.name)
        for name, parts in grouped.items():
            made.methods[name] = Definition(self.name, f"{node.name}.{name}", tuple(parts))
        self.classes[node.name] = made
        self.definitions[node.name] = made.head


def _target(node: ast.stmt) -> ast.expr | None:
    """Return what an assignment binds; None where it binds several things."""
    if isinstance(node, ast.AnnAssign):
        return node.target
    return node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None


def _entry(key: ast.expr | None, value: ast.expr) -> tuple[str, ast.stmt]:
    """Return an entry of a table with its name: a text, a class, or ``**TABLE`` for another one."""
    name = f"**{ast.unparse(value)}" if key is None else ast.unparse(key)
    if isinstance(key, ast.Constant):
        name = str(key.value)
    return name, ast.copy_location(ast.Expr(value), value)


_PLAIN = frozenset(
    {"abstractmethod", "cached_property", "classmethod", "contextmanager", "overload", "override"}
    | {"property", "setter", "staticmethod", "cache", "lru_cache"}
)


def _is_plain(decorator: ast.expr) -> bool:
    """Return whether a decorated method is only called by its name."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (dotted(called) or "").rpartition(".")[2] in _PLAIN


def imported(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, Imported]]:
    """Yield the names that an import binds, and what they stand for."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            yield bound, Imported(alias.name if alias.asname else bound)
        return
    base = node.module or ""
    if node.level:
        parts = package.split(".")
        parts = parts[: len(parts) - node.level + 1]
        base = ".".join([*parts, *([base] if base else [])])
    for alias in node.names:
        yield alias.asname or alias.name, Imported(base, alias.name)


def dotted(node: ast.expr) -> str | None:
    """Return ``a.b.c`` of a name or a chain of attributes of a name; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return before and f"{before}.{node.attr}"
    return None


def _unsubscripted(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def _defined(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module binds, imports left out."""
    if isinstance(node, Function | ast.ClassDef):
        yield node.name
    elif isinstance(node, _COMPOUND):
        for inner in ast.walk(node):
            if inner is not node and isinstance(inner, ast.stmt):
                yield from _defined(inner)
    elif isinstance(node, ast.Assign):
        yield from _names(*node.targets)
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        yield from _names(node.target)
    elif type(node).__name__ == "TypeAlias":  # new in Python 3.12
        yield from _names(node.name)  # type: ignore[attr-defined]  # unknown to Python 3.11


def _names(*targets: ast.expr) -> Iterator[str]:
    for target in targets:
        yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


class Mentions:
    """What statements name.

    Attributes:
        used: dotted names, the first part of which is a name of the module or of an import.
        annotated: the same, in annotations and type checks: their objects come from elsewhere.
        attributes: every attribute that is read or called, whatever its object.
        imports: imports in the body of a function.
        resources: packages whose data files are read.
    """

    def __init__(self, module: str) -> None:
        """Start without any, in a module."""
        self._package = module.rpartition(".")[0]
        self.used: set[str] = set()
        self.annotated: set[str] = set()
        self.attributes: set[str] = set()
        self.imports: dict[str, Imported] = {}
        self.resources: set[str] = set()

    def add(self, node: ast.AST) -> None:
        """Add what a statement, or a part of one, names."""
        if isinstance(node, Function):
            given = node.args
            others = [given.vararg, given.kwarg]
            for argument in [*given.posonlyargs, *given.args, *given.kwonlyargs, *others]:
                self._annotation(argument.annotation if argument is not None else None)
            self._annotation(node.returns)
        for member in node.body if isinstance(node, ast.ClassDef) else ():
            self._annotation(member.annotation if isinstance(member, ast.AnnAssign) else None)
        for field_name, value in counted_children(node):
            if isinstance(node, ast.Raise) and field_name == "exc":
                continue
            if isinstance(node, ast.AnnAssign) and field_name == "annotation":
                self._annotation(node.annotation)
                continue
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    self._node(part)

    def _annotation(self, node: ast.expr | None) -> None:
        for part in ast.walk(node) if node is not None else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                try:
                    self._annotation(ast.parse(part.value, mode="eval").body)
                except SyntaxError:
                    continue
            name = dotted(part) if isinstance(part, ast.expr) else None
            if name is not None:
                self.annotated.add(name)

    def _node(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self.imports |= dict(imported(node, self._package))
        elif isinstance(node, ast.Name):
            self.used.add(node.id)
        elif isinstance(node, ast.Attribute):
            self.attributes.add(node.attr)
            name = dotted(node)
            if name is None:
                self._node(node.value)
            else:  # of a module only what is asked of it, so its name alone is not used
                self.used.add(name)
                self.attributes |= set(name.split(".")[1:])
        elif isinstance(node, ast.Call):
            self._call(node)
        else:
            self.add(node)

    def _call(self, node: ast.Call) -> None:
        called = dotted(node.func) or ""
        if called in {"isinstance", "issubclass"} and len(node.args) == 2:
            self._node(node.args[0])
            self._annotation(node.args[1])
            return
        if called in {"getattr", "hasattr"}:
            self.attributes |= set(_texts(node.args[1:2]))
        if called.endswith("resources.files"):
            self.resources |= set(_texts(node.args))
        self.add(node)


def _texts(nodes: Iterable[ast.expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
