"""Every table and command of docs/answers.md is executed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rag_assets.answers.answer_text import VERSION, cited_units
from rag_assets.answers.metrics import METRICS
from rag_assets.answers.prediction_files import read_answers
from rag_assets.answers.waterfall_stage import CLASSES, RIGHT_F1, STAGES, UNKNOWN, WITH
from rag_assets.evaluation.dialects.squad_v2_official import official_scores
from tests.answers.made_answers import Place, one_question
from tests.walked_page import DOCS, walk

PAGE = (DOCS / "answers.md").read_text(encoding="utf-8")


def table(first: str) -> list[list[str]]:
    """The cells of the table whose head begins with ``first``."""
    found = re.search(rf"^\| {re.escape(first)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.M)
    assert found is not None
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found[1].splitlines()]


def number(cell: str) -> float | None:
    return float(cell) if cell else None


def test_the_metrics_are_those_of_the_registry() -> None:
    rows = [[f"`{m.name}`", m.description, m.formula] for m in METRICS.values()]
    assert table("metric") == rows


@pytest.mark.parametrize("row", table("gold answers"), ids=lambda row: "/".join(row[:2]))
def test_edge_cases(row: list[str]) -> None:
    gold, text, em, f1, abstained, script, _ = row
    answerable = gold != "unanswerable"
    golds = json.loads(gold.strip("`")) if gold.startswith("`") else []
    answer = None if text == "failed" else json.loads(text.strip("`"))
    values = one_question(answer, golds, answerable=answerable)
    assert values["answer_em"] == number(em)
    assert values["answer_f1"] == pytest.approx(number(f1), abs=1e-6)
    assert values["abstained"] == number(abstained)
    given = {} if answer is None else {"q": answer}
    scores = official_scores({"q": tuple(golds)}, given).per_question
    assert scores.get("q", (None,))[0] == (None if script == "-" else number(script))


def test_the_script_and_ours_differ_only_where_the_page_says_so() -> None:
    differ = [row[1] for row in table("gold answers") if row[2] != row[5]]
    assert differ == ['`"I don\'t know."`', "failed", "failed", '`"France"`']


@pytest.mark.parametrize("row", table("the answer cites"), ids=lambda row: row[0])
def test_citations(row: list[str]) -> None:
    text = row[0].strip("`")
    units = [("x" * 10, "d", start) for start in range(0, 50, 10)]
    evidence: list[Place] = [("second", "d", 10, 20), ("fourth", "d", 30, 40)]
    cited = cited_units(text)
    values = one_question(f"x {text}", ["x"], evidence=evidence, context=units, cited=cited)
    names = ("evidence_cited_precision", "evidence_cited_recall", "evidence_cited")
    found = [values[name] for name in names]
    assert found == pytest.approx([float(cell) for cell in row[1:4]], abs=1e-6)


def test_the_lines_of_a_file(tmp_path: Path) -> None:
    (block,) = re.findall(r'^```\n(\{"query_id".*?)```', PAGE, re.M | re.S)
    path = tmp_path / "answers.jsonl"
    path.write_text(block, encoding="utf-8")
    assert [row.get("answer") for row in read_answers(path).values()] == ["40 crowns [2]", "", None]
    keys = {key for line in block.splitlines() for key in json.loads(line)}
    assert keys | {"abstained"} == {row[0].strip("`") for row in table("key")}


def test_every_class_and_stage_is_named() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE))
    lost = [name for name in CLASSES if name.startswith(("wrong_", "refused_"))]
    own = [name for name in CLASSES if name not in lost]
    assert set(STAGES) | {name for name in lost if name.endswith((WITH, UNKNOWN))} <= named
    assert set(own) <= named
    assert f"`answer_f1` is above {RIGHT_F1}" in PAGE
    assert f"The list has a version, now {VERSION}." in PAGE


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(walk("answers.md", tmp_path)) == 1
