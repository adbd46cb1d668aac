"""``rag-assets generate`` against a real server, from documents alone to a leaderboard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rag_assets.cli import main
from rag_assets.evaluation.metrics_stage import LEADERBOARD_KEY
from rag_assets.evaluation.query_facts import metadata_of
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.sources.labelled_folder import JsonlDataset
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.store.settings import StoreSettings
from tests.llm import server as replies
from tests.llm.server import Server, serving
from tests.made_tables import sheet_rows, write_sheet
from tests.tiny_experiment import DOCUMENTS, materialize

QUESTIONS = {
    "40 crowns": [("How much is a one-way trip for an adult?", "40 crowns"), ("Price?", "40")],
    "southern harbour": [("Until which wind is the south port open?", "25 metres")],
    "500 hours": [("How long until an engine gets fresh oil?", "500 hours")],
    "every Monday": [("On which weekday are vests looked after?", "Monday")],
    "carbon dioxide": [("What does the passage say of gas?", "")],
    "Passports": [("How much is a one-way trip for an adult ?", "")],
    "six thirty": [("When is the earliest departure of the day?", "at six thirty")],
}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(lambda text: "Nothing to ask?") as running:
        for mark, pairs in QUESTIONS.items():
            found = [{"question": question, "answer": answer} for question, answer in pairs]
            running.on(mark, replies.says(json.dumps(found)))
        running.on("life jacket for every", replies.refuses("No."))
        yield running


def llm_of(server: Server) -> dict[str, object]:
    return {"model": "tiny", "base_url": server.base_url, "api_key_env": None}


@pytest.fixture
def ferry(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAG_ASSETS_STORE", str(tmp_path / "store"))
    for name, text in DOCUMENTS.items():
        file = tmp_path / "ferry" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (tmp_path / "ferry" / "experiment.yaml").write_text(
        "chunking: {parts: {strategy: recursive, max_characters: 80, overlap: 0}}\n"
        "retrievers: {bm25: {type: bm25}}\n"
    )
    configure(tmp_path / "ferry", llm=llm_of(server))
    return tmp_path / "ferry"


def configure(ferry: Path, **blocks: object) -> None:
    """Add keys to the experiment, in place of those that were added before."""
    yaml = ferry / "experiment.yaml"
    lines = yaml.read_text().splitlines()[:2]
    lines += [f"{key}: {json.dumps(value)}" for key, value in blocks.items()]
    yaml.write_text("\n".join(lines) + "\n")


def invoke(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "80"}).invoke(main, ["generate", *map(str, arguments)])


def judged(sheet: Path, refused: str) -> None:
    rows = sheet_rows(sheet)
    for row in rows:
        row["keep"] = "no" if refused in row["question"] else "yes"
    rows[-1]["keep"] = ""
    write_sheet(sheet, rows)


def test_from_documents_to_metrics(ferry: Path, server: Server, tmp_path: Path) -> None:
    made = invoke("ferry", "--sheet", "review.csv", "--out", "all")
    assert made.exit_code == 0, made.output
    assert made.stdout.splitlines() == [
        "5 questions from 16 chunks; requests sent: 16",
        "  1 dropped: about_the_passage",
        "  1 dropped: near_duplicate",
        "  9 dropped: too_short",
        "  chunks without a question: 1 (the model refused: No.)",
        "written: review.csv, all",
    ]
    assert JsonlDataset.open(tmp_path / "all").read_queries().table.num_rows == 5
    judged(tmp_path / "review.csv", "weekday")
    done = invoke("ferry", "--import", "review.csv", "--out", "asked")
    assert done.exit_code == 0, done.output
    kept = "asked: 3 questions kept, 1 refused, 1 left out because `keep` is empty\n"
    assert done.stdout == kept
    pipeline = opened(tmp_path / "asked", tmp_path)
    materialize(pipeline)
    board = pipeline.artifact(LEADERBOARD_KEY).table().to_pylist()
    assert [(row["top_k"], row["n_queries"]) for row in board] == [(1, 3), (3, 3)]
    assert 0 < board[0]["recall"] <= board[1]["recall"]
    facts = pipeline.artifact(QUERY_FACTS_KEY).table().to_pylist()
    fields = metadata_of(pipeline.artifact(QUERIES_KEY).table())
    assert {row["query_id"]: row["cluster"] for row in facts} == {
        query_id: f"query.source_document:{one['source_document']}"
        for query_id, one in fields.items()
    }
    assert [row["answers"] for row in facts if "fares" in row["cluster"]] == [["40 crowns"]]


def test_what_a_server_did_not_answer_is_asked_again_and_nothing_is_written_before(
    ferry: Path, server: Server
) -> None:
    configure(ferry, llm={**llm_of(server), "retries": 0})
    again = replies.says('[{"question": "When is the first ferry on Sunday?", "answer": "at 8"}]')
    server.on("diesel", *[replies.error(429)] * 2, again)
    server.on("spare engine", replies.error(400))  # the same request will not succeed later
    for n_received in (16, 18):
        refused = invoke("ferry", "--sheet", "review.csv", "--out", "all")
        assert (refused.exit_code, refused.stdout, len(server.received)) == (3, "", n_received)
        assert "chunks without an answer: 1 (HTTP 429" in refused.stderr
        assert "error: chunks that the model has not answered: 1 of 16; nothing" in refused.stderr
        assert not Path("review.csv").exists()
        assert not Path("all").exists()
    for sheet, sent in (("review.csv", 2), ("later.csv", 1)):
        made = invoke("ferry", "--sheet", sheet).stdout
        assert made.startswith(f"6 questions from 16 chunks; requests sent: {sent}\n")
        assert "chunks without an answer: 1 (HTTP 400" in made
    assert len(server.received) == 21


def opened(dataset: Path, root: Path) -> Pipeline:
    yaml = dataset / "experiment.yaml"
    wanted = (
        "chunking: {parts: {strategy: recursive, max_characters: 80, overlap: 0}}\n"
        "retrievers: {bm25: {type: bm25, analyzer: english}}\ntop_k: [1, 3]\n"
    )
    yaml.write_text(f"{yaml.read_text()}{wanted}")
    experiment = load_experiment(dataset)
    assert (experiment.judge, experiment.statistics.cluster) == (
        "evidence",
        "query.source_document",
    )
    return Pipeline(experiment, StoreSettings.resolve(root / "store"))


def test_a_run_that_was_stopped_goes_on(ferry: Path, server: Server) -> None:
    llm = llm_of(server)
    configure(ferry, llm={**llm, "max_calls": 5})
    stopped = invoke("ferry", "--sheet", "review.csv")
    assert (stopped.exit_code, stopped.stdout) == (3, "")
    told = "(5 calls): of this step, 5 answers are stored and 11 are missing"
    assert f"max_calls 5 would be passed {told}" in stopped.stderr
    assert len(server.received) == 5
    assert not Path("review.csv").exists()
    configure(ferry, llm={**llm, **{"prompt_price": 1, "completion_price": 2}, "max_calls": 11})
    planned = invoke("ferry", "--dry-run")
    assert planned.stdout.startswith("11 requests to send, cost at most 0.0")
    assert planned.stdout.endswith("; 5 replies are in the cache\n")
    assert len(server.received) == 5
    whole = invoke("ferry", "--sheet", "review.csv")
    assert whole.exit_code == 0, whole.output
    assert "from 16 chunks; requests sent: 11\n" in whole.stdout
    # The one that the model refused is an answer as well.
    configure(ferry, llm={**llm, "max_calls": 0})
    again = invoke("ferry", "--sheet", "again.csv")
    assert again.exit_code == 0, again.output
    assert Path("again.csv").read_bytes() == Path("review.csv").read_bytes()


def test_a_dry_run_needs_no_key(ferry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    configure(ferry, llm={"model": "tiny"})
    planned = invoke("ferry", "--dry-run")
    assert (planned.exit_code, planned.stdout) == (
        0,
        "16 requests to send; 0 replies are in the cache\n",
    )
    unnamed = "llm: texts are sent to api.openai.com, which the experiment does not name"
    assert f"warning: {unnamed}" in planned.stderr
    assert "without a limit" in planned.stderr
    configure(ferry, llm={"model": "tiny", "max_calls": 9})
    assert "limit" not in invoke("ferry", "--dry-run").stderr
    assert "OPENAI_API_KEY is not set" in invoke("ferry", "--out", "x").stderr


def test_a_model_that_writes_several_answers_is_refused(ferry: Path, server: Server) -> None:
    """Only one of them would be read."""
    configure(ferry, llm={"type": "transformers", "model": "t5", "beams": 4, "sequences": 4})
    for options in (["--out", "x"], ["--dry-run"]):
        result = invoke("ferry", *options)
        assert result.exit_code == 2
        assert "`llm` writes 4 `sequences`, but `generate` reads one" in result.stderr
    assert not Path("x").exists()


def test_nothing_of_the_user_is_overwritten(ferry: Path, server: Server) -> None:
    Path("review.csv").write_text("three days of work")
    Path("asked").mkdir()
    Path("asked", "thesis.txt").write_text("more")
    for options in (("--sheet", "review.csv"), ("--out", "asked")):
        refused = invoke("ferry", *options)
        assert refused.exit_code == 2, refused.output
    assert not server.received
    assert Path("review.csv").read_text() == "three days of work"
    Path("review.csv").unlink()
    assert invoke("ferry", "--sheet", "review.csv").exit_code == 0
    nothing = invoke("ferry", "--import", "review.csv", "--out", "new")
    assert nothing.exit_code == 1
    assert "review.csv: no row has yes in the column `keep`; nothing is written" in nothing.stderr
    assert not Path("new").exists()


def test_several_chunkings_and_no_model(ferry: Path, server: Server) -> None:
    configure(ferry)
    for options in (["--dry-run"], ["--out", "x"]):
        result = invoke("ferry", *options)
        assert (result.exit_code, "add the key `llm`" in result.stderr) == (2, True)
    several = (
        "chunking: {a: {strategy: none}, b: {strategy: sentences}}\n"
        "retrievers: {bm25: {type: bm25, chunking: a}}\n"
    )
    (ferry / "experiment.yaml").write_text(several)
    result = invoke("ferry", "--out", "x")
    assert "has several chunkings; choose one of a, b (`questions: {chunking: a}`)" in result.stderr
    configure(ferry, questions={"chunking": "b"}, llm=llm_of(server))
    assert invoke("ferry", "--out", "x").exit_code == 0
