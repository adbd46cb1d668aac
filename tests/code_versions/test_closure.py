"""All definitions that a computation can reach, and their normal form."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from rag_assets.code_versions import normal_form
from rag_assets.code_versions.closure import Closure, SourceGraph
from rag_assets.code_versions.normal_form import text

BODIES = {
    "other.py": """
        LIMIT = 3
        UNUSED = 4

        def used():
            return LIMIT

        def unused():
            return UNUSED
        """
}


@pytest.mark.parametrize(
    "source",
    [
        "from pkg.other import used\ndef root():\n    return used()\n",
        "from pkg.other import used as renamed\ndef root():\n    return renamed()\n",
        "from .other import used\ndef root():\n    return used()\n",
        "from . import other\ndef root():\n    return other.used()\n",
        "import pkg.other\ndef root():\n    return pkg.other.used()\n",
        "import pkg.other as far\ndef root():\n    return far.used()\n",
        "def root():\n    from pkg.other import used\n    return used()\n",
        "def root():\n    import pkg.other\n    return pkg.other.used()\n",
        "from pkg.again import used\ndef root():\n    return used()\n",
        "from pkg.other import used\nalias = used\ndef root():\n    return alias()\n",
        "try:\n    from pkg.other import used\nexcept ImportError:\n    used = None\n"
        "def root():\n    return used()\n",
        "from functools import partial\nfrom pkg.other import used\n"
        "def root():\n    return partial(used)\n",
        "from pkg.other import used\ndef root(call=used):\n    return call()\n",
        "from pkg.other import used\n@used\ndef root():\n    return 1\n",
    ],
)
def test_a_name_is_followed_to_what_it_was_bound_to(source: str, tmp_path: Path) -> None:
    files = {**BODIES, "again.py": "from pkg.other import used\n", "main.py": source}
    found = reached(write(tmp_path / "pkg", files), "pkg.main:root")
    assert {"main:root", "other:used", "other:LIMIT"} <= found
    assert not {"other:unused", "other:UNUSED"} & found


def test_a_whole_module_counts_where_its_use_is_not_resolved(tmp_path: Path) -> None:
    source = "from pkg import other\ndef root(name):\n    return vars(other)[name]\n"
    found = reached(write(tmp_path / "pkg", {**BODIES, "main.py": source}), "pkg.main:root")
    assert {"other:used", "other:unused"} <= found
    dynamic = "from pkg.other import made_at_run_time\ndef root():\n    return made_at_run_time()\n"
    found = reached(write(tmp_path / "pkg", {"main.py": dynamic}), "pkg.main:root")
    assert "other:unused" in found


CLASSES = {
    "shapes.py": """
        class Shape:
            def area(self):
                return 0

            def name(self):
                return "shape"

        class Square(Shape):
            def area(self):
                return self.side ** 2

            def side(self):
                return 1

            def __len__(self):
                return 4

        class Circle(Shape):
            def area(self):
                return 3
        """,
    "main.py": """
        from pkg.shapes import Shape, Square

        def root():
            return Square().area()

        def measured(shape: Shape):
            return shape.area()

        def named():
            return getattr(Square(), "name")()
        """,
}


def test_an_attribute_is_followed_in_the_classes_that_are_reached(tmp_path: Path) -> None:
    folder = write(tmp_path / "pkg", CLASSES)
    found = reached(folder, "pkg.main:root")
    assert {"shapes:Square.area", "shapes:Square.side", "shapes:Square.__len__"} <= found
    # its base may be asked by super()
    assert "shapes:Shape.area" in found
    assert not {"shapes:Circle.area", "shapes:Shape.name"} & found
    assert "shapes:Shape.name" in reached(folder, "pkg.main:named")


def test_a_class_of_an_annotation_gives_its_methods_alone(tmp_path: Path) -> None:
    found = reached(write(tmp_path / "pkg", CLASSES), "pkg.main:measured")
    assert "shapes:Shape.area" in found
    assert not {"shapes:Shape", "shapes:Square.area"} & found
    # the class that the configuration names is a root
    both = reached(tmp_path / "pkg", "pkg.main:measured", "pkg.shapes:Circle")
    assert {"shapes:Circle", "shapes:Circle.area"} <= both


FOREIGN = {
    "main.py": """
        import io
        from abc import ABC

        class Stream(io.RawIOBase):
            def readinto(self, buffer):
                return 0

        class Plain(ABC):
            def readinto(self, buffer):
                return 0

            def handle_request(self, request):
                return request

        def root(wrap):
            return wrap(Stream()), wrap(Plain())
        """
}


def test_methods_that_other_packages_call_count(tmp_path: Path) -> None:
    found = reached(write(tmp_path / "pkg", FOREIGN), "pkg.main:root")
    assert {"main:Stream.readinto", "main:Plain.handle_request"} <= found
    assert "main:Plain.readinto" not in found


KINDS = {
    "main.py": """
        class Ship:
            speed = 3

            def __len__(self):
                return 1

            def sail(self):
                return self.steer()

            def steer(self):
                return 2

            def paint(self):
                return 3

        class Ferry(Ship):
            def sail(self):
                return super().sail()

            @validator("speed")
            def check(self):
                return 4

        def launch():
            return Ferry()

        def is_ship(thing):
            return isinstance(thing, Ship)
        """
}


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        # A class that is made: its head, its bases, and what others than us call.
        ("launch", {"launch", "Ferry", "Ship", "Ship.__len__", "Ferry.check"}),
        ("is_ship", {"is_ship", "Ship.__len__"}),
        # A method as a root, with those of the bases that it may call.
        ("Ferry.sail", {"Ferry.sail", "Ship.sail", "Ship.steer", "Ship.__len__"}),
    ],
)
def test_what_a_class_takes_part_with(tmp_path: Path, root: str, expected: set[str]) -> None:
    found = reached(write(tmp_path / "pkg", KINDS), f"pkg.main:{root}")
    assert found == {f"main:{name}" for name in expected}


def test_a_foreign_name_is_part_of_the_version(tmp_path: Path) -> None:
    source = "from numpy import sum as total\ndef root(): return total()\n"
    before, after = digests(
        write(tmp_path / "pkg", {"main.py": source}),
        ["pkg.main:root"],
        {"main.py": source.replace("import sum", "import max")},
    )
    assert before != after


TABLE = {
    "ways.py": "def one():\n    return 1\ndef two():\n    return 2\ndef many():\n    return 3\n",
    "main.py": """
        from pkg.ways import many, one, two

        MANY = {f"{n}": many for n in range(9)}
        WAYS = {"one": one, "two": lambda: two(), **MANY}

        def root(name):
            return WAYS[name]()
        """,
}


def test_of_a_table_only_the_named_entries_count(tmp_path: Path) -> None:
    folder = write(tmp_path / "pkg", TABLE)
    every = {"ways:one", "ways:two", "ways:many"}
    assert every <= reached(folder, "pkg.main:root")
    for entries, expected in (
        ((), set()),
        (("one",), {"ways:one"}),
        (("two",), {"ways:two"}),
        (("one", "**MANY"), {"ways:one", "ways:many"}),
    ):
        roots = [f"pkg.main:WAYS[{entry}]" for entry in ("", *entries)]
        assert reached(folder, "pkg.main:root", *roots) & every == expected
    with pytest.raises(LookupError, match=r"no WAYS\[three\] in pkg\.main"):
        reached(folder, "pkg.main:WAYS[three]")
    with pytest.raises(LookupError, match=r"no absent in pkg\.main"):
        reached(folder, "pkg.main:absent")


def test_a_table_that_is_changed_later_cannot_be_chosen_from(tmp_path: Path) -> None:
    files = {"main.py": "WAYS = {'one': 1}\nWAYS['two'] = 2\nLEFT = RIGHT = {'a': 1}\n"}
    with pytest.raises(LookupError):
        closure(write(tmp_path / "pkg", files), "pkg.main:WAYS[one]")


DATA = {
    "prompts/ask.txt": "Ask.",
    "main.py": """
        from importlib import resources

        def root():
            return (resources.files("pkg") / "prompts" / "ask.txt").read_text()

        def other():
            return 1
        """,
}


def test_packaged_files_count_for_what_reads_them(tmp_path: Path) -> None:
    folder = write(tmp_path / "pkg", DATA)
    before, after = digests(folder, ["pkg.main:root"], {"prompts/ask.txt": "Beg."})
    assert before != after
    before, after = digests(folder, ["pkg.main:other"], {"prompts/ask.txt": "Plead."})
    assert before == after


def test_what_stands_elsewhere_under_another_name_is_the_same(tmp_path: Path) -> None:
    here = write(tmp_path / "one" / "pkg", {"a.py": "def f():\n    return g()\ndef g(): return 1"})
    there = {"x/__init__.py": "", "x/y.py": "def g(): return 1\ndef f():\n    return g()"}
    moved = closure(write(tmp_path / "two" / "pkg", there), "pkg.x.y:f")
    assert moved.digest == closure(here, "pkg.a:f").digest


SOURCE = '''
"""A module."""
import logging
from pydantic import BaseModel, ConfigDict, Field
_log = logging.getLogger(__name__)
TABLE = TableSchema("t", "one row", ("a",), a=Column(TEXT, "what it means"))

class Options(BaseModel):
    """Options."""
    model_config = ConfigDict(title="options", frozen=True)
    row = "one option"
    size: int = Field(default=3, ge=1, description="how many", examples=[3])
    """How many."""

class Pair(NamedTuple):
    row: int
    kinds: str

def compute(rows: list[int], limit: int = 2) -> list[int]:
    """Compute."""
    # a comment
    if not rows:
        raise ValueError(f"no rows, at most {limit}")
    _log.info("computing %d", limit)
    label = "odd" if limit % 2 else "even"
    mark = "#"
    with progress(label, len(rows)) as advance:
        return [row * limit for row in rows if mark]
'''
NOTHING = (
    ('"""A module."""', '"""Another docstring."""'),
    ('"""Compute."""', ""),
    ("# a comment", "# another\n    # one"),
    ('"one row"', '"a row"'),
    ('"what it means"', '"its meaning"'),
    ('title="options"', 'title="all options"'),
    ('row = "one option"', 'row = "an option"'),
    ('description="how many", examples=[3]', 'description="number"'),
    ('"""How many."""', ""),
    ("list[int], limit: int", "'Sequence[int]', limit: 'int'"),
    ('f"no rows, at most {limit}"', '"no rows"'),
    ('"computing %d", limit', '"at work"'),
    ("    with progress(label", "\n\n    with   progress('rows'"),
)
SOMETHING = (
    ("ge=1", "ge=2"),
    ("default=3", "default=4"),
    ("frozen=True", "frozen=False"),
    ("if not rows", "if rows"),
    ("raise ValueError", "raise KeyError"),
    ("row * limit", "limit * row"),
    ("limit: int = 2", "limit: int = 3"),
    ("size: int", "size: float"),
    ("a=Column(", "b=Column("),
    ("row: int", "number: int"),
    ("    row: int\n    kinds: str", "    kinds: str\n    row: int"),
    ('mark = "#"', 'mark = ""'),
    ("len(rows)) as", "len(rows) + 1) as"),
)


def form(source: str) -> str:
    return text(ast.parse(source))


@pytest.mark.parametrize(("old", "new"), NOTHING)
def test_what_is_said_to_people_does_not_count(old: str, new: str) -> None:
    assert old in SOURCE
    assert form(SOURCE.replace(old, new)) == form(SOURCE)


@pytest.mark.parametrize(("old", "new"), SOMETHING)
def test_what_is_done_counts(old: str, new: str) -> None:
    assert old in SOURCE
    assert form(SOURCE.replace(old, new)) != form(SOURCE)


@pytest.mark.parametrize(
    "source",
    [
        "def f(title):\n    return Document(title={0})\n",
        "def f(log):\n    log.append({0})\n",
        "def f():\n    sql = '{0}'\n    return run(sql)\n",
    ],
)
def test_what_only_looks_like_a_description_counts(source: str) -> None:
    assert form(source.format(1)) != form(source.format(2))


def test_no_other_class_is_called_as_one_with_descriptions() -> None:
    """Its second argument would count as a text for people: a changed formula computes nothing."""
    described = re.compile(rf"^ *(?:class|def) ({'|'.join(normal_form.DESCRIBED_CALLS)})\b", re.M)
    package = Path(normal_form.__file__).parents[1]
    defined = [
        (str(file.relative_to(package)), name)
        for file in package.rglob("*.py")
        for name in described.findall(file.read_text(encoding="utf-8"))
    ]
    assert sorted(defined) == [
        ("engine/stage_context.py", "completions"),
        ("pipeline/pipeline.py", "completions"),
        ("schemas.py", "Column"),
        ("schemas.py", "OpenTableSchema"),
        ("schemas.py", "TableSchema"),
        ("sheets/sheet.py", "Column"),
    ]


EVERY_SYNTAX = r"""
async def f(a, /, b=1, *c, d: int = 2, **e):
    async with a as b, c as d:
        async for x in y:
            await x
    match a:
        case {"k": [1, *_], **rest} if rest:
            return f"{a!r:>{b}} {a=} \u1c89 \U0001fae9" "WIDE joined" rf"\d{b}"
        case Point(x=0) | None:
            yield -1, 1e400, 1j, ..., b"\xff", u"old"
    try:
        del a[1:2, ::3]
    except* (A, B) as error:
        lambda *, k=1: (yield)
    else:
        (n := 10 ** 3)
    return {**a, "b": {c for c in d}, "\udc80": not a < b <= c is not d}
""".replace("WIDE", "\u1c89\U0001fae9")
ONE_LINE = """
import ast, hashlib, runpy, sys
form = runpy.run_path(sys.argv[1])["text"](ast.parse(sys.argv[2]))
print(hashlib.sha256(form.encode()).hexdigest())
"""
OTHERS = sorted(Path.home().glob(".pyenv/versions/3.1[1-9]*/bin/python"))


@pytest.mark.parametrize("python", [Path(sys.executable), *OTHERS], ids=lambda one: one.parts[-3])
def test_the_form_is_the_same_on_every_python(python: Path) -> None:
    command = [str(python), "-c", ONE_LINE, normal_form.__file__, EVERY_SYNTAX]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == EXPECTED, done.stderr


EXPECTED = "feb87a6b980fd1d2d138a95be00e256a3f3dd68129c9d43fd86c55592d25d259"


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files of a package, and return its folder."""
    for name, content in {"__init__.py": "", **files}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(content), encoding="utf-8")
    return folder


def closure(folder: Path, *roots: str) -> Closure:
    """Return what roots of the package ``pkg`` in a folder reach."""
    return Closure(SourceGraph({"pkg": folder}), roots)


def reached(folder: Path, *roots: str) -> set[str]:
    """Return the names of the definitions that roots reach."""
    return names(closure(folder, *roots))


def names(found: Closure) -> set[str]:
    return {f"{one.module.removeprefix('pkg.')}:{one.name}" for one in found.definitions}


def digests(folder: Path, roots: Iterable[str], changed: Mapping[str, str]) -> tuple[str, str]:
    """Return the digest of some roots before and after some files are rewritten."""
    return closure(folder, *roots).digest, closure(write(folder, changed), *roots).digest
