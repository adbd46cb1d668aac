"""What an import costs, and that no module reads itself: imports form no circle, not even of types.

Heavy libraries are loaded when something needs them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rag_assets.retrieval.registry import OWN_TYPES
from tests.import_graph import circle, imports, package_imports
from tests.tiny_experiment import Tiny

REPOSITORY = Path(__file__).resolve().parents[1]
HEAVY = ("faiss", "scipy", "sentence_transformers", "sklearn", "torch", "transformers")
IMPORTED = """
import importlib
importlib.import_module(sys.argv[1])
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
    """Return the names of all modules that a new process has after a script."""
    whole = f"import json, sys\n{script}\nprint(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", whole, *arguments]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    return set(json.loads(result.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Lexical retrievers and a fusion, as they are after an evaluation."""
    tiny = Tiny(tmp_path_factory.mktemp("tiny")).write()
    tiny.run()
    tiny.snapshot()
    return tiny


@pytest.mark.parametrize("module", ["rag_assets", "rag_assets.cli", "rag_assets.definitions"])
def test_import_loads_no_heavy_library(module: str) -> None:
    loaded = modules_after(IMPORTED, module)
    assert module in loaded
    assert loaded.isdisjoint(HEAVY)


def test_package_alone_loads_no_dagster() -> None:
    assert "dagster" not in modules_after(IMPORTED, "rag_assets")


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
from rag_assets.models.loading import import_model_libraries
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
