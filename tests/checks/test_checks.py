"""Checks of served models and of what a tokenizer can read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rag_assets.checks.asset_checks import results_of
from rag_assets.checks.check import CheckResult
from rag_assets.checks.retriever_warnings import tokenizer_warnings
from rag_assets.cli import main
from rag_assets.errors import DataError
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import STAGES
from rag_assets.query_sets.stage import answers_key
from rag_assets.retrieval.base_runs_stage import index_key
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from tests.llm.server import Received, Reply, Server, json_reply, serving
from tests.retrieval.reranking.tiny_models import cross_encoder, masked_language_model
from tests.tiny_experiment import QUERIES, Tiny


def checked(tiny: Tiny) -> list[CheckResult]:
    tiny.run()
    pipeline, key = tiny.pipeline(), answers_key("clear")
    return results_of(pipeline, STAGES[key.asset], pipeline.materialize(key.asset, [key]))


def served_by(server: Server, name: str | None) -> None:
    def reply(request: Received) -> Reply:
        message = {"role": "assistant", "content": f"clear {len(request.text)}"}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        head = {"id": "x", "object": "chat.completion", "model": name}
        server.received.append(request)
        return json_reply({**head, "choices": choices})

    server.reply = reply  # type: ignore[method-assign]


def test_another_model_behind_the_name_fails(fresh: Tiny) -> None:
    with serving() as server:
        fresh.config["llm"] = {"model": "m", "base_url": server.base_url, "api_key_env": None}
        fresh.config["query_sets"] = {"clear": {"strategy": "rewrite"}}
        kept = {**fresh.config["retrievers"]["bm25"], "query_set": "clear"}
        fresh.config |= {"retrievers": {"bm25": kept}, "top_k": [5]}
        fresh.write_config()
        served_by(server, "m-2026-01")
        (result,) = checked(fresh)
        assert (result.passed, result.severity) == (True, "warning")
        assert len(server.received) == 6
        served_by(server, "m-2026-02")
        assert checked(fresh)[0].passed  # nothing is asked
        fresh.write_rows("queries.jsonl", [*QUERIES, {"query_id": "q7", "text": "new", "tags": []}])
        (result,) = checked(fresh)
        assert len(server.received) == 7
        assert not result.passed
        assert result.summary == (
            "The server answered by the model m-2026-02, and before by m-2026-01: name the one "
            "that is meant, with its version, as `model`"
        )
        fresh.config["llm"]["model"] = "other"
        fresh.write_config()
        served_by(server, None)
        assert checked(fresh) == []


CHINESE = [
    "港口在早上六点开放",
    "狗需要一张十克朗的票。",
    "发动机每五百小时更换一次机油。",
]
ENGLISH = ["the harbour opens at six", "a dog needs a ticket", "the oil is changed often"]
MODEL = "its model 'sentence-transformers/all-MiniLM-L6-v2'"
RETRIEVERS: dict[str, Any] = {
    "bm25": {"type": "bm25"},
    "minilm": {"type": "embedding"},
    "hybrid": {"type": "rrf", "inputs": ["bm25", "minilm"]},
}


def written(root: Path, documents: list[str], queries: list[str]) -> Tiny:
    tiny = Tiny(root)
    tiny.folder.mkdir(parents=True)
    corpus = [{"_id": f"d{n}", "title": "", "text": text} for n, text in enumerate(documents)]
    tiny.write_rows("corpus.jsonl", corpus)
    tiny.write_rows("queries.jsonl", [{"_id": f"q{n}", "text": t} for n, t in enumerate(queries)])
    tiny.config = {"name": "languages", "retrievers": RETRIEVERS, "top_k": [1, 3]}
    tiny.write_config()
    return tiny


def lines(tiny: Tiny, *retrievers: str) -> list[str]:
    pipeline = tiny.pipeline()
    return tokenizer_warnings(pipeline, Selection.of(pipeline.experiment, retrievers))


def test_a_model_that_reads_no_chinese_is_named_before_anything_runs(tmp_path: Path) -> None:
    tiny = written(tmp_path, CHINESE, CHINESE[:2])
    found = lines(tiny)
    assert [line.partition(": ")[0] for line in found] == ["retriever 'minilm'"] * 2
    assert [MODEL in line for line in found] == [True, True]
    assert "of the tokens of the queries are unknown" in found[0]
    assert "of the tokens of the documents are unknown" in found[1]
    assert not (tmp_path / "store" / "languages").exists()
    assert lines(tiny, "bm25") == []
    assert lines(tiny, "hybrid") == found  # it reads minilm


def test_only_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert lines(written(tmp_path / "english", ENGLISH, ENGLISH[:1])) == []
    (line,) = lines(written(tmp_path / "mixed", CHINESE, ENGLISH))
    assert "of the tokens of the documents" in line


def test_afterwards_the_index_says_it(tmp_path: Path) -> None:
    tiny = written(tmp_path, CHINESE, ENGLISH)
    tiny.run()
    assert lines(tiny) == []  # nothing is left to do
    facts = tiny.pipeline().artifact(index_key("embedding", "minilm")).manifest.facts
    (note,) = facts["notes"]
    assert f"of the tokens of the chunks are unknown to {MODEL}; take a model that" in note


def test_every_type_with_a_tokenizer_of_its_own(tmp_path: Path) -> None:
    tiny = written(tmp_path, CHINESE, ENGLISH)
    tiny.config["retrievers"] = {
        "bm25": {"type": "bm25"},
        "sparse": {
            "type": "splade",
            "model": str(masked_language_model(tmp_path / "splade")),
        },
        "crossed": {
            "type": "cross_encoder",
            "input": "bm25",
            "model": str(cross_encoder(tmp_path / "crossed")),
        },
        "late": {"type": "maxsim", "input": "bm25"},
        "absent": {"type": "embedding", "model": str(tmp_path / "absent")},
    }
    tiny.write_config()
    named = [line.partition(": ")[0] for line in lines(tiny)]
    assert named == ["retriever 'sparse'", "retriever 'crossed'", "retriever 'late'"]


def test_what_was_read_for_the_warning_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = written(tmp_path, CHINESE, ENGLISH)
    pipeline = tiny.pipeline()
    tokenizer_warnings(pipeline, Selection.of(pipeline.experiment))
    dataset = type(pipeline.experiment.dataset)
    with monkeypatch.context() as patch:
        patch.setattr(dataset, "read_documents", None)
        patch.setattr(dataset, "read_queries", None)
        pipeline.materialize("documents", [DOCUMENTS_KEY])
        pipeline.materialize("queries", [QUERIES_KEY])
    assert pipeline.artifact(DOCUMENTS_KEY).table().column("text").to_pylist() == CHINESE
    assert pipeline.read_ahead == {}


def test_files_that_change_after_the_warning_stop_the_evaluation(tmp_path: Path) -> None:
    tiny = written(tmp_path, CHINESE, ENGLISH)
    pipeline = tiny.pipeline()
    tokenizer_warnings(pipeline, Selection.of(pipeline.experiment))
    tiny.write_rows("corpus.jsonl", [{"_id": "d0", "title": "", "text": "another corpus"}])
    with pytest.raises(DataError, match="documents changed while they were read"):
        pipeline.materialize("documents", [DOCUMENTS_KEY])


def test_broken_data_is_left_to_the_evaluation(tmp_path: Path) -> None:
    tiny = written(tmp_path, CHINESE, CHINESE)
    (tiny.folder / "queries.jsonl").write_text("no json", encoding="utf-8")
    (line,) = lines(tiny)
    assert "of the documents" in line
    with pytest.raises(DataError):
        tiny.run()


def test_the_command_line_warns_on_stderr(tmp_path: Path) -> None:
    tiny = written(tmp_path, CHINESE, CHINESE)
    tiny.config |= {"retrievers": {"minilm": RETRIEVERS["minilm"]}, "top_k": [1]}
    tiny.write_config()
    arguments = ["evaluate", str(tiny.folder), "--store", str(tmp_path / "store")]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    told = done.stderr.splitlines()
    assert [line.split(": ")[:2] for line in told[:2]] == [["warning", "retriever 'minilm'"]] * 2
    assert "retriever 'minilm'" not in done.stdout
    again = CliRunner().invoke(main, arguments)
    assert "warning: " not in again.stderr
    assert "note: embedding_index: minilm: " in " ".join(again.stderr.split())
