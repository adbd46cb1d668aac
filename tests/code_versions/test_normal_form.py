"""What of a source counts, and that it is written the same way by every Python."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from rag_assets.code_versions import normal_form
from rag_assets.code_versions.normal_form import text

SOURCE = '''
"""A module."""
import logging
from pydantic import BaseModel, ConfigDict, Field
_log = logging.getLogger(__name__)
TABLE = TableSchema("t", "one row", ("a",), (Column("a", TEXT, "what it means"),))

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
    ('Column("a"', 'Column("b"'),
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
