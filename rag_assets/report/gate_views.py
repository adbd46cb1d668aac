"""The result of a gate: for a terminal, as Markdown for a CI page, and as JUnit XML.

JUnit XML is what CI systems show as a list of tests: one test case says whether the evaluation is
complete, and one more each retriever whether it passes; the elements are those that JUnit's own Ant
task writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from rich.console import Group, RenderableType
from rich.text import Text

from rag_assets.plain_text import markdown
from rag_assets.report.formats import formatted, p_text
from rag_assets.report.gate import Check, Drop, Gate
from rag_assets.report.metric_choice import is_answerer
from rag_assets.report.terminal_table import FittedTable, number_cell, plain_cell

_COLUMNS = ("old", "new", "change", "interval", "p")


def gate_view(gate: Gate) -> RenderableType:
    """Return the table, and below it why it failed and what a pass does not say."""
    table = FittedTable(required=["change"])
    table.add_column("result", no_wrap=True)
    table.text_column(_noun(gate))
    for name in _COLUMNS:
        table.number_column(name)
    for check in gate.checks:
        style = "bold red" if check.failure else "green"
        table.add_row(
            Text(_word(check), style=style), plain_cell(check.retriever), *_numbers(check.drop)
        )
    title = Text(summary(gate), style="bold" if gate.passed else "bold red")
    return Group(title, table, *(plain_cell(line) for line in _lines(gate)))


def gate_markdown(gate: Gate) -> str:
    """Return the same as Markdown."""
    rows = [
        {
            "result": _word(check),
            _noun(gate): check.retriever,
            **dict(zip(_COLUMNS, _numbers(check.drop), strict=True)),
        }
        for check in gate.checks
    ]
    lines = "".join(f"- {markdown(' '.join(line.split()))}\n" for line in _lines(gate))
    return f"### {summary(gate)}\n\n{formatted(rows, 'markdown')}" + (f"\n{lines}" if lines else "")


def _noun(gate: Gate) -> str:
    return "answerer" if any(is_answerer(check.retriever) for check in gate.checks) else "retriever"


def summary(gate: Gate) -> str:
    """Return the result in one line."""
    split = "" if gate.split == "all" else f", split {gate.split}"
    word = "passed" if gate.passed else "FAILED"
    other = next((c.against for c in gate.checks if c.against != c.retriever), None)
    against = f"baseline {other}" if other else gate.against
    return f"gate {word}: {gate.experiment}, {gate.metric}{split} against {against}"


def _lines(gate: Gate) -> Iterator[str]:
    for text in gate.incomplete:
        yield f"incomplete: {text}"
    for check in gate.checks:
        if check.failure:
            yield f"failed: {check.retriever}: {check.failure}"
    for check in gate.checks:
        if check.warning:
            yield f"warning: {check.retriever}: {check.warning}"
    for text in gate.notes:
        yield f"note: {text}"


def _word(check: Check) -> str:
    return "fail" if check.failure else "pass"


def _numbers(drop: Drop | None) -> list[str]:
    if drop is None:
        return ["-"] * len(_COLUMNS)
    interval = "-" if drop.low is None else f"[{drop.low:.4f}, {drop.high:.4f}]"
    numbers = [number_cell(drop.old), number_cell(drop.new), f"{drop.change:+.4f}"]
    return [*numbers, interval, p_text(drop.p)]


COMPLETE = "complete"
"""The name of the first test case."""

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML 1.0 document may hold; reasons come from servers and may hold anything."""


def junit(gate: Gate) -> str:
    """Return the document."""
    cases = list(_cases(gate))
    failed = sum(failure is not None for _, failure, _ in cases)
    counts = {"tests": str(len(cases)), "failures": str(failed), "errors": "0"}
    name = f"{gate.experiment} {gate.metric}"
    root = Element("testsuites", counts)
    suite = SubElement(root, "testsuite", {"name": name, **counts, "skipped": "0"})
    properties = SubElement(suite, "properties")
    for key in ("evaluation", "against", "split"):
        SubElement(properties, "property", {"name": key, "value": getattr(gate, key)})
    for case, failure, output in cases:
        element = SubElement(suite, "testcase", {"classname": name, "name": case, "time": "0"})
        if failure is not None:
            problem = SubElement(element, "failure", {"message": _clean(failure), "type": "gate"})
            problem.text = _clean(failure)
        if output:
            SubElement(element, "system-out").text = _clean(output)
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _cases(gate: Gate) -> Iterator[tuple[str, str | None, str]]:
    """Yield name, failure and output."""
    yield COMPLETE, "; ".join(gate.incomplete) or None, "\n".join(gate.notes)
    for check in gate.checks:
        yield check.retriever, check.failure, _output(check)


def _output(check: Check) -> str:
    lines = []
    if check.drop is not None:
        drop = check.drop
        against = "" if check.against == check.retriever else f" ({check.against})"
        old, new = number_cell(drop.old), number_cell(drop.new)
        lines.append(f"old {old}{against}, new {new}, {drop.n} queries")
        lines.append(f"interval of the change: {drop.low} to {drop.high}; one-sided p: {drop.p}")
    if check.warning:
        lines.append(f"warning: {check.warning}")
    return "\n".join(lines)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("?", text)
