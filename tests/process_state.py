"""What a test must leave as it was, since others run after it in the same process."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar

PACKAGE = "rag_assets"

K = TypeVar("K")

CACHES = {
    "code_versions.versions._DIGESTS",
    "code_versions.versions._FOLLOWED",
    "code_versions.versions._LOOK_FROM",
    "code_versions.versions._last",
    "models.model_files._loaded",
    "called.code._LOADED",
    "store.sql_paths._DATABASES",
    "testing.retrievers._RUNS",
}
"""Module-level collections of the package that remember what was computed or opened."""

SET_BY_IMPORTS = {
    "KMP_DUPLICATE_LIB_OK",
    "KMP_INIT_AT_FORK",
    "TORCHINDUCTOR_CACHE_DIR",
    "_RJEM_MALLOC_CONF",
}
"""Variables that faiss, torch and polars set, once, when a test is the first that imports them."""

PYTESTS_OWN = "PYTEST_CURRENT_TEST"


@dataclass(frozen=True)
class ProcessState:
    """The environment, the working directory, import path and logging."""

    environment: dict[str, str]
    directory: str
    import_path: list[str]
    logging: tuple[object, ...]

    @classmethod
    def now(cls) -> ProcessState:
        environment = os.environ.copy()
        environment.pop(PYTESTS_OWN, None)
        try:
            directory = os.getcwd()  # noqa: PTH109  # Path.cwd() takes three times as long
        except FileNotFoundError:
            directory = "a folder that was removed"
        return cls(environment, directory, sys.path.copy(), _logging())

    def changes(self) -> list[str]:
        now = ProcessState.now()
        lines = [
            f"os.environ[{name!r}] was {self.environment.get(name)!r}, "
            f"is {now.environment.get(name)!r}"
            for name in sorted({**self.environment, **now.environment})
            if self.environment.get(name) != now.environment.get(name)
            and (name in self.environment or name not in SET_BY_IMPORTS)
        ]
        if now.directory != self.directory:
            lines.append(f"the working directory was {self.directory}, is {now.directory}")
        if now.import_path != self.import_path:
            lines.append(f"sys.path was {self.import_path}, is {now.import_path}")
        if now.logging != self.logging:
            lines.append(f"logging was {self.logging}, is {now.logging}")
        return lines


def _logging() -> tuple[object, ...]:
    """Return our handlers at the root, and the levels by which `--verbose` prints more."""
    root, ours = logging.getLogger(), logging.getLogger(PACKAGE)
    handlers = [one for one in root.handlers if type(one).__module__.startswith(PACKAGE)]
    return (*handlers, root.level, ours.level, ours.disabled, root.manager.disable)


@dataclass(frozen=True)
class ModuleState:
    """The names of every module of the package, and what their collections hold."""

    values: dict[str, dict[str, object]]
    contents: dict[str, dict[object, object] | list[object] | set[object]]

    @classmethod
    def now(cls) -> ModuleState:
        modules = _modules()
        contents = {
            f"{module.removeprefix(f'{PACKAGE}.')}.{name}": value.copy()
            for module, names in modules.items()
            for name, value in names.items()
            if isinstance(value, dict | list | set) and not name.startswith("__")
        }
        for cache in CACHES:
            contents.pop(cache, None)
        return cls(modules, contents)

    def changes(self) -> list[str]:
        now = ModuleState.now()
        lines = [
            f"{module}.{name} was {before.get(name)!r:.200}, is {after.get(name)!r:.200}"
            for module, before in self.values.items()
            if (after := now.values.get(module)) is not None
            for name in _differing(before, after)
            if not name.startswith("__") and not isinstance(after.get(name), ModuleType)
        ]
        lines += [
            f"{name} held {content!r:.200}, holds {now.contents[name]!r:.200}"
            for name, content in self.contents.items()
            if name in now.contents and now.contents[name] != content
        ]
        return lines


def _modules() -> dict[str, dict[str, object]]:
    return {
        name: dict(vars(module))
        for name, module in list(sys.modules.items())
        if name.startswith(PACKAGE) and isinstance(module, ModuleType)
    }


def _differing(before: Mapping[K, object], after: Mapping[K, object]) -> list[K]:
    """Return the names that are bound to something else, or on one side alone."""
    absent = object()
    return [
        name
        for name in {**before, **after}
        if before.get(name, absent) is not after.get(name, absent)
    ]
