from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from rag_assets.chunking.stage import chunks_key
from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.pipeline.warehouse import rebuild
from rag_assets.store.artifacts import ArtifactKey
from tests.evaluation.answer_text import holds
from tests.made_tables import word_tokenizer
from tests.tiny_experiment import QUERIES, Tiny

DECLARED = {"tags": ["unanswerable"]}
SMALL = {"strategy": "fixed", "max_characters": 40, "overlap": 0}
ANSWERS = {"q1": ["10 crowns"], "q4": "carbon dioxide"}


def rows_of(tiny: Tiny, key: ArtifactKey) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tiny.pipeline().artifact(key).table().to_pylist()
    return rows


@pytest.fixture
def family(tmp_path: Path) -> Tiny:
    """Small chunks, the same with parents, both fused; words are tokens."""
    tiny = Tiny(tmp_path / "family")
    parent = {"strategy": "markdown", "max_characters": 500}
    tiny.config["chunking"] = {
        "small": SMALL,
        "inside": {"strategy": "parent", "child": SMALL, "parent": parent},
    }
    tiny.config["retrievers"] = {
        "alone": {"type": "bm25", "chunking": "small", "analyzer": "english"},
        "parents": {"type": "bm25", "chunking": "inside", "analyzer": "english"},
        "both": {"type": "rrf", "inputs": ["alone", "parents"]},
    }
    tiny.config |= {"baseline": "alone", "metrics": ["ndcg", "answer_hit"]}
    tiny.folder.mkdir(parents=True)
    tiny.config["context"] = {"tokenizer": str(word_tokenizer(tiny.root))}
    tiny.write()
    answered = [
        q | ({"answers": ANSWERS[i]} if (i := q["query_id"]) in ANSWERS else {}) for q in QUERIES
    ]
    tiny.write_rows("queries.jsonl", answered)
    return tiny


def test_tokens_and_answers_are_those_of_the_returned_text(family: Tiny) -> None:
    family.run()
    documents = family.pipeline().artifact(ArtifactKey.of("documents")).table().to_pylist()
    texts: dict[str, str] = {row["document_id"]: row["text"] for row in documents}

    def text_of(item: str) -> str:
        document, _, span = item.rpartition("#")
        start, end = map(int, span.split("-"))
        return texts[document][start:end]

    lengths = set()
    for retriever, asset in (("alone", "lexical"), ("parents", "lexical"), ("both", "fused")):
        key = ArtifactKey.of(f"{asset}_runs", retriever=retriever, top_k=3)
        found: dict[str, list[str]] = {}
        for row in rows_of(family, key):
            found.setdefault(row["query_id"], []).append(text_of(row["unit_id"]))
        for row in rows_of(family, metrics_key(retriever, 3)):
            first = found[row["query_id"]]
            assert row["tokens"] == sum(len(text.split()) for text in first)
            answers = {"q1": ["10 crowns"], "q4": ["carbon dioxide"]}.get(row["query_id"])
            hit = any(holds(text, a) for text in first for a in answers or ())
            assert row["answer_hit"] == (float(hit) if answers else None)
            lengths.add((retriever, row["tokens"]))
        board = rows_of(family, ArtifactKey.of("leaderboard"))
        (mean,) = (r["tokens"] for r in board if (r["retriever"], r["top_k"]) == (retriever, 3))
        tokens = [row["tokens"] for row in rows_of(family, metrics_key(retriever, 3))]
        assert mean == pytest.approx(sum(tokens) / len(tokens))
    assert len(lengths) > 3


def test_the_text_of_a_parent_is_of_the_documents(family: Tiny) -> None:
    """What lies between the children of a parent is in no chunk; the parent is counted again."""
    child = {"strategy": "recursive", "max_characters": 40, "overlap": 0}
    family.config["chunking"] = {
        "small": child,
        "inside": {"strategy": "parent", "child": child, "parent": {"strategy": "none"}},
    }
    family.write_config()
    family.run()
    before = family.pipeline().artifact(chunks_key("inside")).manifest.digests
    family.replace("crew.md", "\n\nThe mate", " \nThe mate")
    computed = family.run()
    assert family.pipeline().artifact(chunks_key("inside")).manifest.digests == before
    assert "contexts/inside" in computed
    assert not {"contexts/small", "retriever_contexts/alone"} & computed


def test_without_labels_nothing_is_counted(fresh: Tiny) -> None:
    (fresh.folder / "judgments.jsonl").unlink()
    pipeline = fresh.pipeline()
    assert not {"contexts", "retriever_contexts", "answerability"} & {
        stage.name for stage in pipeline.stages()
    }


def test_answerability_in_the_warehouse(tiny: Tiny) -> None:
    unanswerable = {"query_id": "q7", "text": "zebras", "tags": ["unanswerable"]}
    unlabelled = {"query_id": "q8", "text": "zebras and lions", "tags": []}
    tiny.write_rows("queries.jsonl", [*QUERIES, unanswerable, unlabelled])
    tiny.run()
    tiny.snapshot()
    with duckdb.connect(str(rebuild(tiny.settings)), read_only=True) as connection:
        table = connection.sql("SELECT * FROM answerability ORDER BY retriever").to_arrow_table()
    rows = table.to_pylist()
    assert [row["retriever"] for row in rows] == sorted(tiny.config["retrievers"])
    for row in rows:
        assert (row["experiment"], row["split"], row["threshold_from"]) == ("tiny", "all", "all")
        assert (row["n_answerable"], row["n_unanswerable"]) == (6, 1)
        # q7 has no hits; nothing says whether q8 has an answer.
        assert (row["auroc"], row["coverage"], row["rejected"]) == (1.0, 1.0, 1.0)


def test_scores_that_are_made_of_ranks_tell_no_unanswerable_query(fresh: Tiny) -> None:
    """A constant would have an AUROC of 0.5 and the threshold 1, as if that were a finding."""
    fresh.write_rows(
        "queries.jsonl", [*QUERIES, {"query_id": "q7", "text": "zebras at the fire"} | DECLARED]
    )
    lists = [
        {"qid": query["query_id"], "retrieved_ids": ["fares.md", "crew.md"], **scores}
        for query, scores in ((q, {"scores": [2.0 + n, 1.0]}) for n, q in enumerate(QUERIES))
    ]
    fresh.write_rows("scored.jsonl", lists)
    bare = [{name: row[name] for name in ("qid", "retrieved_ids")} for row in lists]
    fresh.write_rows("bare.jsonl", bare)
    fresh.write_rows("variants.jsonl", [{"query_id": "q1", "variants": ["dog fares"]}])
    fresh.config["query_sets"] = {"said": {"strategy": "file", "path": "variants.jsonl"}}
    base = {"type": "bm25", "chunking": "whole"}
    both = {"inputs": ["plain", "other"]}
    fresh.config |= {
        "retrievers": {
            "plain": base,
            "other": {**base, "k1": 0.9},
            "variants": {**base, "query_set": "said"},
            "summed": {**base, "query_set": "said", "variants": "sum"},
            "scored": {"type": "run_file", "chunking": "whole", "path": "scored.jsonl"},
            "bare": {"type": "run_file", "chunking": "whole", "path": "bare.jsonl"},
            "rrf": {"type": "rrf", **both},
            "isr": {"type": "isr", **both},
            "borda": {"type": "borda", **both},
            "comb_sum": {"type": "comb_sum", **both},
            "raw_sum": {"type": "comb_sum", "normalisation": "none", **both},
        },
        "baseline": "plain",
    }
    fresh.write_config()
    fresh.run()
    found = [row["retriever"] for row in rows_of(fresh, ArtifactKey.of("answerability"))]
    assert found == sorted(name for name in fresh.config["retrievers"] if name != "bare")
