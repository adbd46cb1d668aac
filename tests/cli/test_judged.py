"""Calibrated verdicts on every face: from a sheet of labels to leaderboard, gate and history."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import Result

from rag_assets.pipeline.warehouse import rebuild
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.report.html import render
from tests.cli.conftest import Invoke, parsed
from tests.judges.judged_experiment import (
    N,
    answers_of,
    fair,
    is_right,
    judge,
    label,
    likes_fancy,
    with_judged,
)
from tests.made_tables import sheet_rows, write_sheet
from tests.tiny_experiment import Tiny

EQUAL = answers_of({"plain": 0.6, "fancy": 0.6})


def again(tiny: Tiny) -> None:
    tiny.run()
    tiny.snapshot()


@pytest.fixture(scope="module")
def liked(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Equal answers, of which some are labelled, and a judge that likes fancy."""
    tiny = with_judged(Tiny(tmp_path_factory.mktemp("judged") / "tiny").write(), EQUAL)
    judge(tiny, EQUAL, likes_fancy)
    label(tiny, EQUAL)
    again(tiny)
    return tiny


@pytest.fixture(scope="module")
def tiny(liked: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Evaluated once more, by a fair judge."""
    tiny = liked.copy_to(tmp_path_factory.mktemp("fair") / "tiny")
    judge(tiny, EQUAL, fair)
    again(tiny)
    return tiny


@pytest.fixture(scope="module")
def run(tiny: Tiny, invoke: Invoke) -> Invoke:
    return runner(tiny, invoke)


def runner(tiny: Tiny, invoke: Invoke) -> Invoke:
    def command(name: str, *arguments: object) -> Result:
        return invoke(*name.split(), tiny.folder, *arguments, "--store", tiny.root / "store")

    return command


def test_without_labels_no_verdict_is_shown(liked: Tiny, tmp_path: Path, invoke: Invoke) -> None:
    tiny = liked.copy_to(tmp_path / "tiny")
    (tiny.folder / "answer_labels.jsonl").unlink()
    again(tiny)
    run = runner(tiny, invoke)
    shown = " ".join(run("leaderboard", "--answers").stdout.split())
    assert "judge strict: no labels of people, so its verdicts are not used" in shown
    rows = parsed(run("leaderboard", "--answers", "--format", "json"))
    assert not any("judged" in name for row in rows for name in row)
    gate = run("gate", "--metric", "judged_correct", "--against", "latest")
    assert gate.exit_code == 0, gate.output  # equal answers: nothing has to be known of them
    refused = run("compare", "--metric", "judged_correct")
    assert refused.exit_code != 0
    floor = ("--at-least", "judged_correct=0", "--cannot-tell", "pass", "--against", "latest")
    floored = run("gate", *floor)
    assert (floored.exit_code, floored.stdout) == (2, "")
    said = "the floor judged_correct >= 0 cannot be read: it is not calibrated: "
    assert said in " ".join(floored.stderr.split())
    assert "no calibrated judged_correct:strict" in refused.stderr
    page = render(EvaluationTable.current(tiny.artifacts))
    assert "no labels of people, so its verdicts are not used" in page


def test_a_repeated_sheet_of_answers_adds_nothing(
    liked: Tiny, tmp_path: Path, invoke: Invoke
) -> None:
    tiny, sheet = liked.copy_to(tmp_path / "tiny"), tmp_path / "sheet.csv"
    (tiny.folder / "answer_labels.jsonl").unlink()
    run = runner(tiny, invoke)
    run("judge sheet", "--questions", 3, "--out", sheet)
    rows = [{**row, "correct": "?"} for row in sheet_rows(sheet)]
    for by, word, n in (("a", "?", 6), ("a", "?", 0), ("b", "?", 6), ("b", "no", 5)):
        write_sheet(sheet, [*rows[:1], *({**row, "correct": word} for row in rows[1:])])
        said = run("judge import", sheet, "--by", by).stderr
        assert said.startswith(f"{n} labels added")
        assert f"; {6 - n} were there already; 0" in said


def test_answerers_are_compared_by_calibrated_verdicts(run: Invoke) -> None:
    (pair,) = parsed(run("compare", "--metric", "judged_correct", "--format", "json"))
    assert (pair["name_a"], pair["name_b"], pair["by"]) == ("plain@-", "fancy@-", "strict")
    swapped = ("compare", "fancy@-", "plain@-", "--metric", "judged_correct:strict")
    (row,) = parsed(run(*swapped, "--format", "json"))
    assert row["calibrated"] == pytest.approx(-pair["calibrated"])
    assert "no difference shown between fancy@- and plain@-" in run(*swapped).stdout
    assert "unknown judge 'kind'" in run("compare", "--metric", "judged_correct:kind").stderr
    assert run("leaderboard", "--by", "tag", "--metric", "judged_correct:strict").exit_code != 0


def test_floors_of_calibrated_verdicts(run: Invoke) -> None:
    rows = parsed(run("leaderboard", "--answers", "--format", "json"))
    means = {f"{row['answerer']}@-": row["judged_correct:strict"] for row in rows}
    lows = {f"{row['answerer']}@-": row["judged_correct:strict_low"] for row in rows}
    passed = run("gate", "--at-least", "judged_correct=0.3", "--bound", "--format", "json")
    floors = parsed(passed)["floors"]
    assert {floor["name"]: floor["value"] for floor in floors} == pytest.approx(means)
    assert {floor["name"]: floor["low"] for floor in floors} == pytest.approx(lows)
    assert run("gate", "--at-most", "judged_correct=0.3").exit_code == 1


def test_a_swapped_judge_is_no_regression(run: Invoke) -> None:
    gate = run("gate", "--metric", "judged_correct", "--against", "previous", "--max-drop", 0)
    assert gate.exit_code == 0, gate.output
    told = "strict is another judge now; old is new less the change of the answers, not what"
    assert told in " ".join(gate.stdout.split())


def test_the_history_tells_values_and_judges(run: Invoke, tiny: Tiny) -> None:
    rows = parsed(run("history", "--metric", "judged_correct", "--format", "json"))
    assert [row["answerer"] for row in rows] == ["fancy@-", "plain@-"] * 2
    with duckdb.connect(str(rebuild(tiny.settings)), read_only=True) as connection:
        counts = "SELECT count(*), count(DISTINCT fingerprint), min(n_labels) FROM history_judged"
        found = connection.sql(counts).fetchall()
    assert found == [(4, 2, 80)]


@pytest.fixture(scope="module")
def worse(liked: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Fancy's answers got worse, and its judge likes them."""
    tiny = liked.copy_to(tmp_path_factory.mktemp("worse") / "tiny")
    drawn = answers_of({"plain": 0.6, "fancy": 0.25}, seed=3)
    with_judged(tiny, {**drawn, "plain": EQUAL["plain"]})
    judge(tiny, {**drawn, "plain": EQUAL["plain"]}, likes_fancy)
    again(tiny)
    return tiny


def test_a_gate_needs_the_labels_of_answers_that_changed(worse: Tiny, invoke: Invoke) -> None:
    run = runner(worse, invoke)
    gate = ("gate", "--metric", "judged_correct", "--against")
    refused = run(*gate, "previous")
    assert refused.exit_code == 4
    assert "fancy@-: judged_correct:strict is not calibrated:" in refused.stdout
    rows = parsed(run("leaderboard", "--answers", "--format", "json"))
    methods = {row["answerer"]: row["judged_correct:strict_method"] for row in rows}
    assert methods["fancy"] == "Rogan-Gladen, labels of another time"
    assert methods["plain"].startswith("PPI++")
    assert "as if the judge made" in " ".join(run("leaderboard", "--answers").stdout.split())
    passed = run(*gate, "previous", "--answerer", "plain@-")
    assert passed.exit_code == 0, passed.output
    new = answers_of({"plain": 0.6, "fancy": 0.25}, seed=3)
    label(worse, {**EQUAL, "fancier": new["fancy"]})
    again(worse)
    first = parsed(run("history", "--metric", "judged_correct", "--format", "json"))[0]
    failed = run(*gate, first["evaluation_id"], "--format", "json")
    assert failed.exit_code == 1
    by_name = {check["retriever"]: check for check in json.loads(failed.stdout)["checks"]}
    assert by_name["plain@-"]["answer"] == "pass"
    assert by_name["fancy@-"]["answer"] == "fail"
    assert "dropped by" in by_name["fancy@-"]["reason"]
    drop = by_name["fancy@-"]["drop"]
    assert drop["high"] < 0 < drop["detectable"]
    assert drop["new"] - drop["old"] == pytest.approx(drop["change"])
    truth = sum(map(is_right, new["fancy"].values())) / N
    before = sum(map(is_right, EQUAL["fancy"].values())) / N
    assert drop["low"] < truth - before < drop["high"]


def board(run: Any) -> list[dict[str, Any]]:
    rows = json.loads(run("leaderboard", "--format", "json").stdout)
    return [{**row, "evaluation_id": None, "started": None} for row in rows]


def test_from_a_sheet_of_passages_to_a_calibrated_ndcg(tmp_path: Path, invoke: Invoke) -> None:
    tiny = Tiny(tmp_path).write()
    tiny.config["judges"] = {"floor": {"type": "words", "depth": 5}}
    tiny.write_config()
    again(tiny)
    run = runner(tiny, invoke)
    before = board(run)
    assert "judge floor: no labels of people" in run("leaderboard").stdout
    sheet = tmp_path / "passages.csv"
    said = run("judge sheet", "--passages", "--questions", 4, "--out", sheet)
    assert "passages of 4 drawn questions to label" in said.stderr
    rows = sheet_rows(sheet)
    for row in rows:
        row["grade"] = "3" if "crowns" in row["text"] or "foam" in row["text"] else "0"
    write_sheet(sheet, rows)
    next_command = shlex.split(said.stderr.strip().rpartition("filled in: rag-assets ")[2])
    named = ["--store", str(tiny.root / "store"), str(tiny.folder)]
    assert next_command == ["judge", "import", *named, str(sheet)]
    added = invoke(*next_command)
    assert f"{len(rows)} labels added" in added.stderr, added.output
    told = tiny.folder / "passage_labels.jsonl"
    repeated = f"0 labels added to {told}; {len(rows)} were there already; 0 rows still empty"
    assert repeated in invoke(*next_command).stderr
    again(tiny)
    assert "ndcg@5 by floor, 6 questions" in run("leaderboard").stdout
    assert board(run) == before  # holes stay unjudged there
    table = EvaluationTable.current(tiny.artifacts).judged.to_pylist()
    names = ("context_precision@5", "hit_rate@5", "mrr@5", "ndcg@5")
    assert {(row["metric"], row["n_labels"]) for row in table} == {(name, 4) for name in names}
    assert "ndcg@5 by floor" in render(EvaluationTable.current(tiny.artifacts))
    assert "0 passages of 4" in run("judge sheet", "--passages", "--questions", 4).stderr
    told.write_text(told.read_text().replace('"digest":"', '"digest":"of another text ', 1))
    again(tiny)
    assert "1 passages of 4" in run("judge sheet", "--passages", "--questions", 4).stderr
    table = EvaluationTable.current(tiny.artifacts).judged.to_pylist()
    assert min(row["n_labels"] for row in table) == 3
