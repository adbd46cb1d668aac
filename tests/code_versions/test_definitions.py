"""Which definitions roots reach, and which changes of a source count, in small packages."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rag_assets.code_versions.closure import Closure, SourceGraph
from rag_assets.code_versions.normal_form import text
from rag_assets.code_versions.source_modules import Imported, imported
from rag_assets.code_versions.versions import CodeVersions, root_of

Close = Callable[..., Closure]

FERRIES = {
    "__init__.py": "",
    "fares.py": (
        "from ferries.routes import length as miles\n"
        "from .tables import extra\n"
        "import json as written\n"
        "RATE = 4\n"
        "def fare(route): return RATE * miles(route) + extra(route)\n"
        "def show(route): return written.dumps(fare(route))\n"
        "def unused(): return 0\n"
    ),
    "routes.py": (
        "LENGTHS = {'north': short(), 'south': long()}\n"
        "def short(): return 1\n"
        "def long(): return 9\n"
        "def length(route): return LENGTHS[route]\n"
    ),
    "tables.py": "def extra(route): return 0\ndef other(): return 1\n",
    "ships.py": (
        "from ferries.errors import Sunk\n"
        "class Ship:\n"
        "    speed = 3\n"
        "    def __len__(self): return 1\n"
        "    def sail(self): return self.steer()\n"
        "    def steer(self): return 2\n"
        "    def paint(self): return 3\n"
        "class Ferry(Ship):\n"
        "    def sail(self): return super().sail()\n"
        "    @validator('speed')\n"
        "    def check(self): return 4\n"
        "    @property\n"
        "    def name(self): return 'a'\n"
        "def launch(): return Ferry()\n"
        "def cross(ship: Ship): return ship.sail()\n"
        "def is_ship(thing): return isinstance(thing, Ship)\n"
        "def named(thing): return getattr(thing, 'paint')(Ship())\n"
    ),
    "errors.py": "class Sunk(Exception): pass\n",
}


def write(folder: Path, files: Mapping[str, str]) -> SourceGraph:
    for name, source in files.items():
        path = folder / "ferries" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return SourceGraph({"ferries": folder / "ferries"})


@pytest.fixture
def close(tmp_path: Path) -> Close:
    """Return a function that follows roots in the package `ferries`, with some files replaced."""

    def follow(*roots: str, **replaced: str) -> Closure:
        files = FERRIES | {f"{name}.py": source for name, source in replaced.items()}
        return Closure(write(tmp_path, files), roots)

    return follow


def names(closure: Closure) -> set[str]:
    return {f"{one.module.removeprefix('ferries.')}:{one.name}" for one in closure.definitions}


FARE = {"fares:fare", "fares:RATE", "routes:length", "routes:LENGTHS", "routes:short"}
FARE |= {"routes:long", "tables:extra"}


@pytest.mark.parametrize(
    ("roots", "reached"),
    [
        (["tables:other"], {"tables:other"}),
        (["fares:fare"], FARE),
        (["fares:show"], FARE | {"fares:show"}),
        # Of a table the configuration chooses entries.
        (
            ["fares:fare", "routes:LENGTHS[south]"],
            FARE - {"routes:LENGTHS", "routes:short"} | {"routes:LENGTHS[south]"},
        ),
        (
            ["fares:fare", "routes:LENGTHS[]"],
            FARE - {"routes:LENGTHS", "routes:short", "routes:long"},
        ),
        # A class that is made: its head, its bases, and what others than us call.
        (
            ["ships:launch"],
            {
                "ships:launch",
                "ships:Ferry",
                "ships:Ship",
                "ships:Ship.__len__",
                "ships:Ferry.check",
            },
        ),
        # An object from elsewhere: the methods of its class that are called.
        (
            ["ships:cross"],
            {"ships:cross", "ships:Ship.__len__", "ships:Ship.sail", "ships:Ship.steer"},
        ),
        (["ships:is_ship"], {"ships:is_ship", "ships:Ship.__len__"}),
        (
            ["ships:named"],
            {"ships:named", "ships:Ship", "ships:Ship.__len__", "ships:Ship.paint"},
        ),
        # A method as a root, with those of the bases that it may call.
        (
            ["ships:Ferry.sail"],
            {"ships:Ferry.sail", "ships:Ship.sail", "ships:Ship.steer", "ships:Ship.__len__"},
        ),
    ],
)
def test_what_roots_reach(close: Close, roots: list[str], reached: set[str]) -> None:
    prefixed = [f"ferries.{root}" for root in roots]
    assert names(close(*prefixed)) == reached


@pytest.mark.parametrize(
    ("root", "found"),
    [
        ("ferries.fares:fear", "no fear in ferries.fares"),
        ("ferries.ports:quay", "no module ferries.ports"),
        ("ferries.routes:LENGTHS[west]", r"no LENGTHS\[west\] in ferries.routes"),
        ("harbours:quay", "no module harbours"),
    ],
)
def test_a_root_that_is_not_there(close: Close, root: str, found: str) -> None:
    with pytest.raises(LookupError, match=found):
        close(root)


def test_what_cannot_be_resolved_counts_as_its_whole_module(close: Close) -> None:
    source = "from ferries import tables\ndef f(name): return tables.missing(name)\n"
    assert names(close("ferries.fares:f", fares=source)) == {
        "fares:f", "tables:extra", "tables:other",
    }  # fmt: skip


def test_a_foreign_name_is_part_of_the_version(close: Close) -> None:
    one = "from numpy import sum as total\ndef extra(route): return total(route)\n"
    other = one.replace("import sum", "import max")
    digests = [close("ferries.tables:extra", tables=source).digest for source in (one, other, one)]
    assert digests[0] == digests[2] != digests[1]


def test_a_change_of_what_is_reached_counts_and_no_other(close: Close) -> None:
    before = close("ferries.fares:fare").digest
    changed = FERRIES["tables.py"].replace("return 1", "return 2")
    assert close("ferries.fares:fare", tables=changed).digest == before
    changed = FERRIES["tables.py"].replace("return 0", "return 2")
    assert close("ferries.fares:fare", tables=changed).digest != before


def test_a_package_counts_with_all_its_files(tmp_path: Path) -> None:
    graph = write(tmp_path, FERRIES)
    page = tmp_path / "ferries" / "data" / "page.txt"
    page.parent.mkdir()
    page.write_text("one", encoding="utf-8")
    everything = Closure(graph, (), ["ferries"])
    before = everything.digest
    # Everything but the exceptions, which are no result in our own package only.
    assert names(everything) >= FARE | {"tables:other", "ships:Ferry", "errors:Sunk"}
    (page.parent / "__pycache__").mkdir()
    (page.parent / "__pycache__" / "page.pyc").write_text("compiled", encoding="utf-8")
    assert Closure(graph, (), ["ferries"]).digest == before
    page.write_text("two", encoding="utf-8")
    assert Closure(graph, (), ["ferries"]).digest != before


@pytest.mark.parametrize(
    ("source", "bound"),
    [
        ("import a.b", {"a": Imported("a")}),
        ("import a.b as c", {"c": Imported("a.b")}),
        ("from a import b, c as d", {"b": Imported("a", "b"), "d": Imported("a", "c")}),
        ("from . import b", {"b": Imported("top.inner", "b")}),
        ("from .a import b", {"b": Imported("top.inner.a", "b")}),
        ("from ..a import b", {"b": Imported("top.a", "b")}),
    ],
)
def test_names_that_an_import_binds(source: str, bound: dict[str, Imported]) -> None:
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.Import | ast.ImportFrom)
    assert dict(imported(node, "top.inner")) == bound


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(a): return a", "def f(a: int) -> str:\n    'Say it.'\n    # so\n    return a"),
        ("raise Bad('a')", "raise Bad('b', 2)"),
        ("def f():\n    logger.info('a')\n    g()", "def f():\n    g()"),
        ("Field(1, description='a')", "Field(1, description='b')"),
        ("Column(int, 'of a')", "Column(int, 'of b')"),
        ("TableSchema('a', 'of a', 1)", "TableSchema('a', 'of b', 1)"),
        ("class A:\n    group = 'a'", "class A:\n    group: str = 'b'"),
    ],
)
def test_what_does_not_count(one: str, other: str) -> None:
    assert form(one) == form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(a): return a", "def f(a): return b"),
        ("raise Bad('a')", "raise Good('a')"),
        ("def f():\n    log(1)\n    g()", "def f():\n    g()"),
        ("Field(1, ge=1)", "Field(1, ge=2)"),
        ("Column(int, 'of a')", "Column(str, 'of a')"),
        ("TableSchema(1, a=int)", "TableSchema(1, b=int)"),
        ("TableSchema('a', 'of a', 1)", "TableSchema('a', 'of a', 2)"),
        ("class A:\n    depth = 'a'", "class A:\n    depth = 'b'"),
        ("group = 'a'", "group = 'b'"),
        ("f(1, [])", "f(1, [[]])"),
        ("a < b", "a <= b"),
        ("f(1)", "f(True)"),
    ],
)
def test_what_counts(one: str, other: str) -> None:
    assert form(one) != form(other)


def form(source: str) -> str:
    return text(list(ast.parse(source).body[-1:]))


def test_versions_are_kept_for_the_next_process(tmp_path: Path) -> None:
    folder = tmp_path / "store" / "code"
    root = root_of(CodeVersions, "of")
    assert root == "rag_assets.code_versions.versions:CodeVersions.of"
    alone = CodeVersions(folder)
    version = alone.of([root])
    assert len(version) == 16
    assert not folder.exists()  # there was no store
    folder.parent.mkdir()
    writer = CodeVersions(folder)
    assert writer.of([root]) == version
    (kept,) = set(folder.glob("*.json")) - {folder / "files.json"}
    assert kept.name == f"{writer.source_digest[:16]}.json"
    kept.write_text(kept.read_text().replace(version, "f" * 16))
    assert CodeVersions(folder).of([root, root]) == "f" * 16  # read, not computed
    kept.write_text("[]")
    assert CodeVersions(folder).of([root]) == version
    kept.write_text("{")
    assert CodeVersions(folder).of([root]) == version
