"""A sample of labels on every face, beside complete labels and never mixed with them."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from rag_assets.labels.experiment_pool import sampled_pool
from rag_assets.labels.logs import design_file, marks_file, read_judgments
from rag_assets.labels.sampling.estimates import Estimator
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.sources.formats import LABELLING_LOG
from tests.cli.conftest import Invoke, parsed, two_searches
from tests.labels.sampling.made_pool import DCG
from tests.made_tables import sheet_rows, write_sheet
from tests.tiny_experiment import JUDGMENTS, QUERIES, Tiny

METRIC = DCG._replace(cutoff=5)
RELEVANT = {(row["query_id"], row["doc_id"]) for row in JUDGMENTS}


def evaluated(tiny: Tiny) -> None:
    tiny.run()
    tiny.snapshot()


def judge(
    tiny: Tiny, invoke: Invoke, n: int, relevant: Collection[tuple[str, str]] = RELEVANT
) -> None:
    """Fill in a sheet of the next passages: grade 1 where a document is relevant."""
    store, sheet = tiny.settings.store, tiny.root / "sheet.csv"
    out = invoke("pool", tiny.folder, "--sample", n, "--out", sheet, "--store", store)
    assert out.exit_code == 0, out.output
    rows = sheet_rows(sheet)
    for row in rows:
        row["grade"] = str(int((row["query_id"], row["document_id"]) in relevant))
    write_sheet(sheet, rows)
    read = invoke("pool", tiny.folder, "--import", sheet, "--by", "ada")
    assert read.exit_code == 0, read.output


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, unlabelled: Tiny, invoke: Invoke) -> Tiny:
    """Evaluated without labels, with 12 labels of a sample, and with 6 more."""
    tiny = unlabelled.copy_to(tmp_path_factory.mktemp("sampled") / "tiny")
    for n in (12, 6):
        judge(tiny, invoke, n)
        evaluated(tiny)
    return tiny


@pytest.fixture(scope="module")
def run(tiny: Tiny, invoke: Invoke) -> Invoke:
    return lambda name, *rest: invoke(name, tiny.folder, *rest, "--store", tiny.settings.store)


def estimator(tiny: Tiny) -> Estimator:
    """Return the estimates of the page, which reads log and design themselves."""
    settings = tiny.settings
    sampled = sampled_pool(Pipeline(open_experiment(tiny.folder, settings), settings), 5)
    return Estimator(sampled.sample(sampled.lines()), METRIC)


def test_the_leaderboard_is_what_the_page_says(tiny: Tiny, run: Invoke) -> None:
    rows = {
        row["retriever"]: row
        for row in parsed(run("leaderboard", "--format", "json"))
        if row["metric"] == "dcg@5"
    }
    of_items, of_questions = (estimator(tiny).estimates(one) for one in ("items", "questions"))
    for name, row in rows.items():
        assert row["value"] == pytest.approx(of_items[name].value, abs=1e-12)
        assert row["items_low"] == pytest.approx(of_items[name].low)
        assert row["questions_high"] == pytest.approx(of_questions[name].high)
        assert row["effective_labels"] == pytest.approx(of_items[name].effective_labels)
        assert row["questions_high"] - row["questions_low"] >= row["items_high"] - row["items_low"]
    assert set(parsed(run("label", "--status", "--format", "json"))["targets"].values()) == {
        "these questions and this pool",
        "questions like these",
    }


def test_status_and_evaluation_say_the_same(run: Invoke) -> None:
    status = parsed(run("label", "--status", "--format", "json"))
    board = parsed(run("leaderboard", "--format", "json"))
    names = ("value", "items_low", "questions_low", "n_labels", "highest")
    assert len(status["estimates"]) == 6
    for one, other in zip(status["estimates"], board, strict=True):
        assert (one["metric"], one["retriever"]) == (other["metric"], other["retriever"])
        assert [one[name] for name in names] == pytest.approx([other[name] for name in names])


def test_grades_of_a_sample_are_not_said_to_be_missing(tiny: Tiny, run: Invoke) -> None:
    """Those of a question that is left out count nowhere."""
    said = "labels: there are grades of a sample ({}), not yet of all of it"
    assert said.format(18) in " ".join(run("validate").output.split())
    ids = [line.query_id for line in read_judgments(tiny.folder / LABELLING_LOG)]
    marks, n = marks_file(tiny.folder / LABELLING_LOG), len(ids) - ids.count(ids[0])
    marks.write_text(json.dumps({"query_id": ids[0], "mark": "unclear"}), encoding="utf-8")
    validated, status = run("validate"), parsed(run("label", "--status", "--format", "json"))
    marks.unlink()
    assert said.format(n) in " ".join(validated.output.split())
    assert status["sources"] == {"person": status["n_judged"]} == {"person": n}


def test_pairs_are_compared(tiny: Tiny, run: Invoke) -> None:
    (row,) = parsed(run("compare", "--metric", "sampled_dcg@5", "--format", "json"))
    want = estimator(tiny).differences("questions", pairs=[("okapi", "bm25")])["okapi", "bm25"]
    assert (row["name_a"], row["name_b"]) == ("bm25", "okapi")
    assert row["difference"] == pytest.approx(want.value)
    assert row["questions_low"] == pytest.approx(want.low)
    board = parsed(run("leaderboard", "--format", "json"))
    values = {one["retriever"]: one["value"] for one in board if one["metric"] == "dcg@5"}
    assert row["difference"] == pytest.approx(values["okapi"] - values["bm25"])
    assert "okapi - bm25" in run("compare", "bm25", "okapi", "--metric", "sampled_dcg").stdout


@pytest.mark.parametrize("metric", ["ndcg@5", "recall@5", "mrr@5", "map@5"])
def test_ratios_are_refused_in_one_line(run: Invoke, metric: str) -> None:
    for command in (["compare"], ["gate", "--against", "previous"], ["history"]):
        refused = run(*command, "--metric", f"sampled_{metric}")
        assert refused.exit_code == 2, refused.output
        assert "judge whole questions for it" in refused.stderr.replace("\n", " ")
        assert "Traceback" not in refused.stderr


def test_what_needs_a_value_of_each_question_refuses(run: Invoke) -> None:
    for command in (["leaderboard", "--by", "tag"], ["diff", "previous", "latest"]):
        refused = run(*command, "--metric", "sampled_dcg@5")
        assert refused.exit_code == 2, refused.output
        assert "over all questions together" in " ".join(refused.stderr.split())


def test_floors_of_estimates(run: Invoke) -> None:
    rows = parsed(run("leaderboard", "--format", "json"))
    values = {row["retriever"]: row["value"] for row in rows if row["metric"] == "dcg@5"}
    gated = run("gate", "--at-least", f"sampled_dcg={min(values.values())!r}", "--format", "json")
    floors = parsed(gated)["floors"]
    assert {floor["name"]: floor["value"] for floor in floors} == pytest.approx(values)
    assert run("gate", "--at-least", "sampled_dcg@5=99").exit_code == 1
    for metric, problem in (
        ("sampled_ndcg", "judge whole questions for it"),
        ("sampled_dcg@50", "is deeper than the sample"),
        ("dcg@5", "had grades of only 18 of the 31 passages of its sample when it was evaluated"),
    ):
        refused = run("gate", "--at-least", f"{metric}=0")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert problem in " ".join(refused.stderr.split())
    assert (
        "--split does not apply"
        in run("gate", "--at-least", "sampled_dcg=0", "--split", "test").stderr
    )


def test_the_gate_compares_by_the_newer_sample(
    unlabelled: Tiny, tmp_path: Path, invoke: Invoke
) -> None:
    """Both evaluations are estimated by one sample, as two retrievers of one would be."""
    tiny = unlabelled.copy_to(tmp_path / "tiny")
    gate = ("gate", tiny.folder, "--store", tiny.settings.store, "--against")
    judge(tiny, invoke, 12)
    evaluated(tiny)
    refused = invoke(*gate, "previous")
    assert (refused.exit_code, refused.stdout) == (2, "")
    said = " ".join(refused.stderr.split())
    assert "had no labels for sampled_dcg@5; `rag-assets anchor --store " in said
    assert said.endswith(" PATH` pins one that has")
    assert invoke("anchor", tiny.folder, "--store", tiny.settings.store).exit_code == 0
    same = parsed(invoke(*gate, "anchor", "--format", "json"))
    assert (same["answer"], same["metric"], same["split"]) == ("pass", "sampled_dcg@5", "all")
    assert {check["drop"]["change"] for check in same["checks"]} == {0.0}
    assert same["look"] is None
    assert "--split does not apply" in invoke(*gate, "anchor", "--split", "test").stderr
    first = dict(tiny.config["retrievers"]["bm25"])
    tiny.configure("bm25", analyzer="whitespace")
    tiny.config["retrievers"]["before"] = first  # what the gate remembers, as a retriever of now
    tiny.write_config()
    evaluated(tiny)
    judge(tiny, invoke, 4)
    evaluated(tiny)
    asked = invoke(*gate, "anchor", "--format", "json")
    other = json.loads(asked.stdout)
    assert (asked.exit_code, other["answer"], other["look"]["number"]) == (4, "cannot tell", 1)
    by_name = {check["retriever"]: check["drop"] for check in other["checks"]}
    assert by_name["okapi"]["change"] == 0.0
    want = estimator(tiny).differences("questions", pairs=[("bm25", "before")])["bm25", "before"]
    values = {name: one.value for name, one in estimator(tiny).estimates().items()}
    drop = by_name["bm25"]
    assert (drop["old"], drop["new"]) == pytest.approx((values["before"], values["bm25"]))
    assert (drop["change"], drop["low"], drop["high"]) == pytest.approx(
        (want.value, want.low, want.high)
    )
    assert drop["p"] == pytest.approx(stats.t(want.freedom).cdf(want.value / want.error))
    assert "before is new, so there is nothing to compare it with" in other["notes"]
    assert json.loads(invoke(*gate, "anchor", "--format", "json").stdout)["look"]["repeated"]
    tiny.write_rows("queries.jsonl", QUERIES[1:])
    evaluated(tiny)
    assert "1 labelled query removed" in invoke(*gate, "anchor").stderr
    rest = json.loads(invoke(*gate, "anchor", "--intersection", "--format", "json").stdout)
    assert {check["drop"]["n"] for check in rest["checks"]} == {5}


def test_the_gate_of_a_sample_fails_once_the_sample_shows_it(
    tmp_path: Path, invoke: Invoke
) -> None:
    """A search that finds another page for each question fails when these were drawn as well.

    Before, it is said why nothing can be told, and what to do.
    """
    tiny = Tiny(tmp_path / "tiny")
    for name in [f"p{number}" for number in range(40)]:
        tiny.write_document(f"{name}.md", f"Page {name}.\n")
    tiny.write_rows(
        "queries.jsonl", [{"query_id": f"q{n}", "text": f"What of {n}"} for n in range(40)]
    )
    tiny.config = {
        "name": "tiny",
        "dataset": {"format": "markdown", "judge": "document"},
        "retrievers": {"mine": {"type": "run_file", "path": "mine.trec"}},
        "top_k": [1],
        "metrics": ["precision"],
        "primary": "precision@1",
    }
    tiny.write_config()

    def find(shift: int) -> None:
        lines = [f"q{n} Q0 p{(n + shift) % 40}.md 1 1 x" for n in range(40)]
        (tiny.folder / "mine.trec").write_text("\n".join(lines) + "\n", encoding="utf-8")
        evaluated(tiny)

    relevant = {(f"q{n}", f"p{n}.md") for n in range(40)}
    store = ("--store", tiny.settings.store)

    def told(against: str, code: int) -> str:
        outcome = invoke("gate", tiny.folder, *store, "--against", against)
        assert outcome.exit_code == code, outcome.output
        return " ".join(outcome.stdout.split())

    find(0)
    judge(tiny, invoke, 30, relevant)
    evaluated(tiny)
    assert invoke("anchor", tiny.folder, *store).exit_code == 0
    find(1)
    assert "four times as many) look 1 of 20" in told("anchor", 4)
    find(0)
    undrawn = told("previous", 4)
    assert (
        "mine: of what it returned then, the sample never had 40 passages; `rag-assets " in undrawn
    )
    assert "p must be below 0.0025" in undrawn
    assert "nothing changed" in told("anchor", 0)
    find(1)
    judge(tiny, invoke, 30, relevant)
    evaluated(tiny)
    assert "gate FAILED: tiny, sampled_precision@1 against" in told("anchor", 1)
    (tiny.folder / "mine.trec").write_text("q0 Q0 p0.md 1 1 x\n", encoding="utf-8")
    evaluated(tiny)
    assert "mine: broken: it returns nothing for 39 questions that had hits" in told("anchor", 1)


def test_a_failed_query_is_in_no_compared_estimate(tmp_path: Path, invoke: Invoke) -> None:
    """Of two equal searches one fails on half of the questions: it is no worse on the others."""
    tiny = Tiny(tmp_path / "tiny")
    for n in range(40):
        tiny.write_document(f"p{n}.md", f"Page {n}.\n")
    queries = [{"query_id": f"q{n}", "text": f"What of {n}"} for n in range(40)]
    tiny.write_rows("queries.jsonl", queries)
    hits = [{"query_id": f"q{n}", "retrieved_ids": [f"p{n}.md"]} for n in range(40)]
    failed = [{"query_id": f"q{n}", "error": "timeout"} for n in range(20)]
    tiny.write_rows("whole.jsonl", hits)
    tiny.write_rows("half.jsonl", [*failed, *hits[20:]])
    tiny.config = {
        "name": "tiny",
        "dataset": {"format": "markdown", "judge": "document"},
        "retrievers": {n: {"type": "run_file", "path": f"{n}.jsonl"} for n in ("whole", "half")},
        "top_k": [1],
        "metrics": ["precision"],
        "primary": "precision@1",
    }
    tiny.write_config()
    evaluated(tiny)
    judge(tiny, invoke, 30, {(f"q{n}", f"p{n}.md") for n in range(40)})
    evaluated(tiny)
    store = ("--store", tiny.settings.store)
    compared = ("compare", tiny.folder, *store, "--metric", "sampled_precision@1")
    (row,) = parsed(invoke(*compared, "--format", "json"))
    bounds = (row["questions_low"], row["questions_high"])
    assert (row["difference"], *bounds, row["n"]) == (0.0, 0.0, 0.0, 20)
    shown = " ".join(invoke("leaderboard", tiny.folder, *store).stdout.split())
    assert "half failed on 20 questions, which count 0 here; `rag-assets compare" in shown
    floor = ("--at-least", "sampled_precision@1=0.5", "--format", "json")
    floors = parsed(invoke("gate", tiny.folder, *store, *floor))["floors"]
    assert {one["name"]: one["value"] > 0.8 for one in floors} == {"whole": True, "half": True}
    gated = invoke("gate", tiny.folder, *store, "--against", "latest", "--format", "json")
    assert [check["answer"] for check in parsed(gated)["checks"]] == ["pass", "pass"]


def test_the_history_has_each_estimate(tiny: Tiny, run: Invoke) -> None:
    by_id: dict[str, dict[str, float]] = {}
    for row in parsed(run("history", "--metric", "sampled_dcg@5", "--format", "json")):
        if row["retriever"] is not None:
            by_id.setdefault(row["evaluation_id"], {})[row["retriever"]] = row["value"]
    assert len(by_id) == 2
    now = {name: one.value for name, one in estimator(tiny).estimates().items()}
    assert list(by_id.values())[-1] == pytest.approx(now)


def test_a_new_judgment_makes_exactly_the_estimates_stale(computed: Tiny, tmp_path: Path) -> None:
    tiny = two_searches(tmp_path, computed, labels=True)
    before = board_of(tiny)
    sampled_pool(tiny.pipeline(), 5)
    log = tiny.folder / LABELLING_LOG
    log.write_text("", encoding="utf-8")
    evaluated(tiny)
    judged = {"query_id": "q1", "document_id": "fares.md", "start": 0, "end": 20}
    line = {**judged, "grade": 1, "status": "judged", "probability": 0.5}
    log.write_text(json.dumps(line) + "\n", encoding="utf-8")
    assert tiny.run() == {"sampled_labels", "sampled_estimates"}
    tiny.snapshot()
    assert len(read_judgments(log)) == 1
    assert board_of(tiny) == before


def board_of(tiny: Tiny) -> list[dict[str, Any]]:
    rows = EvaluationTable.current(tiny.settings.store / "tiny").leaderboard.to_pylist()
    timed = ("seconds", "ms")
    return [{n: v for n, v in row.items() if not any(t in n for t in timed)} for row in rows]


def test_a_sheet_of_a_sample_is_never_taken_for_complete_labels(
    unlabelled: Tiny, tmp_path: Path, invoke: Invoke
) -> None:
    tiny = unlabelled.copy_to(tmp_path / "tiny")
    judge(tiny, invoke, 3)
    assert not (tiny.folder / "judgments.jsonl").exists()
    lines = read_judgments(tiny.folder / LABELLING_LOG)
    assert [(line.by, line.was_drawn) for line in lines] == [("ada", True)] * 3
    sheet = tiny.root / "sheet.csv"
    again = invoke("pool", tiny.folder, "--import", sheet)
    assert "0 judgments added" in again.stderr.replace("\n", " ")
    text = sheet.read_text(encoding="utf-8")
    sheet.write_text(text.rsplit(",", 1)[0] + ",9\r\n", encoding="utf-8")
    refused = invoke("pool", tiny.folder, "--import", sheet)
    assert refused.exit_code == 1
    assert "sheet.csv:8: `grade`: is '9'" in refused.stderr.replace("\n", "")
    assert read_judgments(tiny.folder / LABELLING_LOG) == lines
    design_file(tiny.folder / LABELLING_LOG).unlink()
    lost = invoke("pool", tiny.folder, "--import", sheet)
    assert lost.exit_code == 2
    assert "is a sheet of a sample" in lost.stderr.replace("\n", " ")


def test_options_that_do_not_belong_together(tiny: Tiny, tmp_path: Path, invoke: Invoke) -> None:
    store = ("--store", tiny.settings.store)
    sheet = tmp_path / "complete.csv"
    assert invoke("pool", tiny.folder, "--depth", 5, "--out", sheet, *store).exit_code == 0
    wrong = {
        ("pool", tiny.folder, "--import", sheet, "--by", "ada"): "is only for --import",
        ("pool", tiny.folder, "--import", sheet, "--sample", 3): "cannot be combined with --import",
        ("label", tiny.folder, "--format", "json", *store): "is only for --status",
        ("label", tiny.folder, "--status", "--port", 80, *store): "opens no page",
        ("label", tiny.folder, "--status", "--depth", 99, *store): "deeper than the runs",
    }
    for command, said in wrong.items():
        refused = invoke(*command)
        assert refused.exit_code == 2, refused.output
        assert said in " ".join(refused.stderr.split())


def test_without_complete_labels_the_estimates_are_used_unasked(tiny: Tiny, run: Invoke) -> None:
    names = {row["metric"] for row in parsed(run("compare", "--format", "json"))}
    assert names == {"sampled_dcg@5"}
    answered = {line.item[:3] for line in read_judgments(tiny.folder / LABELLING_LOG)}
    sheet = csv.DictReader(run("pool", "--depth", 5).stdout.splitlines())
    rest = {(row["query_id"], row["document_id"], int(row["start"])) for row in sheet}
    assert rest
    assert not answered & rest


def test_a_pool_that_is_graded_whole_is_complete_labels(
    unlabelled: Tiny, tmp_path: Path, invoke: Invoke
) -> None:
    tiny = unlabelled.copy_to(tmp_path / "tiny")
    judge(tiny, invoke, 1000)
    store = ("--store", tiny.settings.store)
    for words in (("label", "--status"), ("pool",), ("pool", "--sample", 9)):
        before = invoke(words[0], tiny.folder, *words[1:], *store)
        assert before.exit_code == 0, before.output
        assert "0 rows to judge" in before.output or words[0] == "label"
    evaluated(tiny)
    rows = parsed(invoke("leaderboard", tiny.folder, "--format", "json", *store))
    values = {row["retriever"]: row["dcg"] for row in rows if row.get("top_k") == 5}
    exact = estimator(tiny).estimates("items")
    n_relevant = len(
        {line.item[0] for line in read_judgments(tiny.folder / LABELLING_LOG) if line.grade}
    )
    assert values.keys() == exact.keys()
    for name, value in values.items():
        assert value == pytest.approx(exact[name].value * 6 / n_relevant)
        assert exact[name].low == exact[name].high
    assert invoke("gate", tiny.folder, "--against", "latest", *store).exit_code == 0
    assert "0 rows to judge" in invoke("pool", tiny.folder, *store).output
    assert "estimated from a sample" not in invoke("leaderboard", tiny.folder, *store).output
