"""The icons of an asset say what computes it in this experiment."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from rag_assets.assets.build import build_assets
from tests.tiny_experiment import Tiny


def kinds(tiny: Tiny) -> dict[str, set[str]]:
    pipeline = tiny.pipeline()
    with_kinds = dg.Definitions(assets=build_assets(pipeline.experiment, tiny.pipeline))
    graph = with_kinds.resolve_asset_graph()
    return {key.path[-1]: set(graph.get(key).kinds) for key in graph.get_all_asset_keys()}


def test_kinds(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path)
    tiny.config["retrievers"] = {
        "words": {"type": "tfidf", "chunking": "parts"},
        "sparse": {"type": "splade", "model": "some-model", "chunking": "parts"},
        "asked": {"type": "rerank_api", "input": "words", "base_url": "http://x", "model": "m"},
    }
    tiny.config["baseline"] = "words"
    found = kinds(tiny.write())
    assert found["lexical_index"] == {"tfidf"}
    assert found["lexical_runs"] == {"parquet", "tfidf"}
    assert found["embedding_index"] == {"sentence-transformers", "numpy"}
    assert found["embedding_queries"] == {"parquet", "sentence-transformers"}
    assert found["embedding_runs"] == {"parquet", "numpy"}
    assert found["reranked_runs"] == {"parquet", "http"}
