"""An edit of one document among many computes its block, and gives what a new store gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rag_assets.chunking.chunker import cut_documents
from rag_assets.chunking.recursive import RecursiveChunking
from rag_assets.chunking.sentences import SemanticChunking
from rag_assets.chunking.windows import ParentChunking
from rag_assets.experiment.load import load_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.stages import STAGES
from rag_assets.store import blocks
from rag_assets.store.artifacts import Artifact
from rag_assets.store.settings import StoreSettings

Texts = dict[str, str]
TEXTS = {f"d{number:03d}": f"Text {number}. It has words.\n\nAnd more." for number in range(240)}
TABLES = ("documents", "chunks", "contexts")
ASSETS = ("documents", "queries", "qrels", "chunks", "contexts", "term_counts", "lexical_index")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "TARGET", 400)


def write(folder: Path, texts: Texts, chunking: dict[str, object]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"id": one, "text": text}) for one, text in texts.items()]
    (folder / "documents.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "queries.jsonl").write_text('{"query_id": "q", "text": "words"}', encoding="utf-8")
    judgment = '{"query_id": "q", "doc_id": "d001"}'
    (folder / "judgments.jsonl").write_text(judgment, encoding="utf-8")
    config = {
        "name": "many",
        "dataset": {"format": "jsonl", "judge": "document"},
        "chunking": {"parts": chunking},
        "retrievers": {"bm25": {"type": "bm25", "chunking": "parts", "analyzer": "english"}},
        "top_k": [3],
        "metrics": ["ndcg"],
        "primary": "ndcg@3",
    }
    (folder / "experiment.yaml").write_text(json.dumps(config), encoding="utf-8")


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder for all stores: the versions of the code are found once."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture
def computed(tmp_path: Path, state: Path) -> Callable[[str], dict[str, Artifact]]:
    """Return a function that gives what the experiment has in a store, computed where needed."""

    def compute(store: str) -> dict[str, Artifact]:
        settings = StoreSettings(tmp_path / store, state)
        pipeline = Pipeline(load_experiment(tmp_path / "many"), settings)
        keys = {asset: STAGES[asset].keys(pipeline.experiment) for asset in ASSETS}
        return {asset: pipeline.materialize(asset, keys[asset])[0].artifact for asset in ASSETS}

    return compute


def edited(texts: Texts) -> Texts:
    return {**texts, "d120": "Another text."}


def inserted(texts: Texts) -> Texts:
    rows = list(texts.items())
    return dict([*rows[:90], ("new", "A new text."), *rows[90:]])


def removed(texts: Texts) -> Texts:
    return {one: text for one, text in texts.items() if one != "d077"}


def moved(texts: Texts) -> Texts:
    return {**removed(texts), "d077": texts["d077"]}


CHANGES = [(edited, 2), (inserted, 2), (removed, 1), (moved, 3)]
CUT: list[dict[str, object]] = [
    {"strategy": "none"},
    {"strategy": "recursive", "max_characters": 20, "overlap": 0},
    {
        "strategy": "parent",
        "child": {"strategy": "sentences", "sentences": 1},
        "parent": {"strategy": "none"},
    },
]


@pytest.mark.parametrize(
    ("chunking", "change", "most"),
    [*((CUT[0], *change) for change in CHANGES), *((one, edited, 2) for one in CUT[1:])],
)
def test_a_change_computes_its_blocks_and_gives_what_a_new_store_gives(
    tmp_path: Path,
    computed: Callable[[str], dict[str, Artifact]],
    chunking: dict[str, object],
    change: Callable[[Texts], Texts],
    most: int,
) -> None:
    write(tmp_path / "many", TEXTS, chunking)
    before = computed("store")
    write(tmp_path / "many", change(TEXTS), chunking)
    after, anew = computed("store"), computed("new")
    for asset in ASSETS:
        assert after[asset].manifest.digests == anew[asset].manifest.digests
    for asset in TABLES:
        known = {block.digest for block in before[asset].manifest.blocks}
        new = [one for one in after[asset].manifest.blocks if one.digest not in known]
        assert len(new) <= (most if known else 0)
        if change is not moved or asset == "documents":  # a move changes the order of rows only
            assert after[asset].table().equals(anew[asset].table())
            assert after[asset].manifest.blocks == anew[asset].manifest.blocks


def test_only_the_changed_block_is_cut(
    tmp_path: Path,
    computed: Callable[[str], dict[str, Artifact]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, cut = tmp_path / "many", list[int]()
    write(folder, TEXTS, CUT[0])
    computed("store")
    write(folder, edited(TEXTS), CUT[0])

    def watched(documents: pa.Table, **options: Any) -> pa.Table:
        cut.append(len(documents))
        return cut_documents(documents, **options)

    monkeypatch.setattr("rag_assets.chunking.stage.cut_documents", watched)
    computed("store")
    assert 1 <= len(cut) <= 2
    assert sum(cut) < 60


def test_semantic_chunking_says_that_it_is_not_by_blocks() -> None:
    semantic = SemanticChunking.model_validate({"strategy": "semantic"})
    recursive = RecursiveChunking(strategy="recursive")
    assert not semantic.by_blocks
    assert recursive.by_blocks
    assert not ParentChunking(strategy="parent", child=semantic, parent=recursive).by_blocks
    assert ParentChunking(strategy="parent", child=recursive, parent=recursive).by_blocks
