"""Filters, recency and expansion in an experiment."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rag_assets.chunking.stage import chunks_key
from rag_assets.errors import ConfigError, DataError
from rag_assets.evaluation.contexts_stage import retriever_contexts_key
from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.evaluation.query_facts import filter_of as wanted_by
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.experiment import load_experiment
from rag_assets.retrieval.search_steps_stage import QUERY_FILTERS_KEY
from rag_assets.store.artifacts import ArtifactKey
from tests.evaluation.answer_text import holds
from tests.made_tables import word_tokenizer
from tests.tiny_experiment import DOCUMENTS, QUERIES, Tiny

SEASONS = ("summer", "winter", "both")
FILTERS: dict[str, Any] = {
    "q1": {"season": "winter"},
    "q2": {"season": ["winter", "both"]},
    "q3": {"season": "summer", "page": 1},
    "q4": {"season": "winter", "page": 7},
    "q6": json.dumps({"season": "both"}),
}
BM25 = {"type": "bm25", "chunking": "parts", "analyzer": "english"}


@pytest.fixture
def seasons(tmp_path: Path) -> Tiny:
    """Each document has a season and a page in its front matter; q5 has no filter."""
    tiny = Tiny(tmp_path / "seasons")
    parts = {"strategy": "recursive", "max_characters": 50, "overlap": 0}
    inside = {"strategy": "parent", "child": parts, "parent": {"strategy": "none"}}
    tiny.config["chunking"] = {"parts": parts, "inside": inside}
    files = {"chunk_vectors": "chunks.npy", "chunk_ids": "chunks.txt"}
    files |= {"query_vectors": "q.npy", "query_ids": "q.txt"}
    paths = {option: str(tiny.root / name) for option, name in files.items()}
    vectors = {"type": "vectors", "chunking": "parts", **paths}
    far = {**vectors, "similarity": "euclidean"}
    tiny.config["retrievers"] = {
        "bm25": {**BM25},
        "bm25-some": {**BM25, "filters": True},
        "parents-some": {**BM25, "chunking": "inside", "filters": True},
        "vectors": vectors,
        "vectors-some": {**vectors, "filters": True},
        "far": far,
        "far-some": {**far, "filters": True},
        "fused": {"type": "rrf", "inputs": ["bm25-some", "vectors-some"]},
    }
    tiny.config |= {"top_k": [2, 100], "metrics": ["ndcg"], "primary": "ndcg@2"}
    for name, text in DOCUMENTS.items():
        tiny.write_document(name, f"---\nseason: {season(name)}\npage: {page(name)}\n---\n{text}")
    tiny.write_rows("queries.jsonl", [q | filter_of(q["query_id"]) for q in QUERIES])
    for path in paths.values():
        Path(path).touch()
    tiny.write_config()
    write_vectors(tiny)
    return tiny


def season(name: str) -> str:
    return SEASONS[list(DOCUMENTS).index(name) % 3]


def page(name: str) -> int:
    return list(DOCUMENTS).index(name) % 2


def filter_of(query_id: str) -> dict[str, Any]:
    return {"filter": FILTERS[query_id]} if query_id in FILTERS else {}


def matches(query_id: str, name: str) -> bool:
    return {
        "q1": season(name) == "winter",
        "q2": season(name) != "summer",
        "q3": season(name) == "summer" and page(name) == 1,
        "q4": False,
        "q6": season(name) == "both",
    }.get(query_id, True)


def write_vectors(tiny: Tiny) -> None:
    """Some numbers for each chunk and query; several are equal, so that there are ties."""
    pipeline = tiny.pipeline()
    chunks = ArtifactKey.of("chunks", chunking="parts")
    pipeline.materialize("documents", [ArtifactKey.of("documents")])
    pipeline.materialize("chunks", [chunks])
    chunk_ids = pipeline.artifact(chunks).table()["chunk_id"].to_pylist()
    draw = np.random.default_rng(0)
    names = {"chunks": chunk_ids, "q": [q["query_id"] for q in QUERIES]}
    for name, ids in names.items():
        values = draw.integers(1, 3, (len(ids), 3)).astype(np.float32)
        np.save(tiny.root / f"{name}.npy", values)
        (tiny.root / f"{name}.txt").write_text("".join(f"{one}\n" for one in ids))


def test_a_filter_is_before_the_cut(seasons: Tiny) -> None:
    seasons.run()
    for name in ("bm25", "vectors", "far"):
        everything = seasons.ranked(name, 100)
        for top_k in (2, 100):
            for query_id, rows in seasons.ranked(f"{name}-some", top_k).items():
                wanted = [one for one in everything[query_id] if matches(query_id, document(one))]
                assert rows == wanted[:top_k], (name, query_id)
    # Two of the vectors' hits are there for every query with matching documents.
    lengths = {q: len(rows) for q, rows in seasons.ranked("vectors-some", 2).items()}
    assert lengths == {"q1": 2, "q2": 2, "q3": 2, "q4": 0, "q5": 2, "q6": 2}
    for name in ("parents-some", "fused"):
        for query_id, rows in seasons.ranked(name, 100).items():
            assert all(matches(query_id, document(one)) for one in rows)
    notes = seasons.pipeline().artifact(QUERY_FILTERS_KEY).manifest.facts["notes"]
    assert notes == ["1 query has a filter that no document matches, and finds nothing: q4"]


def document(row: tuple[str, float]) -> str:
    return row[0].partition("#")[0]


def test_what_is_searched_again(seasons: Tiny) -> None:
    seasons.config["retrievers"] = {"bm25": {**BM25}, "okapi": {**BM25, "variant": "okapi"}}
    seasons.config["baseline"] = "bm25"
    seasons.write_config()
    seasons.run()
    seasons.configure("okapi", filters=True)
    of_okapi = {"lexical_runs/okapi/2", "lexical_runs/okapi/100"}
    computed = seasons.run()
    assert {name for name in computed if "_runs" in name} == of_okapi
    assert not {name for name in computed if "_index" in name}
    # Metadata that no filter asks for.
    seasons.replace("crew.md", "page: 1", "page: 1\nauthor: Ann")
    assert not {name for name in seasons.run() if "_runs" in name}
    seasons.replace("crew.md", "page: 1", "page: 3")
    assert "lexical_runs/okapi/2" in seasons.run()
    seasons.replace("queries.jsonl", '"season": "winter"}', '"season": "summer"}')
    assert {name for name in seasons.run() if "_runs" in name} == of_okapi


def test_one_line_for_what_is_wrong(seasons: Tiny) -> None:
    seasons.write_rows(
        "queries.jsonl", [QUERIES[0] | {"filter": {"seasn": "winter"}}, *QUERIES[1:]]
    )
    problem = r"queries\.jsonl: `filter`: query 'q1': no document has the field 'seasn' \(did you"
    with pytest.raises(DataError, match=problem):
        seasons.run()
    seasons.configure("bm25", filters="yes")
    with pytest.raises(ConfigError, match=r"`retrievers.bm25.filters`"):
        load_experiment(seasons.folder)


def test_the_example_of_the_page(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "filters.md").read_text("utf-8")
    row, config = re.findall(r"```(?:json|yaml)\n(.*?)```", page, re.S)
    tiny = Tiny(tmp_path)
    tiny.config = yaml.safe_load(config)
    tiny.write()
    found = load_experiment(tiny.folder).retrievers
    assert [getattr(one, "filters", None) for one in found.values()] == [True, False, True, None]
    assert wanted_by("q1", json.loads(row), DataError) == {
        "season": ("winter",),
        "year": ("2024", "2025"),
    }


ANSWERS: dict[str, Any] = {
    "q1": ["10 crowns"],
    "q2": ["six in the morning"],
    "q4": "carbon dioxide",
    "q6": ["900 kilowatts"],
}


@pytest.fixture(scope="module")
def expanded(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Small chunks, the same with windows and with parents, and fusions; words are tokens."""
    tiny = Tiny(tmp_path_factory.mktemp("expanded") / "master")
    tiny.folder.mkdir(parents=True)
    parts = {"strategy": "recursive", "max_characters": 50, "overlap": 0}
    parent = {"strategy": "markdown", "max_characters": 500}
    inside = {"strategy": "parent", "child": parts, "parent": parent}
    tiny.config["chunking"] = {"parts": parts, "inside": inside}
    tiny.config["retrievers"] = {
        "bm25": {**BM25},
        "wide": {**BM25, "expand": {"type": "window", "chunks": 1}},
        "parents": {**BM25, "chunking": "inside"},
        "fused": {"type": "rrf", "inputs": ["bm25", "wide"]},
        "fused-wide": {"type": "rrf", "inputs": ["bm25", "wide"], "expand": {"type": "window"}},
        "both": {"type": "rrf", "inputs": ["bm25", "parents"]},
    }
    tiny.config |= {"metrics": ["ndcg", "recall", "answer_hit"], "top_k": [1, 3, 5]}
    tiny.config["context"] = {"tokenizer": str(word_tokenizer(tiny.root))}
    tiny.write()
    tiny.write_rows("queries.jsonl", [q | {"answers": ANSWERS.get(q["query_id"])} for q in QUERIES])
    tiny.run()
    return tiny


def run(tiny: Tiny, retriever: str, family: str = "lexical") -> list[dict[str, Any]]:
    return tiny.rows(ArtifactKey.of(f"{family}_runs", retriever=retriever, top_k=3))


def test_the_reader_is_given_the_window_or_the_parent(expanded: Tiny) -> None:
    assert run(expanded, "bm25") == run(expanded, "wide")
    assert run(expanded, "fused", "fused") == run(expanded, "fused-wide", "fused")
    texts = {row["document_id"]: row["text"] for row in expanded.rows(ArtifactKey.of("documents"))}
    board = expanded.rows(ArtifactKey.of("leaderboard"))
    lengths = set()
    for retriever, family, has_window in (
        ("bm25", "lexical", False),
        ("wide", "lexical", True),
        ("fused-wide", "fused", True),
        ("parents", "lexical", False),
        ("both", "fused", False),
    ):
        contexts = {r["context_id"]: r for r in expanded.rows(retriever_contexts_key(retriever))}
        given: dict[str, list[str]] = {}
        for row in run(expanded, retriever, family):
            one = contexts[row["unit_id"]]
            text = texts[one["document_id"]][one["start"] : one["end"]]
            start, end = map(int, row["unit_id"].partition("#")[2].split("-"))
            assert one["start"] <= start < end <= one["end"]
            assert has_window or (one["start"], one["end"]) == (start, end)
            given.setdefault(row["query_id"], []).append(text)
        rows = expanded.rows(metrics_key(retriever, 3))
        for row in rows:
            first = given[row["query_id"]]
            assert row["tokens"] == sum(len(text.split()) for text in first)
            answers = ANSWERS.get(row["query_id"])
            answers = [answers] if isinstance(answers, str) else answers
            hit = any(holds(text, a) for text in first for a in answers or ())
            assert row["answer_hit"] == (float(hit) if answers else None)
        (mean,) = (r["tokens"] for r in board if (r["retriever"], r["top_k"]) == (retriever, 3))
        assert mean == pytest.approx(sum(row["tokens"] for row in rows) / len(rows))
        lengths.add(mean)
    assert len(lengths) > 3


def test_evidence_is_judged_on_the_window_and_r_stays(expanded: Tiny) -> None:
    own, wide = (expanded.rows(relevant_units_key(name)) for name in ("bm25", "wide"))
    assert {r["evidence_id"] for r in own} == {r["evidence_id"] for r in wide}
    items = [{(r["evidence_id"], r["unit_id"]) for r in table} for table in (own, wide)]
    assert items[0] < items[1]
    fused = [expanded.rows(relevant_units_key(name)) for name in ("fused", "fused-wide")]
    assert fused == [own, wide]  # that of an input is not taken over
    before, after = (expanded.rows(metrics_key(name, 1)) for name in ("bm25", "wide"))
    for one, other in zip(before, after, strict=True):
        assert one["n_relevant"] == other["n_relevant"]
        assert one["tokens"] < other["tokens"]
        assert one["recall"] <= other["recall"]


def test_the_text_of_a_parent_is_of_the_documents(expanded: Tiny, tmp_path: Path) -> None:
    """What lies between the children of a parent is in no chunk; the parent is counted again."""
    tiny = expanded.copy_to(tmp_path / "edited")
    before = tiny.pipeline().artifact(chunks_key("inside")).manifest.digests
    tiny.replace("crew.md", "\n\nThe mate", " \nThe mate")
    computed = tiny.run()
    assert tiny.pipeline().artifact(chunks_key("inside")).manifest.digests == before
    assert {"retriever_contexts/parents", "retriever_contexts/both"} <= computed
    assert "retriever_contexts/bm25" not in computed


def test_scores_that_are_made_of_ranks_tell_no_unanswerable_query(fresh: Tiny) -> None:
    """A constant would have an AUROC of 0.5 and the threshold 1, as if that were a finding."""
    unanswerable = {"query_id": "q7", "text": "zebras at the fire", "tags": ["unanswerable"]}
    fresh.write_rows("queries.jsonl", [*QUERIES, unanswerable])
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
            "convex": {"type": "convex", **both},
        },
        "baseline": "plain",
        **{"top_k": [3], "metrics": ["mrr"], "primary": "mrr@3"},
    }
    fresh.write_config()
    fresh.run()
    found = [row["retriever"] for row in fresh.rows(ArtifactKey.of("answerability"))]
    assert found == sorted(name for name in fresh.config["retrievers"] if name != "bare")
