"""The results of MMR beside those that it chose from: how alike they are."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from rag_assets.chunking.stage import chunks_key, texts_to_index
from rag_assets.models.encoder import Encoder
from rag_assets.pipeline.selection import Selection
from rag_assets.report.leaderboard import result_rows
from rag_assets.report.overlaps import similarity_sheet
from rag_assets.report.terminal_table import sheet_view
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.artifacts import ArtifactKey
from tests.shown_board import evaluated
from tests.tiny_experiment import Tiny, matching


def test_how_alike_the_results_are(bm25_only: Tiny, static_model: Path) -> None:
    model = str(static_model)
    bm25_only.config["top_k"] = [1, 3]
    bm25_only.config["primary"] = "ndcg@3"
    bm25_only.configure("vectors", type="embedding", model=model, chunking="parts")
    bm25_only.configure("diverse", type="mmr", input="vectors", model=model, **{"lambda": 0.3})
    bm25_only.run()
    pipeline = bm25_only.pipeline()
    key = ArtifactKey.of("list_similarities", retriever="diverse", top_k=3)
    rows = pipeline.artifact(key).table().to_pylist()
    chunks = pipeline.artifact(chunks_key("parts")).table()
    ids = chunks.column("chunk_id").to_pylist()
    texts = dict(zip(ids, texts_to_index(pipeline.experiment, "parts", chunks), strict=True))
    for column, retriever in (("similarity", "diverse"), ("input_similarity", "vectors")):
        run = pipeline.artifact(run_key(pipeline.experiment, retriever, 3)).table().to_pylist()
        for row in rows:
            found = [r["chunk_id"] for r in run if r["query_id"] == row["query_id"]]
            vectors = Encoder(model).encode([texts[one] for one in found], kind="document")
            cosines = [float(a @ b) for a, b in combinations(vectors, 2)]
            assert row[column] == pytest.approx(np.mean(cosines), abs=1e-6)
    assert len(rows) == 6
    own, before = (np.mean([r[n] for r in rows]) for n in ("similarity", "input_similarity"))
    assert own < before
    # A list of one result has no pair, so there is no partition.
    assert matching(pipeline, "list_similarities/*") == {"list_similarities/diverse/3"}
    result = evaluated(pipeline)
    board = result_rows(result, Selection(("diverse", "vectors"), (3,)), result.chosen_split())
    console = Console(width=80)
    with console.capture() as capture:
        sheet = similarity_sheet(result, board)
        assert sheet is not None
        console.print(sheet_view(sheet))
    _, table = capture.get().split("all pairs)")
    assert table.split()[-3:] == ["diverse", f"{own:.4f}", f"{before:.4f}"]
    assert bm25_only.run() == set()


def test_it_is_there_for_all_rerankers_or_none(bm25_only: Tiny) -> None:
    bm25_only.configure("late", type="maxsim", input="bm25")
    assert "list_similarities" not in {stage.name for stage in bm25_only.pipeline().stages()}
    bm25_only.configure("diverse", type="mmr", input="bm25")
    pipeline = bm25_only.pipeline()
    assert matching(pipeline, "list_similarities/*") == {
        f"list_similarities/{name}/{k}" for name in ("late", "diverse") for k in (3, 50)
    }
