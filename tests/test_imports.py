"""What imports what: no circle, not even of types, each layer only those below it, Dagster on top.

Heavy libraries are loaded when something needs them.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from rag_assets.code_versions.source_modules import imported
from rag_assets.retrieval.registry import OWN_TYPES
from tests.answers.answering import with_answers
from tests.installed import python
from tests.tiny_experiment import Tiny

REPOSITORY = Path(__file__).resolve().parents[1]
HEAVY = ("faiss", "scipy", "sentence_transformers", "sklearn", "torch", "transformers")
IMPORTED = """
import importlib
for module in sys.argv[1:]:
    importlib.import_module(module)
"""
COMMAND = """
from rag_assets.cli import main
main(sys.argv[1:], standalone_mode=False)
"""
TYPES = """
from rag_assets.retrieval.registry import RETRIEVER_TYPES
assert len(list(RETRIEVER_TYPES)) == len(RETRIEVER_TYPES) and sys.argv[1] in RETRIEVER_TYPES
before = set(sys.modules)
RETRIEVER_TYPES[sys.argv[1]]
assert not before & {f"rag_assets.retrieval.{name}" for name in RETRIEVER_TYPES}, before
"""


def modules_after(script: str, *arguments: str) -> set[str]:
    whole = f"import json, sys\n{script}\nprint(json.dumps(sorted(sys.modules)))"
    result = python(REPOSITORY, "-c", whole, *arguments)
    assert result.returncode == 0, result.stderr[-2000:]
    return set(json.loads(result.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory, computed: Tiny) -> Tiny:
    """Lexical retrievers and a fusion, as they are after an evaluation."""
    tiny = computed.copy_to(tmp_path_factory.mktemp("evaluated") / "tiny")
    tiny.snapshot()
    return tiny


@pytest.mark.parametrize(
    "modules", [("", ".cli", ".llm.models", ".labels.questions_stage"), (".definitions",)]
)
def test_import_loads_no_heavy_library(modules: Sequence[str]) -> None:
    names = {f"rag_assets{module}" for module in modules}
    loaded = modules_after(IMPORTED, *names)
    assert names <= loaded
    assert loaded.isdisjoint(HEAVY)
    assert ("dagster" in loaded) == (modules == (".definitions",))


@pytest.mark.parametrize("command", ["leaderboard", "history"])
def test_what_is_read_is_shown_without_what_computes_it(evaluated: Tiny, command: str) -> None:
    place = (str(evaluated.folder), "--store", str(evaluated.settings.store))
    loaded = modules_after(COMMAND, command, *place)
    assert {"rag_assets.pipeline.evaluations", "rag_assets.retrieval.fusion.methods"} <= loaded
    assert loaded.isdisjoint(HEAVY)
    assert loaded.isdisjoint({"dagster", "filelock", "jinja2", "plotly", "pyarrow.dataset"})
    assert ("duckdb" in loaded) == (command == "history")
    computing = {
        f"rag_assets.{name}" for name in ("pipeline.pipeline", "pipeline.stages", "checks")
    }
    assert loaded.isdisjoint(computing)
    used = {OWN_TYPES[one["type"]].__module__ for one in evaluated.config["retrievers"].values()}
    types = {OWN_TYPES[name].__module__ for name in OWN_TYPES}
    assert loaded & types == used


@pytest.mark.parametrize("command", ["plan", pytest.param("evaluate", marks=pytest.mark.slow)])
def test_where_nothing_changed_nothing_is_loaded_that_computes(
    evaluated: Tiny, command: str
) -> None:
    if command == "evaluate":
        with_answers(evaluated)  # what they took is in the history
        assert evaluated.command("evaluate", ".").exit_code == 0  # Dagster is told what there is
    place = (str(evaluated.folder), "--store", str(evaluated.settings.store))
    loaded = modules_after(COMMAND, command, *place)
    assert "rag_assets.pipeline.stages" in loaded
    assert loaded.isdisjoint(HEAVY)
    others = {"asyncio", "dagster", "duckdb", "jinja2", "pandas", "plotly", "pyarrow.dataset"}
    assert loaded.isdisjoint(others)


def test_ranks_are_tested_without_all_statistics_of_scipy() -> None:
    tests = "import numpy as np\nfrom rag_assets.statistics.paired_tests import wilcoxon_p_value"
    loaded = modules_after(f"{tests}\nwilcoxon_p_value(np.arange(90.0), np.ones(90))")
    assert "scipy.special" in loaded
    assert "scipy.stats" not in loaded


@pytest.mark.parametrize("name", ["rrf", "vectors"])
def test_a_type_is_loaded_when_it_is_asked_for(name: str) -> None:
    loaded = modules_after(TYPES, name)
    types = {OWN_TYPES[one].__module__ for one in OWN_TYPES}
    assert loaded & types == {OWN_TYPES[name].__module__}


LEFT_ALONE = """
import builtins, gc
before = builtins.__import__, gc.get_threshold(), gc.isenabled()
from rag_assets.cli import main
main(["evaluate", *sys.argv[1:]], standalone_mode=False)
from rag_assets.models.model_files import import_model_libraries
import_model_libraries()
assert (builtins.__import__, gc.get_threshold(), gc.isenabled()) == before
from transformers.utils import import_utils
assert import_utils.create_import_structure_from_path.__module__ == import_utils.__name__
assert import_utils.create_import_structure_from_path.cache_parameters()["maxsize"] is not None
"""


@pytest.mark.slow
def test_the_interpreter_is_left_alone(evaluated: Tiny) -> None:
    loaded = modules_after(
        LEFT_ALONE, str(evaluated.folder), "--store", str(evaluated.root / "store")
    )
    assert {"sentence_transformers", "sklearn.metrics"} <= loaded


PLANTED = {
    "at the top": "from {other} import Thing",
    "a module": "import {other}",
    "from its package": "from planted import {last}",
    "relative": "from .{last} import Thing",
    "for types": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import {other}",
    "in a function": "class A:\n    def f(self):\n        from {other} import Thing",
}


@pytest.mark.parametrize("statement", PLANTED.values(), ids=PLANTED)
def test_a_planted_circle_is_found(tmp_path: Path, statement: str) -> None:
    package = tmp_path / "planted"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for here, there in ("ab", "bc", "ca"):
        text = statement.format(other=f"planted.{there}", last=there)
        (package / f"{here}.py").write_text(text)
    first, *others = circle(imports(package))
    assert others[-1] == first
    assert sorted(others) == ["planted.a", "planted.b", "planted.c"]
    (package / "c.py").write_text("import json")
    assert circle(imports(package)) == []


def test_imports_form_no_circle() -> None:
    found = circle(package_imports())
    assert not found, f"each module names the next: {' -> '.join(found)}"


PACKAGE = Path(__file__).resolve().parents[1] / "rag_assets"


def imports(package: Path) -> dict[str, set[str]]:
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


LAYERS: tuple[tuple[str, ...], ...] = (
    ("cli*", "definitions", "component", "extend", "testing*"),
    ("api",),
    ("live",),
    ("assets*",),
    ("report*",),
    ("analysis*",),
    ("sheets*",),
    ("checks*", "judges.check", "labels.experiment_pool", "labels.page*", "retrieval.ask"),
    ("pipeline*",),
    ("*stage",),  # wherever it lies: beside its algorithm and its options
    ("engine*",),
    ("experiment*",),
    ("labels*", "judges*"),
    ("retrieval*",),
    ("query_sets*", "chunking*", "evaluation*", "answers*"),
    ("sources*", "statistics*"),
    ("llm*",),
    ("models*",),
    ("called*",),
    ("code_versions*",),
    ("compute*", "store*"),
    ("servers*",),
    ("schemas", "ordering", "package_versions", "options", "plugins", "progress"),
    ("store.sql_paths", "signal_handlers"),
    ("input_files",),
    ("errors",),
    ("plain_text",),
)
"""From the top to the bottom: names of modules below the package. The first pattern counts."""

DAGSTER = ("cli.*", "component", "definitions", "assets*")
"""Where Dagster may be imported."""

_STAGES = next(number for number, layer in enumerate(LAYERS) if layer == ("*stage",))


def layer_of(module: str) -> int:
    """Return the number of a module's layer, counted from the top.

    ``engine.stage`` is what all stages share, so it is no stage itself.
    """
    name = module.removeprefix(f"{PACKAGE.name}.")
    if fnmatch(name, "*stage") and not name.startswith("engine."):
        return _STAGES
    for number, layer in enumerate(LAYERS):
        if any(fnmatch(name, pattern) for pattern in layer):
            return number
    raise LookupError(f"{module} has no layer: give it a place in LAYERS")


def test_a_module_knows_only_lower_layers() -> None:
    offenders = [
        f"{module} imports {other}"
        for module, others in package_imports().items()
        for other in sorted(others - {PACKAGE.name})
        if module != PACKAGE.name and layer_of(other) < layer_of(module)
    ]
    assert offenders == []


def _imported_names(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_dagster_is_known_at_the_top_alone() -> None:
    modules = {
        ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
        for file in PACKAGE.rglob("*.py")
        if b"dagster" in file.read_bytes()
        and any(name.partition(".")[0].startswith("dagster") for name in _imported_names(file))
    }
    assert not [m for m in modules if not any(fnmatch(m, pattern) for pattern in DAGSTER)]


def test_the_report_draws_and_computes_nothing() -> None:
    """What is best, shown or tied is decided in ``analysis``, once for all faces."""
    computing = ("numpy", "scipy", "duckdb", "rag_assets.statistics")
    offenders = [
        f"{file.relative_to(PACKAGE)} imports {name}"
        for file in sorted((PACKAGE / "report").rglob("*.py"))
        for name in _imported_names(file)
        if name.startswith(computing)
    ]
    assert offenders == []
