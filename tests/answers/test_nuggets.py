"""Nuggets: the track's scores, what supports one, the file, and the way into an evaluation."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rag_assets.analysis.answers import answer_sheets, answers_sheet
from rag_assets.analysis.result import EvaluationResult
from rag_assets.answers.cases import Evidence, Gold
from rag_assets.answers.metrics import METRICS
from rag_assets.answers.nuggets import FORMS, Nugget, nugget_score, read_nuggets
from rag_assets.answers.stage import answer_metrics, answer_metrics_key
from rag_assets.errors import ConfigError, DataError
from tests.answers.answering import with_answers
from tests.answers.made_answers import answer_table, context_table
from tests.tiny_experiment import Tiny

Supports = Sequence[tuple[bool, float]]


def track_scores(supports: Supports) -> dict[str, float]:
    """The scores of the track, each from its definition (arXiv:2411.09607, section on scoring)."""
    vital = [support for is_vital, support in supports if is_vital]
    okay = [support for is_vital, support in supports if not is_vital]
    every = vital + okay
    weight = len(vital) + 0.5 * len(okay)
    return {
        "v_strict": vital.count(1.0) / len(vital) if vital else 0.0,
        "v": sum(vital) / len(vital) if vital else 0.0,
        "a_strict": every.count(1.0) / len(every) if every else 0.0,
        "a": sum(every) / len(every) if every else 0.0,
        "w": (sum(vital) + 0.5 * sum(okay)) / weight if weight else 0.0,
    }


def test_scores_by_hand() -> None:
    """Vital: full, partial, not; okay: full, not. 1/3, 1.5/3, 2/5, 2.5/5, (1.5 + .5) / (3 + 1)."""
    supports = [(True, 1.0), (True, 0.5), (True, 0.0), (False, 1.0), (False, 0.0)]
    expected = {"v_strict": 1 / 3, "v": 0.5, "a_strict": 0.4, "a": 0.5, "w": 0.5}
    assert track_scores(supports) == pytest.approx(expected)
    for form, value in expected.items():
        assert nugget_score(supports, form) == pytest.approx(value)


def test_scores_are_those_of_the_track() -> None:
    drawn = random.Random(11)
    for _ in range(300):
        supports = [
            (drawn.random() < 0.5, drawn.choice([0.0, 0.5, 1.0])) for _ in range(drawn.randrange(8))
        ]
        scores = {form: nugget_score(supports, form) for form in FORMS}
        assert scores == pytest.approx(track_scores(supports))


def scored(answer: str | None, nuggets: Sequence[Nugget], **given: Any) -> dict[str, float | None]:
    """One question whose evidence is characters 0 to 9 (e1) and 20 to 29 (e2) of a document."""
    evidence = (Evidence("e1", "d", 0, 9), Evidence("e2", "d", 20, 29))
    units = [("A dog: 10.", "d", 0), ("By the sea", "d", 40)]
    answers = answer_table({"q": answer}, cited={"q": given.get("cited")})
    context = context_table({"q": units}) if given.get("context", True) else None
    gold = Gold("q", True, (), evidence, tuple(nuggets))
    names = [name for name in METRICS if METRICS[name].needs_nuggets]
    (row,) = answer_metrics(answers, [gold], context, names).select(names).to_pylist()
    return dict(row)


def test_spans_and_verdicts_support_nuggets() -> None:
    price, place = Nugget(True, "e1", {}), Nugget(False, "e2", {})
    row = scored("10 [1]", [price, place], cited=[1])
    assert (row["nugget_v_strict"], row["nugget_a_strict"], row["nugget_w"]) == (1.0, 0.5, 2 / 3)
    assert (row["context_nugget_v"], row["context_nugget_a"]) == (1.0, 0.5)
    # A verdict on the text comes before what it cites or holds.
    said = price._replace(verdicts={"10 [1]": 0.5, "A dog: 10.": 0.0})
    row = scored("10 [1]", [said, place], cited=[1])
    assert (row["nugget_v_strict"], row["nugget_v"], row["nugget_a"]) == (0.0, 0.5, 0.25)
    assert row["context_nugget_v"] == 0.0
    # Of a nugget without evidence nobody can tell, nor of one by an answer that cites nowhere.
    for nugget, cited in ((Nugget(True, None, {}), [1]), (price, None)):
        row = scored("10", [nugget], cited=cited)
        assert row["nugget_v_strict"] is None
        assert row["context_nugget_v_strict"] == (None if nugget.evidence_id is None else 1.0)
    known = Nugget(True, None, {"10": 1.0, "A dog: 10.": 0.5, "By the sea": 1.0})
    assert scored("10", [known])["nugget_v_strict"] == 1.0
    assert scored("10", [known])["context_nugget_v_strict"] == 1.0
    assert scored("10", [known], context=False)["context_nugget_v_strict"] is None
    # Failed: 0. No vital nugget: 0, as the track has it. No nugget at all: not defined.
    assert set(scored(None, [known]).values()) == {0.0}
    assert scored("10", [known._replace(vital=False)])["nugget_v"] == 0.0
    assert set(scored("10", []).values()) == {None}


NUGGET = {"query_id": "q1", "nugget_id": "n1", "text": "10 crowns", "vital": True}
VERDICT = {"query_id": "q1", "nugget_id": "n1", "judged": "10 crowns", "support": "full"}


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([{**NUGGET, "vital": "yes"}], "1: `vital`: is 'yes'; must be true or false"),
        ([{**NUGGET, "query_id": "q9"}], "1: `query_id`: unknown query 'q9'"),
        ([{**NUGGET, "evidence_id": "e9"}], "1: `evidence_id`: no label of this question has 'e9'"),
        ([NUGGET, NUGGET], "2: `nugget_id`: 'n1' is on a line above too"),
        ([VERDICT], "1: `nugget_id`: 'n1' is on no line above"),
        ([NUGGET, {**VERDICT, "support": "half"}], "2: `support`: is 'half'; must be full"),
        ([{"query_id": "q1", "nugget_id": "n1", "vital": True}], "1: `text`: is missing"),
    ],
)
def test_what_breaks_the_format_is_named(
    tmp_path: Path, rows: Sequence[Mapping[str, Any]], problem: str
) -> None:
    file = tmp_path / "nuggets.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_nuggets(file, {"q1": {"e1"}})
    assert f"{file}:{problem}" in str(caught.value)


def test_from_a_file_to_the_leaderboard(tmp_path: Path, computed: Tiny) -> None:
    """One nugget of two is in the answer to q1; whoever asks for them without a file is told."""
    answers = {"official": {"generator": "predicted"}}
    tiny = with_answers(Tiny(tmp_path).start_from(computed).write(), answers=answers)
    other = {**NUGGET, "nugget_id": "n2", "vital": True}
    tiny.run()
    said = {**VERDICT, "nugget_id": "n2"}
    tiny.write_rows("nuggets.jsonl", [NUGGET, VERDICT, other, said])
    measured = {"answer_metrics/official@-", "answer_summary", "answer_waterfall/official@-"}
    assert tiny.run() == measured
    tiny.write_rows("nuggets.jsonl", [NUGGET, VERDICT, other, {**said, "support": "partial"}])
    tiny.run()
    rows = {row["query_id"]: row for row in tiny.rows(answer_metrics_key("official@-"))}
    assert (rows["q1"]["nugget_v_strict"], rows["q1"]["nugget_v"]) == (0.5, 0.75)
    assert {rows[name]["nugget_v"] for name in ("q2", "q6")} == {None}
    sheet = answers_sheet(EvaluationResult(tiny.artifacts, tiny.snapshot()))
    assert sheet is not None
    assert "vital nuggets" in [column.title for column in sheet.visible]
    # Questions that a sample or people leave out may have nuggets, others not.
    tiny.write_rows("nuggets.jsonl", [{**NUGGET, "query_id": "q9"}])
    wrong = tiny.command("validate", ".", columns=400)
    assert "nuggets.jsonl:1: `query_id`: unknown query 'q9'" in wrong.stdout
    marked = {"query_id": "q2", "mark": "unclear", "by": "ada", "at": "2026-03-01T09:30:00Z"}
    tiny.write_rows("labelling.questions.jsonl", [marked])
    without_support = [{**NUGGET, "query_id": query_id} for query_id in ("q1", "q2", "q4")]
    tiny.write_rows("nuggets.jsonl", without_support)
    tiny.config["dataset"]["sample"] = {"queries": 3, "seed": 4}  # q1, q3, q6
    tiny.config["answer_metrics"] = {"metrics": ["context_nugget_v", "answer_f1"]}
    tiny.write_config()
    assert "0 errors" in tiny.command("validate", ".").stdout
    tiny.run()
    (sheet,) = answer_sheets(EvaluationResult(tiny.artifacts, tiny.snapshot()))
    assert sheet.notes == ["not defined for any question: context_nugget_v"]
    (tiny.folder / "nuggets.jsonl").unlink()
    tiny.config["answer_metrics"] = {"metrics": ["nugget_v_strict"]}
    tiny.write_config()
    with pytest.raises(ConfigError, match=r"experiment.yaml:\d+: `answer_metrics.metrics.0`: nug"):
        tiny.run()
