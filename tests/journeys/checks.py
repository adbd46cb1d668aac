"""What must hold after every step of a journey, and the commands that messages advise."""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.page_text import Attributes, PageText

PACKAGE = Path(__file__).parents[2] / "rag_assets"

NO_RESULT = re.compile(r"Traceback|\b(nan|NaN|inf|Infinity|None)\b|<built-in| at 0x[0-9a-f]")
"""What no output has: it is a failure, or a value that nobody turned into words."""

_IN_BACKTICKS = re.compile(r"`(rag-assets [a-z][^`]*)`")
_TO_THE_END = re.compile(r"(?<![`\w/.-])(rag-assets [a-z][^`\n]*?)(?=[`\n;]|\s*$)", re.MULTILINE)
_IN_CODE = re.compile(r"<code>(rag-assets [^<]*)</code>")

UNBOUNDED = {"dcg", "cg", "idcg", "tp", "fp", "fn", "tn"}
"""Measures that are counts or sums: at a cut-off k each is at most 15 k here, as grades are."""


class Step(NamedTuple):
    """A command that was run, what it printed, and its exit code."""

    arguments: tuple[str, ...]
    code: int
    stdout: str
    stderr: str

    def __str__(self) -> str:
        told = "\n".join(f"    {line}" for line in (self.stdout + self.stderr).splitlines()[-40:])
        return f"  $ rag-assets {' '.join(self.arguments)}\n{told}\n    exit code {self.code}"


def problems(step: Step, allowed: Collection[int]) -> Iterator[str]:
    """Yield what is wrong with the outcome of a step."""
    if step.code not in allowed:
        yield f"exit code {step.code}; allowed: {', '.join(map(str, sorted(allowed)))}"
    for match in NO_RESULT.finditer(step.stdout + step.stderr):
        yield f"the output holds {match[0]!r}"
    failed = step.code in (1, 2) and step.arguments[0] not in ("gate", "diff")
    if failed and "error: " not in step.stdout + step.stderr:
        yield "it failed without an error"
    printed = step.stdout.lstrip()
    if printed.startswith(("[", "{")):  # of a process, notes may follow
        for row in _objects(json.JSONDecoder().raw_decode(printed)[0]):
            yield from _interval_problems(row)


def page_problems(page: str) -> Iterator[str]:
    """Yield what is wrong with the texts of an HTML report."""
    for match in NO_RESULT.finditer(page_text(page)):
        around = page_text(page)[max(0, match.start() - 60) : match.end() + 60]
        yield f"the report holds {match[0]!r}: {around!r}"


class _Text(PageText):
    """What a person sees, and values of attributes that are shown."""

    def begins(self, tag: str, attributes: Attributes) -> str:
        return " ".join(text or "" for name, text in attributes if name in ("title", "aria-label"))


def page_text(page: str) -> str:
    """Return the texts of a page."""
    parser = _Text(("script", "style"))
    parser.feed(page)
    return " ".join(part for part in parser.parts if part.strip())


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
    for one in value.values() if isinstance(value, Mapping) else value:
        if isinstance(one, Mapping | list):
            yield from _objects(one)


def _interval_problems(row: Mapping[str, Any]) -> Iterator[str]:
    low, high = row.get("low"), row.get("high")
    if low is None or high is None:
        return
    metric = str(row.get("metric", "")).partition("@")[0]
    largest = 15.0 * 3 if metric in UNBOUNDED else 1.0
    least = -largest if {"difference", "change", "retriever_a"} & {*row} else 0.0
    if not least - 1e-9 <= low <= high <= largest + 1e-9:
        yield f"the interval [{low}, {high}] of {metric or 'a mean'} is outside what it can be"
    for name in ("difference", "change", "mean", "value", "estimate"):
        value = row.get(name)
        if value is not None and not low - 1e-9 <= value <= high + 1e-9:
            yield f"{name} {value} is outside of its interval [{low}, {high}]"


def advices(text: str) -> list[str]:
    """Return the commands that a text advises, each once, as printed."""
    found = [*_IN_BACKTICKS.findall(text), *_TO_THE_END.findall(_IN_BACKTICKS.sub("", text))]
    return list(dict.fromkeys(one.rstrip(" .)") for one in found))


def page_advices(page: str) -> list[str]:
    """Return the commands that an HTML report advises, each once."""
    return list(dict.fromkeys(html.unescape(one) for one in _IN_CODE.findall(page)))


def advice_templates() -> dict[str, str]:
    """Return each advice that the package's source holds, with where it stands.

    What a program fills in is ``{}``. Docstrings, helps and descriptions advise nobody.
    """
    found: dict[str, str] = {}
    for file in sorted(PACKAGE.rglob("*")):
        place = file.relative_to(PACKAGE.parent).as_posix()
        if file.suffix == ".py" and "rag-assets" in (source := file.read_text(encoding="utf-8")):
            for text in _strings(ast.parse(source)):
                found |= {one: place for one in advices(text)}
        elif file.suffix in (".html", ".js"):
            page = file.read_text(encoding="utf-8")
            found |= {one: place for one in page_advices(page)}
    return found


def _strings(tree: ast.Module) -> Iterator[str]:
    left_out: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            left_out.add(id(node.value))
        elif isinstance(node, ast.keyword) and node.arg in ("help", "description"):
            left_out |= {id(one) for one in ast.walk(node.value)}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Command", "group"):
            left_out |= {id(one) for one in node.args}  # their help
        elif isinstance(node, ast.JoinedStr):
            left_out |= {id(one) for one in node.values}
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"\{\w+\}", "{}", node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield "".join(map(str, parts))


def is_of(advice: str, template: str) -> bool:
    """Return whether an advice was made of a template."""
    parts = (re.escape(part) for part in template.split("{}"))
    return re.fullmatch(".*?".join(parts), advice) is not None
