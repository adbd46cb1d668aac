"""Chunks that are found by several texts, from the files to the runs."""

from __future__ import annotations

import hashlib
import html
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rag_assets.analysis.findings import incomplete_parts
from rag_assets.analysis.result import EvaluationResult
from rag_assets.chunking.stage import chunks_key, index_texts_key
from rag_assets.cli import main
from rag_assets.errors import DataError
from rag_assets.evaluation.contexts_stage import chunking_contexts, retriever_contexts_key
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.experiment.hosts import circular_uses
from rag_assets.judges.base import RELEVANCE
from rag_assets.judges.verdicts_stage import verdicts_key
from rag_assets.pipeline.forgetting import to_forget
from rag_assets.pipeline.plan import Plan
from rag_assets.retrieval.runs_stage import run_key
from tests.llm.server import Server, error, says
from tests.pipeline.test_forgetting import contents
from tests.tiny_experiment import DOCUMENTS, Tiny, planned

BM25_OPTIONS = {"type": "bm25", "analyzer": "english"}
SECRET = b"Secret one?"
SPANS = {
    "fares.md": [(0, 49, ["cost of the ferry"]), (50, 130, ["dog on board", "child for free"])],
    "lost.md": [(0, 200, ["found a passport", "winter coat left on the last ferry"])],
}
"""Questions that somebody wrote of spans."""


def with_texts(tiny: Tiny, texts: list[Any], **retrievers: Any) -> Tiny:
    tiny.config["chunking"]["parts"]["index_texts"] = texts
    tiny.config["retrievers"] = {"bm25": {**BM25_OPTIONS, "chunking": "parts"}, **retrievers}
    tiny.config |= {"top_k": [1, 3, 100], "primary": "ndcg@3"}
    return tiny.write()


def write_questions(tiny: Tiny) -> None:
    rows = [
        {"document_id": name, "start": start, "end": end, "texts": texts}
        for name, spans in SPANS.items()
        for start, end, texts in spans
    ]
    tiny.folder.mkdir(parents=True)
    tiny.write_rows("questions.jsonl", rows)


def test_what_is_returned_is_the_chunk_itself(tmp_path: Path) -> None:
    """Contexts, tokens and judged spans are as without index texts; parents are found too."""
    tiny = Tiny(tmp_path / "tiny")
    write_questions(tiny)
    texts = ["text", {"kind": "questions", "file": "questions.jsonl"}]
    part = {"strategy": "fixed", "max_characters": 40, "overlap": 0}
    parent = {"strategy": "parent", "child": part, "parent": {"strategy": "none"}}
    tiny.config["chunking"]["plain"] = dict(tiny.config["chunking"]["parts"])
    tiny.config["chunking"]["nested"] = {**parent, "index_texts": texts}
    nested = {**BM25_OPTIONS, "chunking": "nested"}
    with_texts(tiny, texts, plain={**BM25_OPTIONS, "chunking": "plain"}, nested=nested)
    tiny.run()
    pipeline = tiny.pipeline()
    assert chunking_contexts(pipeline, "parts").equals(chunking_contexts(pipeline, "plain"))
    for key in (retriever_contexts_key, relevant_units_key):
        assert tiny.rows(key("bm25")) == tiny.rows(key("plain"))
    run = tiny.rows(run_key(pipeline.experiment, "nested", 100))
    assert {row["unit_id"] for row in run} <= DOCUMENTS.keys()
    chunks = tiny.rows(chunks_key("nested"))
    assert {row["chunk_id"] for row in run} <= {row["chunk_id"] for row in chunks}


def reply(prompt: str) -> str:
    """A recorded model: of each prompt a text of its own."""
    mark = hashlib.sha256(prompt.encode()).hexdigest()[:6]
    return json.dumps([f"What is {mark}?", "And then?"]) if "JSON" in prompt else f"Of {mark}."


@pytest.fixture
def asking(server: Server, tmp_path: Path) -> Tiny:
    tiny = Tiny(tmp_path / "tiny")
    llm = {"model": "m", "base_url": server.base_url, "api_key_env": None, "retries": 0}
    tiny.config |= {"llm": llm, "llms": {"other": {**llm, "model": "n"}}}
    kinds: list[Any] = [{"kind": "questions", "llm": "other"}, "context"]
    return with_texts(tiny, ["text", *kinds])


def n_chunks(tiny: Tiny, document: str = "") -> int:
    return sum(row["document_id"].startswith(document) for row in tiny.rows(chunks_key("parts")))


def calls(plan: Plan) -> int | None:
    return plan.work("llm_calls")


def test_requests_are_planned_and_sent_once(asking: Tiny, server: Server) -> None:
    expected = calls(planned(asking))  # chunks are cut for the plan
    assert not server.received
    asking.run()
    assert len(server.received) == expected == 2 * n_chunks(asking)
    assert calls(planned(asking)) is None
    assert asking.run() == set()
    kinds = [row["kind"] for row in asking.rows(index_texts_key("parts"))]
    assert kinds[:4] == ["text", "questions", "questions", "context"]
    # Another chunk of a document: its question, and the context of all chunks of the document.
    asking.replace("crew.md", "A crew of five", "A crew of six")
    before = len(server.received)
    wanted = calls(planned(asking))
    asking.run()
    assert len(server.received) - before == wanted == 1 + n_chunks(asking, "crew.md")
    # Another prompt: all of its kind; another option of one kind: of this one alone.
    (asking.root / "p.txt").write_text("version: 2\n[user]\nJSON {chunk}\n")
    asking.config["chunking"]["parts"]["index_texts"][1]["template"] = "../p.txt"
    asking.write_config()
    before, wanted = len(server.received), calls(planned(asking))
    asking.run()
    assert len(server.received) - before == wanted == n_chunks(asking)
    # Back: everything is there.
    del asking.config["chunking"]["parts"]["index_texts"][1]["template"]
    asking.write_config()
    before = len(server.received)
    asking.run()
    assert len(server.received) == before


def test_chunks_without_a_text_are_counted_and_asked_again(asking: Tiny, server: Server) -> None:
    server.on("Passports", error(400, "too long"))
    server.on("diesel", says("\x00 \u200b"))

    def evaluate(*options: str) -> Result:
        return asking.command("evaluate", ".", *options, columns=200)

    result = evaluate()
    artifact = asking.pipeline().artifact(index_texts_key("parts"))
    facts = artifact.manifest.facts
    n_contexts = n_chunks(asking, "lost.md")  # each is shown with its document
    assert facts["unanswered"] == 1 + n_contexts
    assert facts["notes"][0].startswith(
        "2 chunks without questions: found by their other indexed texts"
    )
    kinds: Mapping[str, list[str]] = defaultdict(list)
    for row in artifact.table().to_pylist():
        kinds[row["chunk_id"]].append(row["kind"])
    assert all("text" in own for own in kinds.values())
    lacking = f"parts lacks texts of {facts['unanswered']} chunks"
    assert result.exit_code == 3
    told = f"index_texts[chunking=parts]: no answer for {facts['unanswered']} of the chunks"
    assert f"{told}; --retry-failed" in result.output
    assert f"incomplete: {lacking}" in result.output
    page = (asking.artifacts / "report.html").read_text(encoding="utf-8")
    assert html.escape(facts["notes"][0][:60]) in page
    assert incomplete_parts(EvaluationResult.current(asking.artifacts)) == [lacking]
    server.forget_rules()
    assert asking.run() == set()  # without a word it stays as it is
    asked = len(server.received)
    assert evaluate("--retry-failed").exit_code == 0
    assert len(server.received) == asked + facts["unanswered"]


def test_a_model_that_writes_nothing_usable_stops(asking: Tiny, server: Server) -> None:
    server.on("", says(""))
    with pytest.raises(DataError, match=r"index_texts questions: .* nothing usable for any of \d+"):
        asking.run()


def test_where_texts_go_and_who_wrote_them(asking: Tiny) -> None:
    remote = {"base_url": "https://example.com/v1", "max_calls": 9, "api_key_env": None}
    asking.config["llm"] |= remote
    asking.config["llms"]["other"] |= remote
    asking.write_config()
    plan = planned(asking)
    lines = {one.client: one for one in plan.outgoing}
    assert set(lines) == {"llm", "llms.other"}
    for line in lines.values():
        assert line.requests == line.passages == (plan.work("llm_calls") or 0) / 2
        assert (line.questions, line.max_calls) == (0, 9)
    asking.config["judges"] = {"strict": {"type": "llm", "llm": "other", "depth": 1}}
    asking.write_config()
    pipeline = asking.pipeline()
    queries = pipeline.experiment.dataset.read_queries().table
    (said,) = circular_uses(pipeline.experiment, verdicts_key(RELEVANCE, "strict"), queries)
    assert "writes the questions by which parts is found" in said


def test_what_was_written_goes_with_its_document(asking: Tiny, server: Server) -> None:
    """A summary has words of its own, which no piece of the text finds."""
    server.on("forty", says('["Secret one?"]'))
    asking.write_document("secret.md", "# Hidden\n\nIt is forty two, whatever is asked of it.\n")
    asking.run()
    asking.snapshot()
    assert any(SECRET in content for _, content in contents(asking.settings.store))
    forgotten = to_forget(asking.settings, "secret.md")
    assert forgotten is not None
    gone = {item.kind for item in forgotten.items}
    assert {"index_texts", "term_counts", "lexical_index"} <= gone
    result = CliRunner().invoke(
        main, ["clean", "--document", "secret.md", "--yes", "--store", str(asking.settings.store)]
    )
    assert result.exit_code == 0, result.output
    assert not [path for path, content in contents(asking.settings.store) if SECRET in content]
