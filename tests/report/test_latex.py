"""LaTeX: what is bold, which letters are raised, and that a TeX sets it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.evaluation.metric_names import best_value, is_gain
from rag_assets.report.formats import formatted, latex_text
from rag_assets.report.paper_tables import score_table
from rag_assets.report.sheet import TEXT, Column, Sheet, metric_column

VALUES: dict[str, dict[str, float | None]] = {
    "BM25+RM3": {"ndcg@10": 0.5, "map": 0.25},
    "sys_A & 100%": {"ndcg@10": 0.41, "map": 0.25001},
    "c": {"ndcg@10": None, "map": 0.1},
}
BETTER = {"BM25+RM3": {"map": ["c"], "ndcg@10": ["sys_A & 100%"]}, "sys_A & 100%": {"map": ["c"]}}
CAPTION = r"Runs of 5 $ & more_ \ {x} ~ ^ # < > | -- \"q\""


def body(text: str) -> list[str]:
    """Return the lines between the second and the third rule."""
    return text.split("\\hline\n")[2].splitlines()


def test_best_values_are_bold_and_letters_name_the_rows_that_are_beaten() -> None:
    table = score_table(VALUES, ["ndcg@10", "map"], BETTER, "Two")
    assert table.startswith("\\begin{table}\n\\centering\n\\caption{Two}\n\\begin{tabular}{llrr}\n")
    assert body(table) == [
        r"\textit{a} & BM25+RM3 & \textbf{0.5000}$^{b}$ & \textbf{0.2500}$^{c}$ \\",
        r"\textit{b} & sys\_A \& 100\% & 0.4100 & \textbf{0.2500}$^{c}$ \\",
        r"\textit{c} & c & -- & 0.1000 \\",
    ]


def test_more_rows_than_letters_are_numbered() -> None:
    values: dict[str, dict[str, float | None]] = {
        f"run{number}": {"m": number / 100} for number in range(30)
    }
    lines = body(score_table(values, ["m"], {"run29": {"m": ["run0", "run11"]}}, ""))
    assert lines[29] == r"\textit{30} & run29 & \textbf{0.2900}$^{1,12}$ \\"


def test_rows_of_any_table() -> None:
    rows: list[dict[str, object]] = [{"pair": "a_b", "p_t": 0.0, "n": 3}, {"pair": None, "n": 4}]
    table = formatted(rows, "latex")
    assert "\\begin{tabular}{lrr}" in table
    assert "\\caption" not in table
    assert body(table) == [r"a\_b & \textless{}1e-300 & 3 \\", r" &  & 4 \\"]


def test_a_p_value_is_never_shown_as_0() -> None:
    rows: list[dict[str, object]] = [{"p_randomisation": 0.00001, "p_t": 0.0, "difference": 0.0}]
    assert formatted(rows, "markdown").splitlines()[2] == r"| 1.0e-05 | \<1e-300 | 0.0000 |"


@given(st.text())
def test_no_text_leaves_its_cell(text: str) -> None:
    shown = latex_text(text)
    commands = re.sub(r"\\(text\w+\{\}|[{}$&#%_])", "", shown).replace("{}", "")
    assert not set(commands) & set("\\{}$&#%_^~")
    assert "\n" not in shown
    assert "--" not in shown


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no pdflatex")
def test_tex_sets_it(tmp_path: Path) -> None:
    (tmp_path / "table.tex").write_text(score_table(VALUES, ["ndcg@10", "map"], BETTER, CAPTION))
    (tmp_path / "rows.tex").write_text(formatted([{"pair": CAPTION, "p_t": 0.03}], "latex"))
    page = r"\documentclass{article}\begin{document}\input{table}\input{rows}\end{document}"
    (tmp_path / "page.tex").write_text(page)
    # A draft: whether fonts for a PDF are installed is not the table's concern.
    command = ["pdflatex", "-draftmode", "-interaction=nonstopmode", "-halt-on-error", "page"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "! " not in done.stdout


def test_the_lowest_is_best_where_mistakes_are_counted_on_every_face() -> None:
    values: dict[str, dict[str, float | None]] = {"a": {"fp": 2.0}, "b": {"fp": 1.0}, "c": {}}
    lines = body(score_table(values, ["fp"], {}, ""))
    assert [r"\textbf" in line for line in lines] == [False, True, False]
    column = metric_column("fp")
    sheet = Sheet("", (Column("name", "name", TEXT), column), list(values.values()))
    assert [sheet.is_best(column, row) for row in sheet.rows] == [False, True, False]
    assert best_value("recall", [0.1, None, 0.2]) == 0.2
    assert best_value("fp", [None]) is None
    assert (is_gain("fp(rel=2)@5", -1), is_gain("recall@5", -1)) == (True, False)
