"""The result of a gate: as a table for a terminal of 80 columns, and as Markdown for a CI page."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from rag_assets.plain_text import markdown, one_line
from rag_assets.report.drops import Drop
from rag_assets.report.fitted_table import FittedTable
from rag_assets.report.formats import formatted
from rag_assets.report.gate import Check, Gate
from rag_assets.report.verdict import p_text

_COLUMNS = ("old", "new", "change", "interval", "p")


def gate_view(gate: Gate) -> RenderableType:
    """Return the table, and below it why it failed and what a pass does not say."""
    table = FittedTable(kept=["change"])
    table.add_column("result", no_wrap=True)
    table.add_column("retriever", overflow="fold")
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for check in gate.checks:
        style = "bold red" if check.failure else "green"
        table.add_row(
            Text(_word(check), style=style), _plain(check.retriever), *_numbers(check.drop)
        )
    title = Text(summary(gate), style="bold" if gate.passed else "bold red")
    return Group(title, table, *(_plain(line) for line in _lines(gate)))


def gate_markdown(gate: Gate) -> str:
    """Return the same as Markdown."""
    rows = [
        {
            "result": _word(check),
            "retriever": check.retriever,
            **dict(zip(_COLUMNS, _numbers(check.drop), strict=True)),
        }
        for check in gate.checks
    ]
    lines = "".join(f"- {markdown(' '.join(line.split()))}\n" for line in _lines(gate))
    return f"### {summary(gate)}\n\n{formatted(rows, 'markdown')}" + (f"\n{lines}" if lines else "")


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
    numbers = [f"{drop.old:.4f}", f"{drop.new:.4f}", f"{drop.change:+.4f}"]
    return [*numbers, interval, p_text(drop.p)]


def _plain(text: str) -> Text:
    """Escape what a terminal would obey; names and reasons come from files and servers."""
    return Text(one_line(text))
