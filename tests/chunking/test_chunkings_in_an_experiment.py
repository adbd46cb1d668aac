from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_assets.errors import ConfigError
from rag_assets.experiment import load_experiment
from rag_assets.store.artifacts import ArtifactKey
from tests.tiny_experiment import QUERIES, Tiny

CHUNKINGS: dict[str, dict[str, Any]] = {
    "sentence": {"strategy": "sentences", "sentences": 1},
    "family": {
        "strategy": "parent",
        "child": {"strategy": "sentences", "sentences": 1},
        "parent": {"strategy": "markdown", "max_characters": 2_000},
    },
    "whole-family": {
        "strategy": "parent",
        "child": {"strategy": "fixed", "max_characters": 40, "overlap": 10},
        "parent": {"strategy": "none"},
    },
    "headings": {"strategy": "markdown", "max_tokens": 60},
    "windows": {"strategy": "fixed", "max_tokens": 20, "overlap": 5},
    "characters": {"strategy": "recursive", "max_characters": 80, "overlap": 0},
}


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The experiment with everything up to date; tests only read it."""
    tiny = Tiny(tmp_path_factory.mktemp("chunkings") / "tiny")
    tiny.config["chunking"] = CHUNKINGS
    tiny.config["retrievers"] = {
        name: {"type": "bm25", "chunking": name, "analyzer": "english"} for name in CHUNKINGS
    } | {"mixed": {"type": "rrf", "inputs": ["sentence", "family"]}}
    tiny.config["baseline"] = "sentence"
    tiny.write().run()
    return tiny


def test_one_set_of_labels_scores_every_chunking(computed: Tiny) -> None:
    pipeline = computed.pipeline()
    relevant = {}
    for name in pipeline.experiment.retrievers:
        metrics = pipeline.artifact(ArtifactKey.of("metrics", retriever=name, top_k=5)).table()
        rows = metrics.sort_by("query_id").to_pylist()
        relevant[name] = [row["n_relevant"] for row in rows]
        assert [row["n_unreachable"] for row in rows] == [0] * len(QUERIES)
        assert sum(row["hit_rate"] for row in rows) > 0
    assert len({tuple(counts) for counts in relevant.values()}) == 1


@pytest.mark.parametrize("chunking", ["family", "whole-family"])
def test_a_run_holds_parents_once_and_counts_them(computed: Tiny, chunking: str) -> None:
    pipeline = computed.pipeline()
    chunks = pipeline.artifact(ArtifactKey.of("chunks", chunking=chunking)).table().to_pylist()
    parent_of = {row["chunk_id"]: row["parent_chunk_id"] for row in chunks}
    assert len(set(parent_of.values())) < len(parent_of)
    run = ArtifactKey.of("lexical_runs", retriever=chunking, top_k=3)
    rows = pipeline.artifact(run).table().to_pylist()
    assert all(row["unit_id"] == parent_of[row["chunk_id"]] for row in rows)
    by_query = {
        row["query_id"]: [r["unit_id"] for r in rows if r["query_id"] == row["query_id"]]
        for row in rows
    }
    assert all(len(set(items)) == len(items) <= 3 for items in by_query.values())
    assert any(len(items) == 3 for items in by_query.values())
    judged = ArtifactKey.of("relevant_units", retriever=chunking)
    items = set(pipeline.artifact(judged).table().column("unit_id").to_pylist())
    assert items <= set(parent_of.values())


def test_what_is_indexed_is_not_cut_again(computed: Tiny, tmp_path: Path) -> None:
    tiny = computed.copy_to(tmp_path / "tiny")
    tiny.config["chunking"] = {
        **CHUNKINGS,
        "headings": {**CHUNKINGS["headings"], "indexed": "title+text"},
    }
    tiny.write_config()
    again = tiny.run()
    assert not [key for key in again if key.startswith("chunks")]
    indexes = [key for key in again if key.startswith("lexical_index")]
    assert indexes == ["lexical_index/headings"]


def test_semantic_children_under_an_embedding_retriever(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path)
    tiny.config["chunking"] = {
        "topics": {
            "strategy": "parent",
            "child": {"strategy": "sentences", "sentences": 1},
            "parent": {"strategy": "semantic", "percentile": 50, "max_tokens": 100},
        }
    }
    tiny.config["retrievers"] = {"minilm": {"type": "embedding", "chunking": "topics"}}
    tiny.config["baseline"] = "minilm"
    tiny.write().run()
    pipeline = tiny.pipeline()
    run = ArtifactKey.of("embedding_runs", retriever="minilm", top_k=5)
    rows = pipeline.artifact(run).table().to_pylist()
    assert len({(row["query_id"], row["unit_id"]) for row in rows}) == len(rows) == 30
    assert any(row["unit_id"] != row["chunk_id"] for row in rows)
    assert tiny.run() == set()


@pytest.mark.parametrize(
    ("chunking", "problem"),
    [
        (
            "{strategy: recursive, max_tokens: 50, max_characters: 9}",
            "`chunking.a.max_tokens`: give max_tokens or max_characters, not both",
        ),
        (
            "{strategy: recursive, max_characters: 30}",
            "`chunking.a`: overlap 30 must be less than max_characters 30",
        ),
        (
            "{strategy: sentences, sentences: 2, overlap: 2}",
            "`chunking.a.overlap`: overlap 2 must be less than sentences 2",
        ),
        (
            "{strategy: sentences, language: English}",
            "`chunking.a.language`: string should match pattern",
        ),
        ("{strategy: markdown, max_level: 7}", "`chunking.a.max_level`: "),
        ("{strategy: semantic, percentile: 100}", "`chunking.a.percentile`: "),
        ("{strategy: parent, parent: {strategy: none}}", "`chunking.a`: needs the key 'child'"),
        (
            "{strategy: parent, child: {strategy: none}, parent: {strategy: none}}",
            "`chunking.a.child.strategy`: unknown strategy 'none'; allowed: recursive, fixed",
        ),
        (
            "{strategy: parent, child: {strategy: fixed}, parent: {strategy: parent}}",
            "`chunking.a.parent.strategy`: unknown strategy 'parent'",
        ),
        (
            "{strategy: parent, child: {}, parent: {strategy: none}}",
            "`chunking.a.child`: needs the key 'strategy', one of recursive, fixed",
        ),
        (
            "{strategy: parent, child: {strategy: sentences, sentence: 3}, "
            "parent: {strategy: none}}",
            "`chunking.a.child.sentence`: unknown key 'sentence' (did you mean 'sentences'?)",
        ),
        (
            "{strategy: parent, child: {strategy: fixed, overlap: 500}, parent: {strategy: none}}",
            "`chunking.a.child.overlap`: overlap 500 must be less than max_tokens 200",
        ),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, chunking: str, problem: str) -> None:
    tiny = Tiny(tmp_path).write()
    text = yaml.safe_dump({"dataset": {"format": "markdown"}}) + f"chunking:\n  a: {chunking}\n"
    (tiny.folder / "experiment.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load_experiment(tiny.folder)
    assert f":4: {problem}" in str(error.value)
