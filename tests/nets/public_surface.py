"""All that others may build on: names, commands, keys, tables, JSON, entry points and contracts.

``python -m tests.nets.public_surface`` keeps it in ``tests/public_surface.json``. A test compares:
what differs is meant, and stands in UPGRADING.md.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

import rag_assets
from rag_assets import errors, schemas, testing
from rag_assets.answers.metrics import METRICS as ANSWER_METRICS
from rag_assets.chunking.chunker import KIND as CHUNKERS
from rag_assets.cli import main as program
from rag_assets.evaluation.measures import KIND as MEASURES
from rag_assets.evaluation.measures import MEASURE_TYPES
from rag_assets.experiment.config import ExperimentConfig
from rag_assets.pipeline.stages import STAGES
from rag_assets.query_sets.query_set import KIND as QUERY_SETS
from rag_assets.retrieval.registry import KIND as RETRIEVERS
from rag_assets.sources.formats import FORMATS
from rag_assets.sources.formats import KIND as SOURCES
from tests.nets import kept
from tests.nets.options import KINDS

FILE = kept.FOLDER.parent / "public_surface.json"
COMMAND = "python -m tests.nets.public_surface"
GOLDENS = kept.FOLDER.parent / "goldens"
PACKAGE = Path(rag_assets.__file__).parent
PLUG_INS = (CHUNKERS, QUERY_SETS, RETRIEVERS, MEASURES, SOURCES)


def surface() -> dict[str, Any]:
    """Return all of it."""
    return {
        "python": dict(_python()),
        "errors": {name: one.exit_code for name, one in _errors()},
        "commands": dict(_commands(program, "rag-assets")),
        "experiment.yaml": _keys(ExperimentConfig.model_json_schema()),
        "types": {
            kind: {name: _keys(types[name].model_json_schema()) for name in types}
            for kind, types in KINDS.items()
        },
        "formats": list(FORMATS),
        "metrics": {"ranking": sorted(MEASURE_TYPES), "answers": sorted(ANSWER_METRICS)},
        "assets": {name: list(stage.dimensions) for name, stage in STAGES.items()},
        "tables": {
            name: {c.name: f"{c.type}{'?' if c.nullable else ''}" for c in one.columns}
            for name, one in vars(schemas).items()
            if isinstance(one, schemas.TableSchema)
        },
        "json": dict(_json_keys()),
        "plug-ins": dict(_plug_ins()),
        "contracts": {name: _contract(getattr(testing, name)) for name in testing.__all__},
        "entry points": _entry_points(),
        "variables": sorted(_variables()),
    }


def _python() -> Iterator[tuple[str, Any]]:
    for name in rag_assets.__all__:
        member = getattr(rag_assets, name)
        yield name, _members(member) if isinstance(member, type) else _signature(member)
        if not isinstance(member, type):
            yield from _result(member)


def _result(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the class that a function returns, which its module imports for types only."""
    name = str(function.__annotations__.get("return"))
    tree = ast.parse(Path(str(inspect.getsourcefile(function))).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and name in [one.name for one in node.names]:
            cls = getattr(importlib.import_module(str(node.module)), name)
            if isinstance(cls, type):
                yield f"result: {name}", _members(cls)
            return


def _members(cls: type) -> dict[str, str]:
    """Return the public methods and properties of a class that are of this package."""
    return {
        name: _signature(member)
        for name, member in inspect.getmembers(cls)
        if not name.startswith("_") and _is_of_package(cls, name)
    }


def _is_of_package(cls: type, name: str) -> bool:
    owner = next((one for one in cls.__mro__ if name in vars(one)), cls)
    return owner.__module__.startswith("rag_assets")


def _signature(member: object) -> str:
    if isinstance(member, property):
        return "property"
    text = str(inspect.signature(member)) if callable(member) else type(member).__name__
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _errors() -> Iterator[tuple[str, type[errors.RagAssetsError]]]:
    for name, one in vars(errors).items():
        is_error = isinstance(one, type) and issubclass(one, errors.RagAssetsError)
        if is_error and not name.startswith("_"):
            yield name, one


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            if member is not None:
                yield from _commands(member, f"{path} {name}")
        return
    yield path, {" ".join(one.opts): _parameter(one) for one in command.params}


def _parameter(one: click.Parameter) -> str:
    form: Mapping[str, Any] = {**one.type.to_info_dict()}
    allowed = form.get("choices", [value for key in ("min", "max") if (value := form.get(key))])
    words = [
        "argument" if isinstance(one, click.Argument) else "",
        "flag" if getattr(one, "is_flag", False) else str(form["name"]),
        "required" if one.required else "",
        "repeated" if one.multiple or one.nargs == -1 else "",
        ",".join(map(str, allowed)),
        ""
        if "Sentinel" in repr(one.default) or one.default in (None, False)
        else f"={one.default}",
    ]
    return " ".join(word for word in words if word)


def _keys(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return path of a key -> what it may be, and its default, of a JSON schema."""
    return dict(_walk(schema, schema.get("$defs", {}), ""))


def _walk(
    schema: Mapping[str, Any], shared: Mapping[str, Any], path: str
) -> Iterator[tuple[str, str]]:
    for name, one in schema.get("properties", {}).items():
        below = f"{path}.{name}" if path else name
        default = f" = {json.dumps(one['default'])}" if "default" in one else ""
        yield below, f"{_form(one)}{default}"
        for block in dict.fromkeys(re.findall(r"#/\$defs/(\w+)", json.dumps(one))):
            yield from _walk(shared[block], shared, below)


def _form(one: Mapping[str, Any]) -> str:
    """Write what a value of a JSON schema may be in a few words."""
    for several in ("anyOf", "oneOf", "allOf"):
        if several in one:
            return " or ".join(map(_form, one[several]))
    if "$ref" in one:
        return str(one["$ref"]).rpartition("/")[2]
    if "enum" in one or "const" in one:
        return "/".join(map(str, one.get("enum", [one.get("const")])))
    bounds = {key: one[key] for key in sorted(one) if re.match(r"min|max|exclusive|pattern", key)}
    inner = one.get("items") or one.get("prefixItems") or one.get("additionalProperties")
    below = f" of {_form(inner)}" if isinstance(inner, dict) else ""
    limits = f" {json.dumps(bounds)}" if bounds else ""
    return f"{one.get('type', 'any')}{below}{limits}"


def _json_keys() -> Iterator[tuple[str, list[str]]]:
    """Return the keys of the JSON that commands print, from the goldens."""
    keys: dict[str, set[str]] = {}
    for file in sorted(GOLDENS.glob("*/*.txt")):
        for part in re.split(r"^=== ", file.read_text(encoding="utf-8"), flags=re.M):
            head, _, body = part.partition("\n")
            if head.startswith("json") and body.strip().startswith(("{", "[")):
                value = json.loads(body)
                keys.setdefault(file.stem, set()).update(_paths(value, ""))
    for name, paths in sorted(keys.items()):
        yield name, sorted(paths)


def _paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _paths(one, path)
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _paths(one, f"{path}.{name}" if path else name)
    else:
        yield path


def _plug_ins() -> Iterator[tuple[str, Any]]:
    for kind in PLUG_INS:
        needed = {name for base in kind.bases for name in getattr(base, "__abstractmethods__", ())}
        yield (
            kind.group,
            {
                "bases": [f"{one.__module__}.{one.__name__}" for one in kind.bases],
                "key": kind.key,
                "attributes": sorted(kind.attributes),
                "methods": sorted(needed),
            },
        )


def _contract(cls: type) -> dict[str, list[str]]:
    names = [name for name in dir(cls) if not name.startswith("_")]
    tests = [name for name in names if name.startswith("test")]
    return {"tests": tests, "fixtures and attributes": [n for n in names if n not in tests]}


def _entry_points() -> dict[str, Any]:
    text = (PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    return {"scripts": project["scripts"], **project["entry-points"]}


def _variables() -> set[str]:
    texts = (file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py"))
    return {name for text in texts for name in re.findall(r"\bRAG_ASSETS_[A-Z_]*[A-Z]\b", text)}


if __name__ == "__main__":
    kept.renew(FILE, surface(), 3)
