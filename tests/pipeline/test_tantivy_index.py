"""An index of tantivy as an artifact: tantivy's random names and its locks stay out of it."""

from __future__ import annotations

from pathlib import Path

from rag_assets.retrieval.base_runs_stage import index_key
from rag_assets.store.artifacts import Artifact, ArtifactKey
from tests.tiny_experiment import Tiny


def indexed(root: Path) -> tuple[Tiny, Artifact]:
    tiny = Tiny(root)
    options = {"type": "bm25", "engine": "tantivy", "chunking": "parts", "analyzer": "english"}
    own = {"top_k": [3], "metrics": ["hit_rate"], "primary": "hit_rate@3"}
    tiny.config |= {**own, "retrievers": {"bm25": options}}
    tiny.write().run()
    return tiny, tiny.pipeline().artifact(index_key("lexical", "bm25"))


def test_the_same_chunks_give_the_same_digest_and_a_search_leaves_it(tmp_path: Path) -> None:
    one, first = indexed(tmp_path / "one")
    other, second = indexed(tmp_path / "other")
    assert first.manifest.digests == second.manifest.digests
    key = ArtifactKey.of("lexical_runs", retriever="bm25", top_k=3)
    found = one.pipeline().artifact(key).table()
    assert found.num_rows
    assert found == other.pipeline().artifact(key).table()
    one.config["top_k"] = [3, 5]
    one.write_config()
    computed = one.run()  # searched again, in the same index
    assert "lexical_runs/bm25/5" in computed
    assert "lexical_index/bm25" not in computed
    assert first.is_intact()
    assert not [file for file in first.folder.rglob("*") if "lock" in file.name]
