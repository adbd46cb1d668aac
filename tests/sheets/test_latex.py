"""Sheets as LaTeX."""

from __future__ import annotations

from rag_assets.sheets.sheet import SIGNED, TEXT, Column, Sheet, sheets_latex

HOSTILE = 'a_b & 50 % {\\input{x}} $x^2$ ~#<>|"\n\\\\'


def test_nothing_in_a_text_is_a_command() -> None:
    text = sheets_latex([Sheet(HOSTILE, (Column("x", HOSTILE, TEXT),), [{"x": HOSTILE}])])
    escaped = (
        r"a\_b \& 50 \% \{\textbackslash{}input\{x\}\} \$x\textasciicircum{}2\$ "
        r"\textasciitilde{}\#\textless{}\textgreater{}\textbar{}\textquotedbl{}"
    )
    assert text.count(escaped) == 3
    assert "input{x}" not in text.replace("input\\{x\\}", "")


def test_the_best_follows_the_direction_and_signs_are_signs() -> None:
    columns = (
        Column("name", "name", TEXT),
        Column("good", "good", better="more"),
        Column("bad", "bad", better="less"),
        Column("change", "change", SIGNED, bounds=("low", "high"), interval="95 % interval"),
    )
    rows = [
        {"name": "a", "good": 0.5, "bad": 2.0, "change": -0.25, "low": -0.5, "high": 0.00001},
        {"name": "b", "good": 0.25, "bad": 1.0, "change": None, "low": None, "high": None},
    ]
    lines = sheets_latex([Sheet("", columns, rows)]).splitlines()
    assert r"\begin{tabular}{lrrrr}" in lines
    assert r"a & \textbf{0.5000} & 2.0000 & $-$0.2500 & {}[$-$0.5000, 0.0000] \\" in lines
    assert r"b & 0.2500 & \textbf{1.0000} & -- & -- \\" in lines
    assert not any("caption" in line for line in lines)
