"""``candidates: all``: every chunk is scored, the input is not asked, and a guard on the pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.chunking.stage import chunks_key, texts_to_index
from rag_assets.errors import ConfigError, UsageError
from rag_assets.evaluation.units import unit_ids
from rag_assets.models.encoder import TokenEncoder
from rag_assets.pipeline.plan import plan
from rag_assets.pipeline.selection import Selection
from rag_assets.retrieval.reranking.candidates import candidate_lists, complete_ranking, reordered
from rag_assets.retrieval.reranking.local import maxsim
from tests.tiny_experiment import QUERIES, Tiny


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(0, 2)), min_size=1, max_size=12),
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.sampled_from(["document", "evidence"]),
)
def test_a_unit_has_the_score_of_its_best_chunk(
    owners: list[tuple[int, int | None]], seed: int, depth: int, judge: str
) -> None:
    chunks = pa.table(
        {
            "chunk_id": [f"c{number:02}" for number in range(len(owners))],
            "document_id": [f"d{document}" for document, _ in owners],
            "parent_chunk_id": pa.array(
                [None if parent is None else f"d{d}p{parent}" for d, parent in owners], pa.string()
            ),
        }
    )
    queries = pa.table({"query_id": ["q2", "q1"], "text": ["two", "one"]})
    texts = {chunk: f"text of {chunk}" for chunk in chunks["chunk_id"].to_pylist()}
    ranking = complete_ranking(queries, chunks, judge)
    lists = candidate_lists(ranking, queries, texts)
    assert [(one.query_id, one.query) for one in lists] == [("q1", "one"), ("q2", "two")]
    assert [list(one.texts) for one in lists] == [list(texts.values())] * 2
    drawn = np.random.default_rng(seed).integers(0, 4, (2, len(owners))).astype(float)
    found = reordered(ranking, lists, list(drawn), {}, depth)
    for query, scores in zip(("q1", "q2"), drawn, strict=True):
        best: dict[str, float] = {}
        for row, score in zip(chunks.to_pylist(), scores, strict=True):
            of_parent = row["parent_chunk_id"] or row["chunk_id"]
            unit = row["document_id"] if judge == "document" else of_parent
            best[unit] = max(best.get(unit, -1.0), float(score))
        expected = sorted(best.items(), key=lambda one: (one[1], one[0]), reverse=True)[:depth]
        rows = [row for row in found.to_pylist() if row["query_id"] == query]
        assert [(row["unit_id"], row["score"]) for row in rows] == expected
    failed = reordered(ranking, lists, list(drawn), {"q1": "why"}, depth)
    assert set(failed["query_id"].to_pylist()) == {"q2"}


RETRIEVERS: dict[str, Any] = {
    "bm25": {"type": "bm25", "chunking": "parts"},
    "full": {"type": "maxsim", "input": "bm25", "candidates": "all"},
}


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    made = Tiny(tmp_path).write()
    made.config["retrievers"] = {name: dict(own) for name, own in RETRIEVERS.items()}
    made.write_config()
    return made


def test_it_is_the_reranking_of_an_input_that_finds_everything(tiny: Tiny) -> None:
    cut = {"strategy": "recursive", "overlap": 0}
    parents = {"child": {**cut, "max_tokens": 8}, "parent": {**cut, "max_tokens": 32}}
    tiny.config["chunking"]["nested"] = {"strategy": "parent", **parents}
    tiny.configure("nested", type="bm25", chunking="nested")
    tiny.configure("full-nested", type="maxsim", input="nested", candidates="all")
    tiny.run()
    pipeline, encoder = tiny.pipeline(), TokenEncoder()
    vectors = encoder.encode([row["text"] for row in QUERIES], kind="query")
    for chunking, source, full in (("parts", "bm25", "full"), ("nested", "nested", "full-nested")):
        chunks = pipeline.artifact(chunks_key(chunking)).table()
        units = unit_ids(chunks, "evidence").to_pylist()
        texts = encoder.encode(
            texts_to_index(pipeline.experiment, chunking, chunks).to_pylist(), kind="document"
        )
        ranked = tiny.ranked(full, 5)
        for row, query in zip(QUERIES, vectors, strict=True):
            best: dict[str, float] = {}
            for unit, text in zip(units, texts, strict=True):
                best[unit] = max(maxsim(query, text), best.get(unit, -1.0))
            expected = sorted(best.values(), reverse=True)[:5]
            scores = [score for _, score in ranked[row["query_id"]]]
            assert scores == pytest.approx(expected, abs=1e-4)
        # BM25 finds nothing where no word is shared; `all` does not ask it.
        found = [sum(map(len, tiny.ranked(name, 5).values())) for name in (full, source)]
        assert found[0] == 6 * 5 > found[1]


def test_pairs_are_planned_and_guarded(tiny: Tiny) -> None:
    tiny.configure("full", max_pairs=10_000)
    tiny.run()
    tiny.configure("full", query_prompt="query: ", model="sentence-transformers/all-MiniLM-L6-v2")
    pipeline = tiny.pipeline()
    chunks = pipeline.artifact(chunks_key("parts")).manifest.rows
    expected = plan(pipeline, Selection.of(pipeline.experiment))
    assert expected.work("pairs") == 6 * chunks  # once, though there are two cut-offs
    shown = tiny.command("plan", ".", columns=200)
    assert f"reranking of all chunks: at most {6 * chunks} pairs" in shown.output
    tiny.configure("full", max_pairs=6 * chunks - 1)
    problem = (
        f"retrievers.full: `candidates: all` is 6 queries x {chunks} chunks = {6 * chunks} pairs; "
        f"max_pairs allows {6 * chunks - 1}"
    )
    refused = tiny.command("plan", ".", columns=200)
    assert refused.exit_code == 2
    assert problem in refused.output.replace("\n", " ")
    with pytest.raises(UsageError, match=f"= {6 * chunks} pairs"):
        tiny.run()


@pytest.mark.parametrize(
    ("retrievers", "problem"),
    [
        (
            {"full": {"type": "mmr", "input": "bm25", "candidates": "all"}},
            "all is only for local models that score each text by itself",
        ),
        (
            {"bm25": {"type": "bm25", "chunking": "parts", "filters": True}},
            "all chunks would pass the filters of 'bm25'; give a number",
        ),
        (
            {
                "bm25": {
                    "type": "http",
                    "url": "http://127.0.0.1:9",
                    "body": {"q": "{query}", "n": "{k}"},
                    "hits": "hits",
                    "text": "text",
                    "revision": "1",
                }
            },
            "the chunks of 'bm25' are not known, as it has no chunking; give a number",
        ),
    ],
)
def test_where_all_means_nothing_it_is_refused(
    tiny: Tiny, retrievers: dict[str, Any], problem: str
) -> None:
    tiny.config["retrievers"].update(retrievers)
    tiny.write_config()
    with pytest.raises(ConfigError, match=problem):
        tiny.pipeline()
