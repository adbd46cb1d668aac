"""A retriever with ``expand`` ranks as without it, and returns more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import ConfigError
from rag_assets.evaluation.contexts_stage import retriever_contexts_key
from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.experiment import load_experiment
from rag_assets.store.artifacts import ArtifactKey
from tests.context_tokens import word_tokenizer
from tests.evaluation.answer_text import holds
from tests.tiny_experiment import QUERIES, Tiny

ANSWERS = {"q1": ["10 crowns"], "q2": ["six in the morning"], "q6": ["900 kilowatts"]}
BM25 = {"type": "bm25", "chunking": "parts", "analyzer": "english"}


@pytest.fixture
def windows(tmp_path: Path) -> Tiny:
    tiny = Tiny(tmp_path / "windows")
    tiny.folder.mkdir(parents=True)
    parts = {"strategy": "recursive", "max_characters": 50, "overlap": 0}
    tiny.config["chunking"] = {"parts": parts}
    tiny.config["retrievers"] = {
        "bm25": {**BM25},
        "wide": {**BM25, "expand": {"type": "window", "chunks": 1}},
        "fused": {"type": "rrf", "inputs": ["bm25", "wide"]},
        "fused-wide": {"type": "rrf", "inputs": ["bm25", "wide"], "expand": {"type": "window"}},
    }
    tiny.config |= {"metrics": ["ndcg", "recall", "answer_hit"], "top_k": [1, 3, 5]}
    tiny.config["context"] = {"tokenizer": str(word_tokenizer(tiny.root))}
    tiny.write()
    tiny.write_rows("queries.jsonl", [q | {"answers": ANSWERS.get(q["query_id"])} for q in QUERIES])
    return tiny


def rows(tiny: Tiny, key: ArtifactKey) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tiny.pipeline().artifact(key).table().to_pylist()
    return found


def run(tiny: Tiny, retriever: str, family: str = "lexical") -> list[dict[str, Any]]:
    return rows(tiny, ArtifactKey.of(f"{family}_runs", retriever=retriever, top_k=3))


def test_the_reader_is_given_the_window(windows: Tiny) -> None:
    windows.run()
    assert run(windows, "bm25") == run(windows, "wide")
    assert run(windows, "fused", "fused") == run(windows, "fused-wide", "fused")
    texts = {row["document_id"]: row["text"] for row in rows(windows, ArtifactKey.of("documents"))}
    for retriever, family in (("wide", "lexical"), ("fused-wide", "fused")):
        contexts = {r["context_id"]: r for r in rows(windows, retriever_contexts_key(retriever))}
        given: dict[str, list[str]] = {}
        for row in run(windows, retriever, family):
            one = contexts[row["unit_id"]]
            text = texts[one["document_id"]][one["start"] : one["end"]]
            own = row["unit_id"].partition("#")[2].split("-")
            assert one["start"] <= int(own[0]) < int(own[1]) <= one["end"]
            given.setdefault(row["query_id"], []).append(text)
        for row in rows(windows, metrics_key(retriever, 3)):
            first = given[row["query_id"]]
            assert row["tokens"] == sum(len(text.split()) for text in first)
            answers = ANSWERS.get(row["query_id"])
            hit = any(holds(text, a) for text in first for a in answers or ())
            assert row["answer_hit"] == (float(hit) if answers else None)


def test_evidence_is_judged_on_the_window_and_r_stays(windows: Tiny) -> None:
    windows.run()
    own, wide = (rows(windows, relevant_units_key(name)) for name in ("bm25", "wide"))
    assert {r["evidence_id"] for r in own} == {r["evidence_id"] for r in wide}
    items = [{(r["evidence_id"], r["unit_id"]) for r in table} for table in (own, wide)]
    assert items[0] < items[1]
    fused, fused_wide = (
        rows(windows, relevant_units_key(name)) for name in ("fused", "fused-wide")
    )
    assert (fused, fused_wide) == (own, wide)  # that of an input is not taken over
    before, after = (rows(windows, metrics_key(name, 1)) for name in ("bm25", "wide"))
    for one, other in zip(before, after, strict=True):
        assert one["n_relevant"] == other["n_relevant"]
        assert one["tokens"] < other["tokens"]
        assert one["recall"] <= other["recall"]


def test_expansion_searches_nothing(windows: Tiny) -> None:
    windows.run()
    windows.configure("bm25", expand={"type": "window", "chunks": 2})
    computed = windows.run()
    stages = {name.split("/")[0] for name in computed if name.split("/")[1:2] == ["bm25"]}
    assert stages == {
        "relevant_units",
        "retriever_contexts",
        "metrics",
        "metrics_summary",
        "intervals",
        "attributions",
    }
    assert not {name for name in computed if "/wide" in name or "_runs" in name}
    windows.replace("crew.md", "A crew of five", "A crew of four")
    assert {"retriever_contexts/bm25", "retriever_contexts/wide"} <= windows.run()


@pytest.mark.parametrize(
    ("expand", "problem"),
    [
        ({"type": "window", "chunks": 0}, "retrievers.bm25.expand.chunks"),
        ({"type": "windows"}, "retrievers.bm25.expand.type"),
        ({"type": "window", "chunk": 1}, "retrievers.bm25.expand.chunk"),
        (3, "retrievers.bm25.expand"),
    ],
)
def test_wrong_options(windows: Tiny, expand: object, problem: str) -> None:
    windows.configure("bm25", expand=expand)
    with pytest.raises(ConfigError, match=rf"experiment.yaml:\d+: `{problem}`"):
        load_experiment(windows.folder)
