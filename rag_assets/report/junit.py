"""The result of a gate as JUnit XML, which CI systems show as a list of tests.

One test case says whether the evaluation is complete, and one more each retriever whether it
passes; the elements are those that JUnit's own Ant task writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from rag_assets.report.gate import Check, Gate

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
            own = SubElement(element, "failure", {"message": _clean(failure), "type": "gate"})
            own.text = _clean(failure)
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
        lines.append(f"old {drop.old:.4f}{against}, new {drop.new:.4f}, {drop.n} queries")
        lines.append(f"interval of the change: {drop.low} to {drop.high}; one-sided p: {drop.p}")
    if check.warning:
        lines.append(f"warning: {check.warning}")
    return "\n".join(lines)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("?", text)
