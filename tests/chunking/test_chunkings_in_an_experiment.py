from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rag_assets.chunking.chunker import cut_documents, joined
from rag_assets.errors import ConfigError
from rag_assets.evaluation.relevant_units_stage import relevant_units
from rag_assets.experiment import load_experiment
from rag_assets.ordering import Hits
from rag_assets.retrieval.unit_ranking import UnitRanking
from rag_assets.schemas import column_values
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.testing.chunkers import documents
from tests.chunking.chunk_checks import cutter
from tests.labels.health.tables import qrels
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
    relevant = set()
    for name in computed.pipeline().experiment.retrievers:
        metrics = computed.rows(ArtifactKey.of("metrics", retriever=name, top_k=5))
        rows = sorted(metrics, key=lambda row: str(row["query_id"]))
        relevant.add(tuple(row["n_relevant"] for row in rows))
        assert [row["n_unreachable"] for row in rows] == [0] * len(QUERIES)
        assert sum(row["hit_rate"] for row in rows) > 0
    assert len(relevant) == 1


@pytest.mark.parametrize("chunking", ["family", "whole-family"])
def test_a_run_holds_parents_once_and_counts_them(computed: Tiny, chunking: str) -> None:
    chunks = computed.rows(ArtifactKey.of("chunks", chunking=chunking))
    parent_of = {row["chunk_id"]: row["parent_chunk_id"] for row in chunks}
    assert len(set(parent_of.values())) < len(parent_of)
    rows = computed.rows(ArtifactKey.of("lexical_runs", retriever=chunking, top_k=3))
    assert all(row["unit_id"] == parent_of[row["chunk_id"]] for row in rows)
    lists = [[item for item, _ in hits] for hits in computed.ranked(chunking, 3).values()]
    assert all(len(set(items)) == len(items) <= 3 for items in lists)
    assert any(len(items) == 3 for items in lists)
    judged = computed.rows(ArtifactKey.of("relevant_units", retriever=chunking))
    assert {row["unit_id"] for row in judged} <= set(parent_of.values())


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
    rows = tiny.rows(ArtifactKey.of("embedding_runs", retriever="minilm", top_k=5))
    assert len({(row["query_id"], row["unit_id"]) for row in rows}) == len(rows) == 30
    assert any(row["unit_id"] != row["chunk_id"] for row in rows)
    assert tiny.run() == set()


@pytest.mark.parametrize(
    ("chunking", "problem"),
    [
        (
            "recursive, max_tokens: 50, max_characters: 9",
            ".max_tokens`: give max_tokens or max_characters, not both",
        ),
        ("recursive, max_characters: 30", "`: overlap 30 must be less than max_characters 30"),
        (
            "sentences, sentences: 2, overlap: 2",
            ".overlap`: overlap 2 must be less than sentences 2",
        ),
        ("sentences, language: English", ".language`: string should match pattern"),
        ("parent, parent: {strategy: none}", "`: needs the key 'child'"),
        (
            "parent, child: {strategy: none}, parent: {strategy: none}",
            ".child.strategy`: unknown strategy 'none'; allowed: recursive, fixed",
        ),
        (
            "parent, child: {strategy: fixed, overlap: 500}, parent: {strategy: none}",
            ".child.overlap`: overlap 500 must be less than max_tokens 200",
        ),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, chunking: str, problem: str) -> None:
    tiny = Tiny(tmp_path).write()
    text = f"dataset:\n  format: markdown\nchunking:\n  a: {{strategy: {chunking}}}\n"
    (tiny.folder / "experiment.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load_experiment(tiny.folder)
    assert f":4: `chunking.a{problem}" in str(error.value)


ONE = {"strategy": "sentences", "sentences": 1}
TEXT = "# A\n\nOne went. Two went.\n\n## B\n\nThree went. Four went.\n"


def windows(size: int, overlap: int = 0) -> dict[str, object]:
    return {"strategy": "fixed", "max_characters": size, "overlap": overlap}


def test_children_know_their_parent() -> None:
    by_section = {"strategy": "markdown", "max_characters": 100}
    chunks = cut_documents(documents(TEXT), cutter("parent", child=ONE, parent=by_section))
    rows = chunks.select(["text", "heading_path", "parent_start", "parent_end"]).to_pylist()
    parents = [TEXT[row["parent_start"] : row["parent_end"]] for row in rows]
    first, second = "# A\n\nOne went. Two went.", "## B\n\nThree went. Four went."
    assert parents == [first] * 3 + [second] * 3
    assert [row["text"] for row in rows][1:3] == ["One went.", "Two went."]
    assert [row["heading_path"] for row in rows] == ["A"] * 3 + ["A > B"] * 3
    assert chunks.column("parent_chunk_id").to_pylist()[0] == f"d0#0-{len(first)}"


def test_a_whole_document_as_parent_keeps_its_id() -> None:
    chunks = cut_documents(
        documents(TEXT, ""),
        cutter("parent", child=ONE, parent={"strategy": "none"}),
        whole_parents=True,
    )
    assert set(chunks.column("parent_chunk_id").to_pylist()) == {"d0", "d1"}


def test_a_child_of_two_overlapping_parents_belongs_to_the_first() -> None:
    text = "abcdefghij"
    [pieces] = cutter("parent", child=windows(3), parent=windows(6, 3))([text])
    spans = [(0, 3, (0, 6)), (3, 6, (0, 6)), (6, 9, (3, 9)), (9, 10, (6, 10))]
    assert [(p.start, p.end, p.parent) for p in pieces] == spans


@pytest.mark.parametrize(
    ("above", "below", "expected"),
    [
        (("A", "B"), ("B", "C"), ("A", "B", "C")),
        (("A", "B"), ("C",), ("A", "B", "C")),
        (("A",), (), ("A",)),
        ((), ("A",), ("A",)),
        (("A", "B"), ("A", "B", "C"), ("A", "B", "C")),
    ],
)
def test_headings_are_joined(
    above: tuple[str, ...], below: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert joined(above, below) == expected


def units(parents: list[str | None]) -> pa.Table:
    return pa.table(
        {
            "chunk_id": [f"c{n}" for n in range(len(parents))],
            "document_id": ["d"] * len(parents),
            "parent_chunk_id": pa.array(parents, pa.string()),
        }
    )


@pytest.mark.parametrize("judge", ["evidence", "document"])
def test_top_k_counts_parents_and_the_best_child_stands_for_each(judge: str) -> None:
    table = units(["p", "p", "p", "p", "q", "q", None, "r"])
    scores = np.array([9.0, 8, 7, 6, 5, 4, 3, 2])
    depths = []

    def search(queries: object, depth: int) -> list[Hits]:
        depths.append(depth)
        return [Hits(np.arange(min(depth, 8)), scores[:depth])]

    ranking = UnitRanking(search, table, judge).table(["q1"], 3)
    rows = ranking.select(["unit_id", "chunk_id", "score", "rank"]).to_pylist()
    if judge == "document":
        assert [row["unit_id"] for row in rows] == ["d"]
        return
    assert [tuple(row.values()) for row in rows] == [
        ("p", "c0", 9.0, 1),
        ("q", "c4", 5.0, 2),
        ("c6", "c6", 3.0, 3),
    ]
    assert depths == [3, 8]


def test_evidence_is_judged_on_the_span_of_the_parent() -> None:
    text = "One went home. Two went away. Three stayed here. Four slept."
    cut = cutter("parent", child=ONE, parent={"strategy": "sentences", "sentences": 2})
    chunks = cut_documents(documents(text), cut)
    labels = qrels(("q", "both", "d0", (0, 29), 1), ("q", "third", "d0", (30, 48), 1))
    plain = chunks.drop_columns(["parent_chunk_id", "parent_start", "parent_end"])
    found = relevant_units(labels, chunks, "evidence")
    pairs = [*column_values(found, "evidence_id", "unit_id")]
    assert pairs == [("both", "d0#0-29"), ("third", "d0#30-60")]
    children = relevant_units(labels, plain, "evidence").column("unit_id").to_pylist()
    assert children == ["d0#0-14", "d0#15-29", "d0#30-48"]
