"""What an embedding retriever says of its chunks; and a static model is one like others."""

from __future__ import annotations

from pathlib import Path

from rag_assets.chunking.stage import chunks_key
from rag_assets.models.model_names import load_tokenizer, resolve_model
from rag_assets.models.token_counts import truncation_facts
from rag_assets.retrieval.base_runs_stage import index_key
from rag_assets.retrieval.runs_stage import run_key
from tests.tiny_experiment import Tiny

MINILM = "sentence-transformers/all-MiniLM-L6-v2"


def test_a_static_model_works(bm25_only: Tiny, static_model: Path) -> None:
    bm25_only.configure("static", type="embedding", model=str(static_model), chunking="parts")
    bm25_only.run()
    pipeline = bm25_only.pipeline()
    facts = pipeline.artifact(index_key("embedding", "static")).manifest.facts
    assert (facts["dimension"], facts["n_truncated"]) == (64, 0)
    run = pipeline.artifact(run_key(pipeline.experiment, "static", 1)).table()
    best = dict(zip(*(run.column(n).to_pylist() for n in ("query_id", "document_id")), strict=True))
    # The words of these questions stand in one document, and vectors of other words are far.
    assert (best["q2"], best["q4"]) == ("harbours.md", "safety/fire.md")
    assert bm25_only.run() == set()


def test_chunks_that_the_model_does_not_read_to_the_end(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "long")
    tiny.config |= {"top_k": [1], "primary": "mrr@1", "metrics": ["mrr"]}
    tiny.config["retrievers"] = {"minilm": {"type": "embedding", "chunking": "whole"}}
    tiny.config["baseline"] = "minilm"
    tiny.write()
    tiny.write_document("long.md", "word " * 300)
    pipeline = tiny.pipeline()
    for asset in ("documents", "chunks", "embedding_index"):
        keys = [
            key
            for stage in pipeline.stages()
            if stage.name == asset
            for key in stage.keys(pipeline.experiment)
        ]
        pipeline.materialize(asset, keys)
    assert pipeline.artifact(chunks_key("whole")).manifest.rows == 9
    facts = pipeline.artifact(index_key("embedding", "minilm")).manifest.facts
    assert facts["n_truncated"] == 1
    (note,) = facts["notes"]
    assert note.startswith("1 of 9 chunks are longer than the model reads")


def test_the_limit_is_exact_and_counts_special_tokens_and_the_prompt() -> None:
    files = resolve_model(MINILM)
    fits, cut = "word " * 254, "word " * 255
    assert len(load_tokenizer(MINILM).encode(fits).ids) == 256
    assert truncation_facts([fits, "", cut, cut], files)["n_truncated"] == 2
    assert truncation_facts([fits, "x"], files, prompt="query: ")["n_truncated"] == 1
    assert truncation_facts([], files)["n_truncated"] == 0
