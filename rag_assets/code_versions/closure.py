"""All definitions that a computation can reach, from its roots.

A name is followed to what it was bound to, through imports. An attribute is followed by its name:
every class that is reached takes part, with each method of that name. A class that only stands in
an annotation, or in ``isinstance``, gives its methods and not its head: its objects were made
elsewhere. What cannot be resolved counts as its whole module. A class that is found by name at run
time (a retriever type, an analyzer) must be a root.

The idea is that of rapid type analysis (Bacon and Sweeney, OOPSLA 1996), with names for types.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from rag_assets.code_versions.source_modules import Class, Definition, Imported, SourceModule

UNCOUNTED = (
    "rag_assets.errors",
    "rag_assets.code_versions",
    "rag_assets.store.atomic",
    "rag_assets.store.content_cache",
    "rag_assets.store.locks",
    "rag_assets.store.remote",
)
"""Packages and modules that are not followed: what is raised is no result, no version is one, and
where something is kept decides nothing about what it is."""

CALLED_ELSEWHERE = frozenset(
    {"connect_tcp", "get_extra_info", "handle_request", "read", "start_tls", "write"}
)
"""Methods that other packages call on our objects: those of transports and of their streams."""

SILENT_BASES = ("abc", "enum", "pydantic", "typing")
"""Of other packages, those whose classes call no method of ours unless it is decorated."""

CHOSEN_BY_NAME = "LazyTaggedUnion"
"""A type alias with this is one of several classes, of which the configuration names one."""

Root = str
"""``module:name``."""

Target = Definition | Class | SourceModule | str
"""What a name means; a string is the dotted name of something foreign."""


class SourceGraph:
    """The definitions of some packages, read when they are first asked for."""

    def __init__(self, packages: Mapping[str, Path]) -> None:
        """Take the names of packages and their folders, or the file of one that is a module."""
        self.packages = dict(packages)
        self._modules: dict[str, SourceModule | None] = {}
        self._named: dict[Definition, tuple[list[Target], list[Target]]] = {}

    def folder_of(self, package: str) -> Path:
        """Return the folder of a package, or of one inside it."""
        top, *inner = package.split(".")
        return self.packages[top].joinpath(*inner)

    def modules_of(self, package: str) -> Iterator[SourceModule]:
        """Yield all modules of a package."""
        top = self.packages[package]
        if top.is_file():
            module = self.module(package)
            yield from () if module is None else (module,)
        for file in sorted(top.rglob("*.py")):
            parts = [package, *file.relative_to(top).with_suffix("").parts]
            module = self.module(".".join(part for part in parts if part != "__init__"))
            if module is not None:
                yield module

    def module(self, name: str) -> SourceModule | None:
        """Return a module of the package; None: there is none of this name."""
        if name not in self._modules:
            self._modules[name] = self._read(name)
        return self._modules[name]

    def _read(self, name: str) -> SourceModule | None:
        if name.partition(".")[0] not in self.packages:
            return None
        path = self.folder_of(name)
        for file in (path, path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return SourceModule(name, file)
        return None

    def resolve(
        self, module: SourceModule, names: Iterable[str], local: Mapping[str, Imported]
    ) -> Iterator[Target]:
        """Yield what dotted names mean in a module that also has ``local`` imports."""
        for name in names:
            first, *rest = name.split(".")
            if first in local or first in module.imports:
                yield from self._imported(local.get(first) or module.imports[first], rest)
            elif first in module.classes:
                yield module.classes[first]
            elif first in module.definitions:
                yield module.definitions[first]

    def named(
        self, module: SourceModule, definition: Definition
    ) -> tuple[list[Target], list[Target]]:
        """Return what a definition of a module uses, and what its annotations name."""
        if definition not in self._named:  # closures share most definitions
            mentions = definition.mentions
            used = self.resolve(module, sorted(mentions.used), mentions.imports)
            annotated = self.resolve(module, sorted(mentions.annotated), mentions.imports)
            self._named[definition] = ([*used], [*annotated])
        return self._named[definition]

    def _imported(self, target: Imported, rest: list[str]) -> Iterator[Target]:
        name = target.module
        parts = [*([target.name] if target.name else []), *rest]
        while parts and self.module(f"{name}.{parts[0]}") is not None:
            name = f"{name}.{parts.pop(0)}"
        module = self.module(name)
        if module is None:
            yield ".".join([name, *parts])
        elif parts and parts[0] in {*module.imports, *module.definitions}:
            yield from self.resolve(module, [".".join(parts)], {})
        else:
            yield module


class Closure:
    """What is reached from some roots."""

    def __init__(
        self, graph: SourceGraph, roots: Iterable[Root], packages: Iterable[str] = ()
    ) -> None:
        """Follow roots.

        Args:
            graph: where definitions are found.
            roots: ``module:name`` of functions, classes, methods ``Class.method``, or entries of a
                table ``NAME[key]``; ``NAME[]`` alone is a table without any.
            packages: packages of which everything counts, with their other files.

        Raises:
            LookupError: there is no such definition.
        """
        self.graph = graph
        self.definitions: dict[Definition, set[str]] = {}
        self.classes: set[tuple[str, str]] = set()
        self._made: set[tuple[str, str]] = set()
        self._aliases: set[Definition] = set()
        self.data_packages: set[str] = set()
        self._attributes = set(CALLED_ELSEWHERE)
        self._waiting: list[Definition] = []
        self._methods: defaultdict[str, list[Definition]] = defaultdict(list)
        self._modules: set[str] = set()
        self._chosen: defaultdict[tuple[str, str], list[Definition]] = defaultdict(list)
        wanted = [root.partition(":") for root in roots]
        for module, _, name in wanted:
            if name.endswith("]"):
                self._choose(module, *name[:-1].split("["))
        for module, _, name in wanted:
            if not name.endswith("]"):
                self._add_root(module, name)
        for package in packages:
            for source in self.graph.modules_of(package):
                self._reach_module(source)
            self.data_packages.add(package)
        self._follow()

    def _choose(self, module: str, table: str, key: str) -> None:
        source = self._module(module)
        chosen = self._chosen[module, table]
        if key:
            if key not in source.choices.get(table, {}):
                raise LookupError(f"no {table}[{key}] in {module}")
            chosen.append(source.choices[table][key])

    def _add_root(self, module: str, name: str) -> None:
        source = self._module(module)
        owner, _, method = name.partition(".")
        if owner in source.classes:
            owner_class = source.classes[owner]
            self._reach_class(owner_class, made=not method)
            if method:
                self._use_attribute(method)
                for definition in self._inherited(source, owner_class, method):
                    self._reach(definition)
        elif name in source.definitions:
            self._reach(source.definitions[name])
        else:
            raise LookupError(f"no {name} in {module}")

    @property
    def digest(self) -> str:
        """SHA-256 of everything that is reached; where it stands does not count."""
        parts = sorted(
            f"{definition.digest} {' '.join(sorted(foreign))}"
            for definition, foreign in self.definitions.items()
        )
        digest = hashlib.sha256("\n".join(parts).encode())
        for package in sorted(self.data_packages):
            if package.partition(".")[0] in self.graph.packages:
                folder = self.graph.folder_of(package)
                data = [f for f in folder.rglob("*") if is_source(f) and f.suffix != ".py"]
                digests = {f: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(data)}
                lines = [f"{file.relative_to(folder)} {digest}" for file, digest in digests.items()]
                digest.update("\n".join(lines).encode())
        return digest.hexdigest()

    def _follow(self) -> None:
        while self._waiting:
            definition = self._waiting.pop()
            used, annotated = self.graph.named(self._module(definition.module), definition)
            foreign = self.definitions[definition]
            for target in used:
                if isinstance(target, str):
                    foreign.add(target)
                elif isinstance(target, SourceModule):
                    self._reach_module(target)
                elif isinstance(target, Class):
                    self._reach_class(target, made=True)
                else:
                    self._reach(target)
            self._follow_annotations(annotated)
            for attribute in sorted(definition.mentions.attributes):
                self._use_attribute(attribute)
            self.data_packages |= definition.mentions.resources

    def _module(self, name: str) -> SourceModule:
        module = self.graph.module(name)
        if module is None:
            raise LookupError(f"no module {name}")
        return module

    def _follow_annotations(self, targets: Iterable[Target]) -> None:
        """Reach classes whose objects were made elsewhere; a type alias stands for its classes."""
        for target in targets:
            if isinstance(target, Class):
                self._reach_class(target, made=False)
            elif isinstance(target, Definition):
                self._follow_alias(target)

    def _follow_alias(self, alias: Definition) -> None:
        if alias not in self._aliases and CHOSEN_BY_NAME not in alias.mentions.used:
            self._aliases.add(alias)
            for targets in self.graph.named(self._module(alias.module), alias):
                self._follow_annotations(targets)

    def _reach_module(self, module: SourceModule) -> None:
        if not _is_counted(module.name):
            return
        for definition in module.definitions.values():
            self._reach(definition)
        for owner in module.classes.values():
            self._reach_class(owner, made=True)

    def _reach(self, definition: Definition) -> None:
        if definition in self.definitions or not _is_counted(definition.module):
            return
        chosen = self._chosen.get((definition.module, definition.name))
        if chosen is not None:
            for entry in chosen:
                self._reach(entry)
            return
        self.definitions[definition] = set()
        self._waiting.append(definition)
        if definition.module not in self._modules:
            self._modules.add(definition.module)
            rest = self._module(definition.module).definitions.get("")
            if rest is not None:
                self._reach(rest)

    def _reach_class(self, owner: Class, *, made: bool) -> None:
        place = (owner.head.module, owner.head.name)
        if place in (self._made if made else self.classes) or not _is_counted(owner.head.module):
            return
        module = self._module(owner.head.module)
        is_new = place not in self.classes
        self.classes.add(place)
        for base in self._bases(module, owner):
            self._reach_class(base, made=made)
        if is_new:
            self._offer_methods(owner)
        if made:
            self._made.add(place)
            self._reach(owner.head)
            called = owner.methods if self._is_called(module, owner) else owner.called_by_frameworks
            for name in called:
                self._reach(owner.methods[name])
        else:
            self._follow_annotations(self.graph.named(module, owner.head)[1])

    def _is_called(self, module: SourceModule, candidate: Class) -> bool:
        """Return whether a base of another package may call the methods of a class."""
        bases = self.graph.resolve(module, candidate.bases, {})
        foreign = (base for base in bases if isinstance(base, str))
        return any(name.partition(".")[0] not in SILENT_BASES for name in foreign)

    def _offer_methods(self, owner: Class) -> None:
        for name, method in owner.methods.items():
            self._methods[name].append(method)
            if name in self._attributes or (name.startswith("__") and name.endswith("__")):
                self._reach(method)

    def _bases(self, module: SourceModule, derived: Class) -> Iterator[Class]:
        bases = self.graph.resolve(module, derived.bases, {})
        return (base for base in bases if isinstance(base, Class))

    def _inherited(self, module: SourceModule, derived: Class, method: str) -> Iterator[Definition]:
        """Yield a method of a class, and those of its bases that it may call."""
        if method in derived.methods:
            yield derived.methods[method]
        for base in self._bases(module, derived):
            yield from self._inherited(self._module(base.head.module), base, method)

    def _use_attribute(self, name: str) -> None:
        if name not in self._attributes:
            self._attributes.add(name)
            for method in self._methods.get(name, ()):
                self._reach(method)


def is_source(file: Path) -> bool:
    """Return whether a file below a package belongs to it."""
    return file.is_file() and "__pycache__" not in file.parts


@cache
def _is_counted(module: str) -> bool:
    return not any(module == prefix or module.startswith(f"{prefix}.") for prefix in UNCOUNTED)
