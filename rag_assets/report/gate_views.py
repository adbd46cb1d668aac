"""The result of a gate: for a terminal, as Markdown for a CI page, and as JUnit XML.

JUnit XML is what CI systems show as a list of tests: one test case says whether the evaluation is
complete, and one more each retriever whether it passes; the elements are those that JUnit's own Ant
task writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from rich.console import RenderableType

from rag_assets.plain_text import markdown
from rag_assets.report.drop_causes import Causes
from rag_assets.report.formats import Row, formatted, p_text
from rag_assets.report.gate import Gate
from rag_assets.report.gate_checks import CANNOT_TELL, FAIL, PASS, Answer, Check
from rag_assets.report.metric_choice import is_answerer
from rag_assets.report.metric_drops import Drop
from rag_assets.report.sheet import INTERVAL, P_VALUE, TEXT, Column, Sheet
from rag_assets.report.terminal_table import number_cell, sheet_view
from rag_assets.report.unjudged_newcomers import newcomer_lines
from rag_assets.statistics.repeated_looks import LOOKS, fewest_falls, look_level

_NUMBERS = ("n", "old", "new", "change", "low", "high")

_STYLES: dict[str, str] = {PASS: "green", FAIL: "bold red", CANNOT_TELL: "bold yellow"}

_WORDS: dict[Answer, str] = {PASS: "passed", FAIL: "FAILED", CANNOT_TELL: "cannot tell"}

QUESTIONS = 3
"""So many of the questions that lost most are told."""


def gate_sheet(gate: Gate) -> Sheet:
    """Return the checks, and below them why they come out so."""
    # The baseline is of the same evaluation, and not older.
    old, new = ("baseline", "value") if _baseline(gate) else ("old", "new")
    columns = (
        Column("answer", "result", TEXT, is_whole=True),
        Column("retriever", _noun(gate), TEXT),
        Column("old", old),
        Column("new", new),
        Column("change", "change", "+.4f", is_required=True),
        Column("interval", "interval", INTERVAL, bounds=("low", "high")),
        Column("p", "p", P_VALUE),
    )
    rows = [
        {
            "answer": check.answer,
            "retriever": check.retriever,
            **{name: getattr(check.drop, name, None) for name in _NUMBERS},
            "p": check.p_adjusted,
        }
        for check in gate.checks
    ]
    return Sheet(summary(gate), columns, rows, notes=[*_lines(gate)])


def gate_view(gate: Gate) -> RenderableType:
    """Return the table, and below it why it is so; answers are coloured."""
    sheet = gate_sheet(gate)
    title = {} if gate.passed else {sheet.title: _STYLES[gate.answer]}
    return sheet_view(sheet, {**_STYLES, **title})


def _baseline(gate: Gate) -> str | None:
    """Return the retriever that the others are compared with; None: each with itself, earlier."""
    return next((one.against for one in gate.checks if one.against != one.retriever), None)


def gate_markdown(gate: Gate) -> str:
    """Return the same as Markdown."""
    sheet = gate_sheet(gate)
    rows = [
        {column.title: column.text(row) or "-" for column in sheet.columns} for row in sheet.rows
    ]
    lines = "".join(f"- {markdown(' '.join(line.split()))}\n" for line in sheet.notes)
    return f"### {sheet.title}\n\n{formatted(rows, 'markdown')}" + (f"\n{lines}" if lines else "")


def gate_rows(gate: Gate) -> list[Row]:
    """Return one mapping a retriever, for CSV."""
    return [
        {
            _noun(gate): check.retriever,
            "against": check.against,
            "answer": check.answer,
            "reason": check.reason,
            **{name: getattr(check.drop, name, None) for name in _NUMBERS},
            "p_adjusted": check.p_adjusted,
            "more_questions": check.more_questions,
        }
        for check in gate.checks
    ]


def _noun(gate: Gate) -> str:
    return "answerer" if any(is_answerer(check.retriever) for check in gate.checks) else "retriever"


def summary(gate: Gate) -> str:
    """Return the result in one line."""
    split = "" if gate.split == "all" else f", split {gate.split}"
    other = _baseline(gate)
    against = f"baseline {other}" if other else gate.against
    return f"gate {_WORDS[gate.answer]}: {gate.experiment}, {gate.metric}{split} against {against}"


def _lines(gate: Gate) -> Iterator[str]:
    for text in gate.incomplete:
        yield f"incomplete: {text}"
    for answer, lead in ((FAIL, "failed"), (CANNOT_TELL, "cannot tell")):
        for check in gate.checks:
            if check.answer == answer:
                yield f"{lead}: {check.retriever}: {check.reason}"
                yield from cause_lines(check)
    yield _look_line(gate)
    for text in gate.notes:
        yield f"note: {text}"


def cause_lines(check: Check) -> Iterator[str]:
    """Yield which questions a retriever lost most on, by what, and the pages that nobody judged."""
    causes = check.causes
    if causes is None:
        return
    shown = "; ".join(
        f"{one.query_id} ({one.old:.4f} -> {one.new:.4f})" for one in causes.lost[:QUESTIONS]
    )
    more = causes.n_lost - len(causes.lost[:QUESTIONS])
    yield f"  {check.retriever} lost most on {shown}" + (f"; and {more} more" if more else "")
    won = causes.loss + check.drop.change if check.drop is not None else 0.0
    yield f"  {_parts(causes, won)}"
    for line in newcomer_lines(causes.newcomers, causes.n_newcomers):
        yield f"  {line}"


def _parts(causes: Causes, won: float) -> str:
    """Return how the loss is made up, and what other questions won."""
    rest = causes.loss - causes.unjudged
    elsewhere = f", and {won:.4f} was won on other questions" if won >= 0.00005 else ""
    whole = f"{causes.loss:.4f} of the mean was lost{elsewhere}: "
    if not causes.newcomers:
        return f"{whole}by {causes.rest}"
    return f"{whole}{causes.unjudged:.4f} to documents that nobody has judged, {rest:.4f} by " + (
        causes.rest
    )


def _look_line(gate: Gate) -> str:
    look = gate.look
    if look is None:
        nothing = all(check.drop is not None and check.drop.p is None for check in gate.checks)
        level = look_level(gate.rules.alpha)
        return "nothing changed, nothing was tested" if nothing else f"p must be below {level:g}"
    line = f"look {look.number} of {LOOKS} at {gate.against}: p must be below {look.level:g}, "
    line += f"so at least {fewest_falls(gate.rules.alpha)} questions must fall"
    return f"{line}; looked at before, not tested again" if look.repeated else line


COMPLETE = "complete"
"""The name of the first test case."""

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML 1.0 document may hold; reasons come from servers and may hold anything."""


class _Case(NamedTuple):
    """A test case: its element where it did not pass (``failure``, ``skipped``) with a message."""

    name: str
    element: str | None
    message: str
    output: str


def junit(gate: Gate, *, cannot_tell_fails: bool = False) -> str:
    """Return the document.

    Args:
        gate: the result.
        cannot_tell_fails: whether a retriever of which nobody can tell is a failure; else its test
            is skipped, with the reason.
    """
    cases = list(_cases(gate, "failure" if cannot_tell_fails else "skipped"))
    failed, skipped = (
        str(sum(case.element == element for case in cases)) for element in ("failure", "skipped")
    )
    counts = {"tests": str(len(cases)), "failures": failed, "errors": "0"}
    name = f"{gate.experiment} {gate.metric}"
    root = Element("testsuites", counts)
    suite = SubElement(root, "testsuite", {"name": name, **counts, "skipped": skipped})
    properties = SubElement(suite, "properties")
    for key in ("evaluation", "against", "split"):
        SubElement(properties, "property", {"name": key, "value": getattr(gate, key)})
    for case in cases:
        element = SubElement(suite, "testcase", {"classname": name, "name": case.name, "time": "0"})
        if case.element is not None:
            kind = {"type": "gate"} if case.element == "failure" else {}
            message = {"message": _clean(case.message), **kind}
            SubElement(element, case.element, message).text = _clean(case.message)
        if case.output:
            SubElement(element, "system-out").text = _clean(case.output)
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _cases(gate: Gate, unknown: str) -> Iterator[_Case]:
    incomplete = "; ".join(gate.incomplete)
    notes = "\n".join([_look_line(gate), *gate.notes])
    yield _Case(COMPLETE, "failure" if incomplete else None, incomplete, notes)
    elements: dict[Answer, str | None] = {PASS: None, FAIL: "failure", CANNOT_TELL: unknown}
    for check in gate.checks:
        element = elements[check.answer]
        yield _Case(check.retriever, element, check.reason or "", _output(check))


def _output(check: Check) -> str:
    lines = _drop_lines(check, check.drop) if check.drop is not None else ()
    return "\n".join([*lines, *cause_lines(check)])


def _drop_lines(check: Check, drop: Drop) -> Iterator[str]:
    against = "" if check.against == check.retriever else f" ({check.against})"
    old, new = number_cell(drop.old), number_cell(drop.new)
    yield f"old {old}{against}, new {new}, {drop.n} queries"
    p = p_text(check.p_adjusted)
    yield f"interval of the change: {drop.low} to {drop.high}; one-sided p: {p}"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("?", text)
