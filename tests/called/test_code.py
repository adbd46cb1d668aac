"""The code that ``call`` names: how it is loaded, and its version."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from rag_assets.called.code import Call, load, source_version, version_of_loaded
from rag_assets.errors import UsageError


def call(file: Path, name: str = "retrieve") -> Call:
    return Call.of(f"{file}:{name}")


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("text", ["search", ":f", "a b:c", "a:", "a:1x", "search.py", "a.b:c()"])
def test_other_texts_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="must be package"):
        Call.of(text)


def test_a_file_is_loaded_under_a_name_of_its_own_and_no_search_path_changes(
    tmp_path: Path,
) -> None:
    code = "import dataclasses\n\n@dataclasses.dataclass\nclass Hit:\n    id: str\n"
    file = write(tmp_path / "json.py", f"{code}\nWHERE = __name__\n")
    path, before = list(sys.path), set(sys.modules)
    assert str(load(call(file, "WHERE"))).startswith("rag_assets_call_")
    assert load(call(file, "Hit.__name__")) == "Hit"
    assert sys.path == path
    assert {
        one for one in set(sys.modules) - before if not one.startswith("rag_assets_call_")
    } == set()


def test_an_edited_file_is_loaded_anew(tmp_path: Path) -> None:
    file = write(tmp_path / "search.py", "VALUE = 1\n")
    assert load(call(file, "VALUE")) == 1
    write(file, "VALUE = 22\n")
    assert load(call(file, "VALUE")) == 22


def test_a_module_that_cannot_be_loaded_leaves_no_trace(tmp_path: Path) -> None:
    file = write(tmp_path / "search.py", "raise SystemExit(3)\n")
    before = set(sys.modules)
    with pytest.raises(SystemExit):
        load(call(file, "f"))
    assert set(sys.modules) == before


def test_a_version_is_of_what_can_be_reached_and_runs_nothing(tmp_path: Path) -> None:
    code = (
        "raise RuntimeError('it ran')\n\n"
        "def used(words):\n    return words\n\n"
        "def unused(words):\n    return 1\n\n"
        "def retrieve(query, k):\n    return used(query)\n"
    )
    file = write(tmp_path / "search.py", code)
    first = source_version(call(file))
    write(file, f"# a comment\n{code}")
    assert source_version(call(file)) == first
    write(file, code.replace("return 1", "return 1000"))
    assert source_version(call(file)) == first
    write(file, code.replace("return words", "return words[:1]"))
    assert source_version(call(file)) != first


def test_a_version_of_a_package_follows_its_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "followed_package"
    write(package / "__init__.py", "raise RuntimeError('it ran')\n")
    write(package / "words.py", "def split(text):\n    return text.split()\n")
    write(package / "other.py", "VALUE = 1\n")
    head = "from followed_package.words import split\n\n\n"
    write(package / "search.py", f"{head}def retrieve(query, k):\n    return split(query)\n")
    monkeypatch.syspath_prepend(tmp_path)
    named = Call.of("followed_package.search:retrieve")
    first = source_version(named)
    write(package / "other.py", "VALUE = 22\n")
    assert source_version(named) == first
    write(package / "words.py", "def split(text):\n    return text.lower().split()\n")
    assert source_version(named) != first
    assert "followed_package" not in sys.modules


def test_a_name_that_is_imported_counts_the_whole_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "whole_package"
    write(package / "__init__.py", "from whole_package.search import retrieve\n")
    write(package / "search.py", "def retrieve(query, k):\n    return []\n")
    monkeypatch.syspath_prepend(tmp_path)
    first = source_version(Call.of("whole_package:retrieve"))
    write(package / "search.py", "def retrieve(query, k):\n    return [query]\n")
    assert source_version(Call.of("whole_package:retrieve")) != first


def test_a_module_that_is_nowhere_is_said() -> None:
    with pytest.raises(UsageError, match="no module no_such_app is installed here; install it"):
        source_version(Call.of("no_such_app.search:retrieve"))


def test_a_module_that_was_edited_since_it_was_imported_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "edited_module_of_a_test.py", "VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    named = Call.of("edited_module_of_a_test:VALUE")
    assert load(named) == 1
    write(file, "VALUE = 22\n")
    with pytest.raises(UsageError, match="changed since this process started; restart it"):
        load(named)


CODE = """
LIMIT = 3
def helper(): return LIMIT
def retrieve(query, k): return helper()
def other(query, k): return []
def made(n):
    def inner(query, k): return [n]
    return inner
class Search:
    def invoke(self, query): return []
hidden = made(3)
short = lambda query, k: []
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that can be imported, and its module."""
    write(tmp_path / "live_code" / "__init__.py", "")
    file = write(tmp_path / "live_code" / "search.py", CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield file
    for name in [name for name in sys.modules if name.partition(".")[0] == "live_code"]:
        del sys.modules[name]


def test_what_stands_in_a_source_is_known_by_it(package: Path) -> None:
    module = import_module("live_code.search")
    version = version_of_loaded(module.retrieve)
    assert version == source_version(Call("live_code.search", "retrieve")) is not None
    assert version != version_of_loaded(module.other)
    assert version_of_loaded(module.Search) is not None
    write(package, CODE.replace("LIMIT = 3", "LIMIT = 4"))
    assert version_of_loaded(module.retrieve) is None  # the process has another one
    assert version_of_loaded(module.other) is not None


def test_what_is_made_when_a_program_runs_is_not_known(package: Path) -> None:
    module = import_module("live_code.search")
    names = ("hidden", "short")
    assert [version_of_loaded(getattr(module, name)) for name in names] == [None, None]
    known = module.Search()
    made = [known, known.invoke, functools.partial(module.retrieve, k=3), len, 3]
    assert [version_of_loaded(one) for one in made] == [None] * len(made)
    unread: dict[str, object] = {"__name__": "live_code.search"}
    exec("def retrieve(query, k): return []", unread)
    assert version_of_loaded(unread["retrieve"]) is None


def test_a_function_of_a_script_is_known_by_the_script(tmp_path: Path) -> None:
    said = "from rag_assets.called.code import version_of_loaded\n"
    code = f"{said}def f(query): return []\nprint(version_of_loaded(f))\n"
    file = write(tmp_path / "mine.py", code)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == source_version(call(file, "f"))
