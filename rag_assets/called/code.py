"""The code that ``call`` names: whether it may be run, its version, and how it is loaded.

An experiment on one's own disk is one's own. That of a pull request from a fork is somebody
else's, and the machine that checks it has secrets: there nothing is run unless it is allowed.

Source is read to know the version; only an evaluation loads it. A file gets a module name of its
own and changes no search path, so it can import what is installed and nothing that lies beside it.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import sys
from collections.abc import Mapping
from functools import cache, reduce
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import Field, field_validator

from rag_assets.called.asked import ALWAYS, AskedOptions
from rag_assets.code_versions.closure import Closure, SourceGraph, is_source
from rag_assets.errors import UsageError
from rag_assets.options import FileOptions

ALLOW_CODE = "RAG_ASSETS_ALLOW_CODE"
"""Environment variable: 1 allows it, as ``--allow-code`` does."""


def require_allowed(
    source: Path, environment: Mapping[str, str] = os.environ, *, allowed: bool = False
) -> None:
    """Check that the code of an experiment may be run."""
    owner = foreign_owner(environment)
    if owner is not None and not allowed and environment.get(ALLOW_CODE) != "1":
        raise UsageError(
            f"{source}: names code to run, and belongs to {owner}; read the code, then "
            f"allow it with {ALLOW_CODE}=1, or with `evaluate --allow-code`"
        )


def foreign_owner(environment: Mapping[str, str]) -> str | None:
    """Return whose pull or merge request from a fork is checked out; None: it is none.

    GitHub tells of a pull request by a file (``GITHUB_EVENT_PATH``), GitLab by variables.
    """
    if environment.get("GITHUB_EVENT_NAME", "").startswith("pull_request"):
        try:
            event = json.loads(Path(environment["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
            repository = str(event["pull_request"]["head"]["repo"]["full_name"])
        except (OSError, ValueError, KeyError, TypeError):
            repository = "a deleted or unknown repository"
        if repository != environment.get("GITHUB_REPOSITORY"):
            return f"a pull request from {repository}"
    project = environment.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID")
    if project and project != environment.get("CI_MERGE_REQUEST_PROJECT_ID"):
        path = environment.get("CI_MERGE_REQUEST_SOURCE_PROJECT_PATH", f"project {project}")
        return f"a merge request from {path}"
    return None


class Call(NamedTuple):
    """``path/to/file.py:name`` or ``package.module:name``; a name may have dots.

    Attributes:
        place: the path or the module.
        name: of a function, a class or an object in it.
    """

    place: str
    name: str

    @classmethod
    def of(cls, text: str) -> Call:
        """Read what stands in an ``experiment.yaml``."""
        place, _, name = text.rpartition(":")
        call = cls(place, name)
        parts = [*name.split("."), *([] if call.in_file else place.split("."))]
        if not all(part.isidentifier() for part in parts):
            raise ValueError(f"{text!r} must be package.module:name or path/to/file.py:name")
        return call

    @property
    def in_file(self) -> bool:
        """Whether it names a file."""
        return self.place.endswith(".py")

    def __str__(self) -> str:
        """Return it as it stands in an ``experiment.yaml``."""
        return f"{self.place}:{self.name}"


def source_version(call: Call) -> str:
    """Return the version of all code that a call can reach in its package or file; runs nothing."""
    top, place = _source_place(call)
    files = [place] if place.is_file() else sorted(filter(is_source, place.rglob("*")))
    stamps = tuple(
        (file, file.stat().st_size, file.stat().st_mtime_ns)
        for file in files
        if file.suffix == ".py"
    )
    return _reached_version(call, top, place, stamps)


@cache
def _reached_version(call: Call, top: str, place: Path, stamps: tuple[object, ...]) -> str:
    module = top if call.in_file else call.place
    owner = call.name.partition(".")[0]
    try:
        closure = Closure(SourceGraph({top: place}), [f"{module}:{owner}"])
    except LookupError:  # it is imported from elsewhere, or made when the module runs
        closure = Closure(SourceGraph({top: place}), [], [top])
    except (SyntaxError, ValueError, OSError) as error:
        raise UsageError(f"call {call}: its source cannot be read: {error}") from error
    return closure.digest


def _source_place(call: Call) -> tuple[str, Path]:
    """Return the name of the package or module at the top, and its folder or file."""
    if call.in_file:
        return "called", Path(call.place)
    top = call.place.partition(".")[0]
    spec = None if top in sys.builtin_module_names else find_spec(top)
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    place = folders[0] if folders else spec.origin if spec is not None else None
    if place is None or not Path(place).exists():
        raise UsageError(
            f"call {call}: no module {top} is installed here; install it (pip install -e .), or "
            f"name its file, relative to the YAML file: path/to/{top}.py:{call.name}"
        )
    return top, Path(place)


_LOADED: dict[Call, str] = {}
"""What this process imported -> the version of its source then."""


def load(call: Call) -> object:
    """Load the module, which runs it, and return what the name stands for."""
    if call.in_file:
        module = _module_of_file(Path(call.place))
    else:
        version = source_version(call)
        if _LOADED.setdefault(call, version) != version:
            raise UsageError(
                f"call {call}: its source changed since this process started; restart it"
            )
        module = import_module(call.place)
    return reduce(getattr, call.name.split("."), module)


def _module_of_file(file: Path) -> object:
    digest = hashlib.sha256(f"{file}\0".encode() + file.read_bytes()).hexdigest()[:16]
    name = f"rag_assets_call_{digest}"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file}: is not a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module  # what a class or a pickle looks for while the module runs
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def version_of_loaded(definition: object) -> str | None:
    """Return the version of the source of a function or class of this process; None: unknown.

    It is unknown of what is made when a program runs (a lambda, a function with variables of
    another one, an object with state), and where the source is not what the process has.
    """
    if not (inspect.isfunction(definition) or inspect.isclass(definition)):
        return None
    name, module = definition.__qualname__, sys.modules.get(definition.__module__)
    try:
        file = Path(inspect.getsourcefile(definition) or "").absolute()
        is_script = definition.__module__ == "__main__"
        call = Call.of(f"{file if is_script else definition.__module__}:{name}")
        loaded: object = reduce(getattr, name.split("."), module)
        if loaded is not definition:  # another has its name
            return None
        if not file.is_relative_to(_source_place(call)[1].absolute()):
            return None
        version = source_version(call)
    except (AttributeError, OSError, TypeError, UsageError, ValueError):
        return None
    return version if _LOADED.setdefault(call, version) == version else None


class NamedCode(AskedOptions, FileOptions):
    """Options that name code by ``call``, with its keyword arguments under ``options``.

    Without a ``revision`` the source that it can reach in its package or file is one.
    """

    runs_code: ClassVar[bool] = True
    needs_revision: ClassVar[bool] = False

    call: Annotated[str, Field(min_length=1)]
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("call")
    @classmethod
    def _names_code(cls, call: str) -> str:
        return str(Call.of(call))

    def files(self) -> Mapping[str, Path]:
        """Return the files that are named, with that of the call."""
        call = Call.of(self.call)
        return {**super().files(), **({"call": Path(call.place)} if call.in_file else {})}

    def with_files(self, files: Mapping[str, Path]) -> Self:
        """Return the options with other paths to these files."""
        moved = super().with_files({name: file for name, file in files.items() if name != "call"})
        if "call" not in files:
            return moved
        call = Call.of(self.call)._replace(place=str(files["call"]))
        return moved.model_copy(update={"call": str(call)})

    @property
    def named_call(self) -> str:
        """The call without the folder of its file."""
        call = Call.of(self.call)
        return str(call._replace(place=Path(call.place).name) if call.in_file else call)

    def load(self) -> object:
        """Return the function, the class or the object; raises whatever its code raises."""
        return load(Call.of(self.call))

    def versions(self) -> Mapping[str, str]:
        """Return the version of the called source, where no revision stands for it.

        ``always`` stands for nothing: an evaluation of other code is one of another system.
        """
        if self.revision not in (None, ALWAYS):
            return {}
        return {"called_source": source_version(Call.of(self.call))}

    def describe_for_plan(self) -> list[str]:
        """Return what would be run."""
        call, here = Call.of(self.call), Path.cwd()
        if call.in_file and Path(call.place).is_relative_to(here):
            call = call._replace(place=str(Path(call.place).relative_to(here)))
        return [f"runs {call} in this process"]
