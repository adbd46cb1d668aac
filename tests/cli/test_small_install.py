"""An experiment without models, where the libraries of models are not installed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.tiny_experiment import Tiny

LEFT_OUT = {
    "dagster-webserver": ("dagster_webserver",),
    "faiss-cpu": ("faiss",),
    "plotly": ("plotly",),
    "sentence-transformers": ("sentence_transformers", "sklearn"),
    "torch": ("torch",),
    "transformers": ("transformers",),
}
"""Package -> its modules, and those that come with it alone."""

PROGRAM = """
import importlib.metadata, sys
modules, packages = {modules!r}, {packages!r}

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in modules:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

def version(name, of=importlib.metadata.version):
    if name in packages:
        raise importlib.metadata.PackageNotFoundError(name)
    return of(name)

sys.meta_path.insert(0, Missing())
importlib.metadata.version = version
from rag_assets.cli.main import main
*commands, folder, store = sys.argv[1:]
for command in commands:
    where = [folder] if command != "status" else []
    try:
        main([command, *where, "--store", store])
    except SystemExit as end:
        assert not end.code, command
"""

SEARCH = "def retrieve(question, k):\n    return ['fares.md'][:k]\n"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("small")).write()
    (tiny.folder / "search.py").write_text(SEARCH, encoding="utf-8")
    search = {"type": "python", "call": "search.py:retrieve"}
    retrievers = {"bm25": {"type": "bm25", "chunking": "whole"}, "mine": search}
    tiny.config |= {"retrievers": retrievers, "top_k": [1, 5], "baseline": "bm25"}
    tiny.write_config()
    return tiny


def test_every_command_works_without_libraries_of_models(small: Tiny) -> None:
    modules = sorted(name for names in LEFT_OUT.values() for name in names)
    program = PROGRAM.format(modules=modules, packages=sorted(LEFT_OUT))
    store, folder = str(small.settings.store), str(small.folder)
    commands = ("plan", "evaluate", "leaderboard", "compare", "history", "report", "status")
    result = subprocess.run(
        [sys.executable, "-c", program, *commands, folder, store],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "No module named" not in result.stdout + result.stderr


def test_the_page_names_what_is_needed() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.split(r"[<>=]", one)[0] for one in project["dependencies"]]
    page = Path(REPOSITORY / "docs" / "install.md").read_text(encoding="utf-8")
    block = page.partition("## A small image")[2].partition("```\n")[2].partition("```")[0]
    listed = re.findall(r"(?<![-\w])[A-Za-z][\w-]+", block.replace("constraints.txt", ""))
    listed = [one for one in listed if one not in ("pip", "install", "rag-assets")]
    assert set(listed) == {*names} - {*LEFT_OUT}
