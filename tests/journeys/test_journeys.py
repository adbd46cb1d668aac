"""Journeys: from a folder to a decision, over all pairs of what can differ on the way."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import rag_assets
from tests.forked import Forks
from tests.journeys.checks import advice_templates, advices, is_of
from tests.journeys.folder import LAB, Row
from tests.journeys.pairs import combined, covered, covering_rows, stored_rows
from tests.journeys.travel import Journey, Processes, completed, follow

Travel = Callable[[Row], Journey]

ROWS = stored_rows()
ADVICES: dict[str, str] = json.loads(Path(__file__).with_name("advices.json").read_text("utf-8"))
"""Each command that a message advises -> the journey that meets it, or why none does."""

IN_PROCESSES = 16
"""Of so many journeys one runs as real processes: labels of a page, of a judge, and all of them."""


def walk(journey: Journey) -> None:
    """Evaluate, label, change, evaluate again, and do what follows."""
    folder = journey.folder
    journey.run("evaluate", LAB)
    if folder.row.store == "warm":
        journey.run("evaluate", LAB)
    if folder.is_labelled_on_page:
        journey.run("label", LAB, "--no-browser", person=folder.labels_on_page)
        journey.run("evaluate", LAB)
    folder.change(journey.run)
    journey.run("evaluate", LAB)
    follow(journey)


@pytest.mark.parametrize("row", ROWS, ids="-".join)
def test_journey(row: Row, travel: Travel, forks: Forks) -> None:
    journey = travel(row)
    if ROWS.index(row) % IN_PROCESSES == 12:
        journey.command = Processes(forks, journey.folder.root)
    walk(journey)
    for template, where in ADVICES.items():
        if where == "-".join(row):
            assert any(is_of(one, template) for one in journey.advised), template


@pytest.mark.parametrize(
    "row",
    [
        Row("complete", "bm25", "own", "answers", "10", "warm", "setting", "plan+leaderboard+gate"),
        Row(
            "complete", "chain", "chain", "more", "10", "empty", "setting", "compare+report+python"
        ),
        Row("drawn", "chain", "chain", "answers", "60", "other", "edited", "ask+history+dagster"),
    ],
    ids="-".join,
)
def test_answers_of_ones_own_go_all_the_way(row: Row, travel: Travel) -> None:
    """They are beside the array: it would be half as long again with them."""
    walk(travel(row))


def test_a_test_set_of_ragas_goes_all_the_way(travel: Travel) -> None:
    """Its questions, answers and passages are all that says what is right."""
    journey = travel(
        Row("samples", "bm25", "own", "more", "10", "warm", "setting", "plan+leaderboard+gate")
    )
    walk(journey)
    rows = rag_assets.leaderboard(journey.folder.path).leaderboard.to_pylist()
    assert {row["n_queries"] for row in rows} == {10}
    assert max(row["ndcg"] for row in rows) > 0.5


def test_the_gate_decides_by_a_drawn_sample(travel: Travel) -> None:
    """Nobody asks for it: half of the drawn passages are graded, before and after a change."""
    journey = travel(Row("drawn", "python", "none", "more", "10", "empty", "setting", "gate"))
    walk(journey)
    *_, first, last = (step for step in journey.steps if step.arguments[0] == "gate")
    assert "had no labels for sampled_dcg@3" in first.stderr
    assert "`rag-assets anchor PATH`" in first.stderr
    answers = {0: "passed", 1: "FAILED", 4: "cannot tell"}
    assert f"gate {answers[last.code]}: lab, sampled_dcg@3 against" in last.stdout
    assert "mine" in last.stdout


def test_a_sample_of_one_retriever_compares_nothing(travel: Travel) -> None:
    journey = travel(Row("drawn", "python", "none", "more", "10", "empty", "nothing", "status"))
    journey.folder.config["retrievers"].pop("plain")
    journey.folder.write_config()
    walk(journey)
    said = journey.run("compare", LAB, fails=True).stderr
    assert "has fewer than two retrievers with sampled_dcg@3" in said


def test_no_sheet_asks_about_a_question_that_was_marked(travel: Travel) -> None:
    journey = travel(Row("drawn", "bm25", "none", "more", "10", "empty", "marked", "pool"))
    walk(journey)
    journey.run("pool", LAB, "--sample", "50")


def explorer_of(journey: Journey) -> str:
    """Return the page with charts."""
    journey.run("report", LAB, "--explorer")
    folder = journey.folder.root / "data/store" / LAB
    return (folder / "explorer.html").read_text(encoding="utf-8")


def test_a_study_of_a_parameter(travel: Travel) -> None:
    """Grids of a chunking and of a retriever, then what a metric does over each parameter."""
    journey = travel(Row("complete", "bm25", "none", "more", "10", "empty", "nothing", "python"))
    config = journey.folder.config
    config["chunking"]["parts"]["max_tokens"] = [8, 16]
    config["retrievers"] = {"mine": {**config["retrievers"]["mine"], "k1": [0.4, 1.2]}}
    journey.folder.write_config()
    assert "mine-max_tokens-8-k1-0.4" in journey.run("evaluate", LAB).stdout
    page = explorer_of(journey)
    for number, parameter in enumerate(("chunking.max_tokens", "k1")):
        assert f"ndcg@3 over {parameter}" in page
        assert f'id="chart-study-{number}"' in page
    drawn = rag_assets.leaderboard(LAB).plot(over="k1").to_dict()["data"]
    assert [list(line["x"]) for line in drawn] == [[0.4, 1.2]] * 2


def test_quality_against_time(travel: Travel) -> None:
    """A change between two evaluations: what it did to the metric, and to the time of a query."""
    journey = travel(Row("complete", "bm25", "none", "more", "10", "empty", "setting", "history"))
    walk(journey)
    printed = journey.run("history", LAB, "--metric", "cost_time@3", "--format", "json").stdout
    rows = json.loads(printed)
    assert {row["retriever"] for row in rows} == {"mine", "plain"}
    assert all(row["value"] == row["cost_time"] > 0 for row in rows)
    board = json.loads(journey.run("leaderboard", LAB, "--format", "json").stdout)
    now = {row["retriever"]: row["cost_time"] for row in board if row["top_k"] == 3}
    assert {row["retriever"]: row["value"] for row in rows[-2:]} == now
    assert 'id="chart-history-costs"' in explorer_of(journey)
    assert len(rag_assets.history(LAB).plot(over="cost_time").data) == 3
    journey.run("gate", LAB, "--against", "previous", "--metric", "cost_time@3", fails=True)


def test_context_precision_without_labels(travel: Travel) -> None:
    """What a judge says alone is marked, in no gate, and what Ragas makes of the same verdicts."""
    journey = travel(Row("judge", "bm25", "none", "more", "10", "empty", "nothing", "python"))
    said = journey.run("evaluate", LAB).stdout
    assert "context_precision@3 by floor (words), 10 questions" in said
    assert "not calibrated with labels: the model's raw output, which no gate uses" in said
    verdicts, run = "verdicts.jsonl", "mine.trec"
    whose = ("--retriever", "mine")
    journey.run("judge", "export", LAB, "--judge", "floor", *whose, "--out", verdicts)
    journey.run("export-run", LAB, *whose, "--out", run)
    name = "llm_context_precision_without_reference@3"
    words = ("--run", run, "--qrels", verdicts, "--dialect", "ragas", "--metrics", name)
    scored = json.loads(journey.run("score", *words, "--format", "json").stdout)
    rows = {row["name"]: row for row in rag_assets.leaderboard(LAB).judged.to_pylist()}
    assert scored[name] == pytest.approx(rows["mine"]["judge"])
    assert rows["mine"]["calibrated"] is None
    journey.run("gate", LAB, "--metric", "context_precision@3", fails=True)


def test_answers_without_right_ones(travel: Travel) -> None:
    """Claims by a judge: marked and in no gate; then graded in a sheet, and calibrated."""
    journey = travel(Row("complete", "bm25", "file", "answers", "10", "empty", "nothing", "gate"))
    folder, kinds = journey.folder, ["groundedness", "answer_relevance"]
    folder.config["judges"] = {"floor": {"type": "words", "judges": ["grounded"]}}
    folder.write_config()
    assert "grounded" in journey.run("evaluate", LAB, fails=True).stderr
    folder.config["judges"]["floor"]["judges"] = kinds
    folder.write_config()
    journey.run("evaluate", LAB)
    board = journey.run("leaderboard", LAB, "--answers").stdout
    for kind in kinds:
        assert f"{kind} by floor (words), 10 questions" in board
        assert journey.run("gate", LAB, "--metric", kind, fails=True).code > 1
    assert "not calibrated with labels: the model's raw output, which no gate uses" in board
    sheet = folder.path / "claim_labels.csv"
    journey.run("judge", "sheet", LAB, "--claims", "--out", str(sheet))
    head, *rows = csv.reader(sheet.read_text(encoding="utf-8-sig").splitlines())
    with sheet.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *([*row[:-1], "1"] for row in rows)])
    journey.run("evaluate", LAB)
    rows_now = rag_assets.leaderboard(LAB).judged.to_pylist()
    found = {row["metric"]: row for row in rows_now if row["n_labels"]}
    assert found["answer_relevance"]["human"] == pytest.approx(1)
    assert found["groundedness"]["human"] == pytest.approx(0.5)
    assert found["groundedness"]["calibrated"] is not None
    assert "by the evidence in the context" in journey.run("attribution", LAB, "--answers").stdout
    evidence = rag_assets.leaderboard(LAB).evidence.to_pylist()
    names = ("n_complete", "n_partial", "n_none", "n_pairs")
    counts = [[row[name] for name in names] for row in evidence if row["metric"] == "answer_f1"]
    assert counts == [[10, 0, 0, 0]] * len(counts)


def test_floors(travel: Travel) -> None:
    """A wrong one is told; then they gate alone, and beside a drop."""
    journey = travel(Row("complete", "bm25", "file", "answers", "10", "empty", "nothing", "gate"))
    folder = journey.folder
    folder.config["floors"] = {"ndgc@3": 0.1}
    folder.write_config()
    assert "unknown metric 'ndgc@3'" in journey.run("evaluate", LAB, fails=True).stderr
    abstained = {"metric": "abstained", "of": ["read@3"]}
    folder.config["floors"] = [
        {"metric": "recall@3", "at_least": 0.1},
        {**abstained, "at_most": 0.9},
    ]
    folder.write_config()
    journey.run("evaluate", LAB)
    assert "gate passed: lab, floors" in journey.run("gate", LAB).stdout
    folder.config["floors"] = [{**abstained, "at_least": 0.9}]
    folder.write_config()
    assert "0 partitions computed" in journey.run("evaluate", LAB).stdout
    for form in ("table", "json", "markdown", "csv"):
        assert journey.run("gate", LAB, "--against", "previous", "--format", form).code == 1
    assert journey.run("gate", LAB, "--format", "json").code == 1
    unreadable = ("--at-least", "ndcg@77=0.1")
    failed = journey.run("gate", LAB, *unreadable)
    assert (failed.code, "failed: read@3: abstained >= 0.9" in failed.stdout) == (1, True)
    assert "the floor ndcg@77 >= 0.1 cannot be read" in failed.stdout
    folder.config["floors"] = []
    folder.write_config()
    refused = journey.run("gate", LAB, *unreadable, fails=True)
    assert "the floor ndcg@77 >= 0.1 cannot be read" in refused.stderr


def test_nuggets(travel: Travel) -> None:
    """A wrong line is told; then half of the answers support their nugget, and a gate reads it."""
    journey = travel(Row("complete", "bm25", "file", "answers", "10", "empty", "nothing", "gate"))
    folder, nugget = journey.folder, {"nugget_id": "n", "text": "what is asked", "vital": True}
    answers = json.loads((folder.path / "answers.json").read_text(encoding="utf-8"))
    said = {name: "not" if text == "nobody knows" else "full" for name, text in answers.items()}
    nuggets = [{**nugget, "query_id": name} for name in answers]
    verdicts = [
        {"query_id": name, "nugget_id": "n", "judged": text, "support": said[name]}
        for name, text in answers.items()
    ]
    folder._write_lines("nuggets.jsonl", [{**nugget, "query_id": "nobody"}])
    wrong = journey.run("evaluate", LAB, fails=True)
    assert "lab/nuggets.jsonl:1: `query_id`: unknown query 'nobody'" in wrong.stderr
    folder._write_lines("nuggets.jsonl", [*nuggets, *verdicts])
    journey.run("evaluate", LAB)
    board = journey.run("leaderboard", LAB, "--answers", "--format", "json").stdout
    assert {row["nugget_v_strict"] for row in json.loads(board)} == {0.5}
    journey.run("evaluate", LAB)
    whose = ("--answerer", "read@3", "--metric", "nugget_w")
    assert "nugget_w" in journey.run("gate", LAB, "--against", "previous", *whose).stdout


def test_a_search_in_use(travel: Travel) -> None:
    """A wrong line of its log is told; then clicks stand beside the labels, and change no mean."""
    journey = travel(Row("complete", "bm25", "none", "more", "10", "empty", "nothing", "report"))
    folder = journey.folder
    journey.run("evaluate", LAB)
    before = journey.run("leaderboard", LAB, "--format", "json").stdout
    journey.run("interleave", LAB, "mine", "plain", "--top-k", "2", "--out", "lists.jsonl")
    lists = Path("lists.jsonl").read_text(encoding="utf-8").splitlines()
    log = [{**json.loads(line), "query_id": f"s{n}"} for n, line in enumerate(lists)]
    shown = [{"query_id": f"c{n}", "query_attributes": {"retriever": "mine"}} for n in range(6)]
    results = {"query_response_hit_ids": ["a", "b"], "timestamp": "2026-03-02T09:30:00Z"}
    clicks = [
        {
            "action_name": "click",
            "query_id": search["query_id"],
            "event_attributes": {"object": {"object_id": search["query_response_hit_ids"][0]}},
        }
        for search in log
    ]
    searches = [{**results, **row} for row in (*log, *shown)]
    folder.config["online"] = {"clicks": "clicks.jsonl"}
    folder.write_config()
    folder._write_lines("clicks.jsonl", [{**searches[0], "timestamp": "soon"}])
    wrong = journey.run("evaluate", LAB, fails=True)
    assert "lab/clicks.jsonl:1: `timestamp`: is 'soon'" in wrong.stderr
    folder._write_lines("clicks.jsonl", [*searches, *clicks])
    journey.run("evaluate", LAB)
    online = json.loads(journey.run("leaderboard", LAB, "--online", "--format", "json").stdout)
    assert [row["ctr"] for row in online if row.get("retriever") == "mine" and "period" not in row]
    board = json.loads(journey.run("leaderboard", LAB, "--format", "json").stdout)
    means = [(row["retriever"], row["top_k"], row["ndcg"]) for row in board]
    assert means == [(r["retriever"], r["top_k"], r["ndcg"]) for r in json.loads(before)]
    journey.run("gate", LAB, "--against", "previous")
    assert "What users did" in explorer_of(journey)


def test_what_answers_cost_and_what_people_say_of_them(travel: Travel) -> None:
    """Votes and money beside the means, over time too; neither is a metric that a gate reads."""
    journey = travel(
        Row("complete", "bm25", "llm", "more", "10", "empty", "nothing", "leaderboard")
    )
    folder = journey.folder
    folder.config["llms"]["small"] |= {"prompt_price": 1.0, "completion_price": 2.0}
    folder.config["metrics"] = [*folder.config["metrics"], "idcg@3", "tn@3"]
    folder.config["online"] = {"feedback": "feedback.jsonl"}
    folder.write_config()
    vote = {"query_id": folder.asked[0].query_id, "answer": "read@3", "at": "2026-03-02"}
    folder._write_lines("feedback.jsonl", [{**vote, "vote": "maybe", "user": "ada"}])
    assert "lab/feedback.jsonl:1: `vote`" in journey.run("evaluate", LAB, fails=True).stderr
    votes = [
        {**vote, "vote": said, "user": user} for said, user in (("up", "ada"), ("down", "bob"))
    ]
    folder._write_lines("feedback.jsonl", votes)
    journey.run("evaluate", LAB)
    answers = json.loads(journey.run("leaderboard", LAB, "--answers", "--format", "json").stdout)
    (row,) = (row for row in answers if (row["answerer"], row["top_k"]) == ("read", 3))
    assert min(row["answer_tokens"], row["answer_cost"], row["answer_seconds"]) > 0
    for name in ("answer_length", "answer_tokens", "answer_cost", "answer_seconds"):
        over_time = journey.run("history", LAB, "--metric", name, "--format", "json").stdout
        assert row[name] in [one["value"] for one in json.loads(over_time)]
    journey.run("gate", LAB, "--against", "previous", "--metric", "answer_cost", fails=True)
    online = json.loads(journey.run("leaderboard", LAB, "--online", "--format", "json").stdout)
    assert [row["up"] for row in online if row.get("on") == "answer"] == [0.5]
    board = json.loads(journey.run("leaderboard", LAB, "--format", "json").stdout)
    at_three = [row for row in board if row["top_k"] == 3]
    assert all(row["idcg"] >= row["ndcg"] and row["tn"] > 0 for row in at_three)


def test_queries_as_people_mistype_them(travel: Travel) -> None:
    """A sample of the questions, each beside itself with typos: who falls, and by how much."""
    journey = travel(Row("complete", "bm25", "none", "more", "60", "empty", "label", "python"))
    config = journey.folder.config
    config["dataset"] = {**config.get("dataset", {}), "sample": {"queries": 20, "seed": 1}}
    config["query_sets"] = {"hurried": {"strategy": "perturb", "kinds": ["typo", "missing_word"]}}
    config["retrievers"]["rushed"] = {**config["retrievers"]["mine"], "query_set": "hurried"}
    journey.folder.write_config()
    assert "a sample of 20 queries (seed 1)" in journey.run("evaluate", LAB).stdout
    board = journey.run("leaderboard", LAB).stdout
    assert "on perturbed queries minus on the original ones" in board
    assert "missing_word" in board
    assert "mine" in rag_assets.leaderboard(LAB).to_arrow()["retriever"].to_pylist()
    config["dataset"]["sample"]["queries"] = 30
    journey.folder.write_config()
    assert "a sample of 30 queries (seed 1)" in journey.run("evaluate", LAB).stdout
    journey.run("diff", LAB, "previous", "latest", "--intersection")


def test_from_documents_alone(travel: Travel) -> None:
    """A folder of documents: everything that is advised on the way to a first evaluation works."""
    journey = travel(Row("none", "bm25", "none", "more", "10", "empty", "nothing", "evaluate"))
    queries = (journey.folder.path / "queries.jsonl").read_text(encoding="utf-8")
    for name in ("experiment.yaml", "queries.jsonl", "answers.json", "search.py"):
        (journey.folder.path / name).unlink()
    journey.run("status", at_once=False)
    journey.run("evaluate", LAB, fails=True, at_once=False)
    _, init, ask, _ = journey.advised  # the third one has a model write questions, and needs one
    journey.follow_advice(ask)
    written = journey.run(*completed(init), at_once=False)
    ask, evaluate = advices(f"{written.stdout}\n{written.stderr}")
    journey.follow_advice(ask)
    journey.run(*completed(evaluate), fails=True, at_once=False)  # the examples are still there
    (journey.folder.path / "queries.jsonl").write_text(queries, encoding="utf-8")
    journey.run("status")
    journey.follow_advice(evaluate)
    for template, where in ADVICES.items():
        if where == "from documents alone":
            assert any(is_of(one, template) for one in journey.advised), template


def test_every_advice_of_the_package_is_met() -> None:
    """Each is run by a journey that is named in advices.json, or it is said why not."""
    assert ADVICES.keys() == advice_templates().keys()
    places = {*map("-".join, ROWS), "from documents alone"}
    for template, where in ADVICES.items():
        assert where in places or where.startswith("elsewhere: "), template


def test_the_journeys_cover_all_pairs() -> None:
    assert {pair for row in ROWS for pair in covered(row, 2)} >= combined(2)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(40))
def test_triples(part: int, travel: Travel) -> None:
    for row in covering_rows(3)[part::40]:
        walk(travel(row))
