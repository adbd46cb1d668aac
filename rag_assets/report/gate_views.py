"""The result of a gate: for a terminal, as Markdown for a CI page, and as JUnit XML.

JUnit XML is what CI systems show as a list of tests: one test case says whether the evaluation is
complete, and one more each retriever whether it passes; the elements are those that JUnit's own Ant
task writes.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from rich.console import RenderableType

from rag_assets.plain_text import markdown
from rag_assets.report.formats import Row
from rag_assets.report.gate import (
    CANNOT_TELL,
    FAIL,
    PASS,
    Answer,
    Gate,
    cause_lines,
    gate_rows,
    gate_sheet,
    look_line,
)
from rag_assets.report.terminal_table import sheet_view

_STYLES: dict[str, str] = {PASS: "green", FAIL: "bold red", CANNOT_TELL: "bold yellow"}


def gate_view(gate: Gate) -> RenderableType:
    """Return the table, and below it why it is so; answers are coloured."""
    sheet = gate_sheet(gate)
    title = {} if gate.passed else {sheet.title: _STYLES[gate.answer]}
    return sheet_view(sheet, {**_STYLES, **title})


def gate_markdown(gate: Gate) -> str:
    """Return the same as Markdown."""
    sheet = gate_sheet(gate)
    lines = "".join(f"- {markdown(' '.join(line.split()))}\n" for line in sheet.notes)
    return f"### {sheet.title}\n\n{sheet.markdown()}" + (f"\n{lines}" if lines else "")


def gate_csv_rows(gate: Gate) -> list[Row]:
    """Return one mapping a retriever or answerer, for CSV."""
    return [
        {gate.subject if name == "retriever" else name: value for name, value in row.items()}
        for row in gate_rows(gate)
    ]


COMPLETE = "complete"
"""The name of the first test case."""

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML 1.0 document may hold; reasons come from servers and may hold anything."""


def junit(gate: Gate, *, cannot_tell_fails: bool = False) -> str:
    """Return the document.

    Args:
        gate: the result.
        cannot_tell_fails: whether a retriever of which nobody can tell is a failure; else its test
            is skipped, with the reason.
    """
    name = f"{gate.experiment} {gate.metric}"
    root = Element("testsuites")
    suite = SubElement(root, "testsuite", {"name": name})
    properties = SubElement(suite, "properties")
    for key in ("evaluation", "against", "split"):
        SubElement(properties, "property", {"name": key, "value": getattr(gate, key)})

    def case(title: str, element: str | None, message: str, output: str) -> None:
        added = SubElement(suite, "testcase", {"classname": name, "name": title, "time": "0"})
        if element is not None:
            kind = {"type": "gate"} if element == "failure" else {}
            SubElement(added, element, {"message": _clean(message), **kind}).text = _clean(message)
        if output:
            SubElement(added, "system-out").text = _clean(output)

    incomplete = "; ".join(gate.incomplete)
    notes = "\n".join([look_line(gate), *gate.notes])
    case(COMPLETE, "failure" if incomplete else None, incomplete, notes)
    unknown = "failure" if cannot_tell_fails else "skipped"
    elements: dict[Answer, str | None] = {PASS: None, FAIL: "failure", CANNOT_TELL: unknown}
    for check in gate.checks:
        output = "\n".join(cause_lines(check))
        case(check.retriever, elements[check.answer], check.reason or "", output)
    counts = {"tests": len(gate.checks) + 1, "failures": len(suite.findall("testcase/failure"))}
    for one in (root, suite):
        one.attrib.update({key: str(value) for key, value in counts.items()} | {"errors": "0"})
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("?", text)
