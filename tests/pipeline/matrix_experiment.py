"""The experiment of the invalidation matrix, and the changes that are made to it.

A corpus file, a lexical, an embedding and a fused retriever, two cut-offs; one document is one
chunk, until the chunk size says otherwise. A change edits the files of the experiment or its store.
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rag_assets.engine.measurements import MEASUREMENTS
from rag_assets.store.artifacts import OBJECTS
from rag_assets.store.atomic import TABLE
from tests.changed_code import change_code
from tests.static_model import save_static_model
from tests.tiny_experiment import Tiny

DOCUMENTS: list[dict[str, Any]] = [
    {"id": "fares", "text": "A single ticket costs 40 crowns. A dog needs a ticket of 10 crowns."},
    {"id": "harbours", "text": "The southern harbour closes when the wind is strong."},
    {"id": "engines", "text": "Each ferry has two engines. The oil is changed after 500 hours."},
    {"id": "jackets", "text": "Life jackets for children are stored beside the bridge."},
    {"id": "lost", "text": "Lost property is kept for 30 days."},
]

QUERIES: list[dict[str, Any]] = [
    {"query_id": "q1", "text": "what does a ticket for a dog cost", "tags": ["fares"]},
    {"query_id": "q2", "text": "when does the southern harbour close"},
    {"query_id": "q3", "text": "how often is the oil of the engines changed"},
    {"query_id": "q4", "text": "where are life jackets"},
]

JUDGMENTS: list[dict[str, Any]] = [
    {"query_id": "q1", "doc_id": "fares", "relevance": 2},
    {"query_id": "q2", "doc_id": "harbours", "relevance": 1},
    {"query_id": "q3", "doc_id": "engines", "relevance": 1},
    {"query_id": "q4", "doc_id": "jackets", "relevance": 1},
]

CONFIG: dict[str, Any] = {
    "name": "matrix",
    "dataset": {"format": "jsonl", "judge": "document"},
    "chunking": {"parts": {"strategy": "recursive", "max_tokens": 40, "overlap": 0}},
    "retrievers": {
        "bm25": {"type": "bm25", "chunking": "parts", "analyzer": "english", "k1": 1.2},
        "dense": {"type": "embedding", "chunking": "parts", "model": "../models/first"},
        "hybrid": {"type": "rrf", "inputs": ["bm25", "dense"], "candidates": 3},
    },
    "top_k": [1, 3],
    "metrics": ["mrr", "ndcg"],
    "primary": "ndcg@3",
    "baseline": "bm25",
    "measurements": {"latency_sample": 1},
    "statistics": {"resamples": 100},
}


@dataclass
class Matrix(Tiny):
    """The experiment's folder, its models and its store."""

    config: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(CONFIG))

    def write(self) -> Matrix:
        texts = [row["text"] for row in (*DOCUMENTS, *QUERIES)]
        for seed, name in enumerate(("first", "second")):
            save_static_model(self.models / name, texts, seed=seed)
        return self.write_files()

    def write_files(self) -> Matrix:
        """Write all but the models."""
        self.folder.mkdir(parents=True)
        self.write_rows("documents.jsonl", DOCUMENTS)
        self.write_rows("queries.jsonl", QUERIES)
        self.write_rows("judgments.jsonl", JUDGMENTS)
        self.write_config()
        return self

    @property
    def models(self) -> Path:
        return self.root / "models"

    def write_config(self) -> None:
        """Write the YAML; models are named by where they are now."""
        written = copy.deepcopy(self.config)
        for retriever in written["retrievers"].values():
            if "model" in retriever:
                retriever["model"] = str(self.root / retriever["model"].removeprefix("../"))
        kept, self.config = self.config, written
        super().write_config()
        self.config = kept

    def copied(self, root: Path) -> Matrix:
        """Return a copy whose configuration names the copied models."""
        moved = Matrix(root, self.copy_to(root).config)
        moved.write_config()
        return moved

    def n_vectors(self) -> int:
        """Return how many texts were embedded and kept."""
        files = (self.root / "store" / "cache" / "embeddings").rglob("*.parquet")
        return sum(pq.read_metadata(file).num_rows for file in files)


Change = Callable[[Matrix], object]
Upgrade = Callable[[Matrix, pytest.MonkeyPatch], object]


def documents(*rows: dict[str, object]) -> Change:
    """Put rows in place of those of the same id; new ones at the end."""
    new = {row["id"]: row for row in rows}
    kept = [new.pop(row["id"], row) for row in DOCUMENTS]
    return lambda matrix: matrix.write_rows("documents.jsonl", [*kept, *new.values()])


def renamed_document(matrix: Matrix) -> None:
    matrix.replace("documents.jsonl", '"id": "lost"', '"id": "zzz"')


def several_documents(matrix: Matrix) -> None:
    rows = [{**row, "text": f"{row['text']} Really."} for row in DOCUMENTS[:3]]
    matrix.write_rows("documents.jsonl", [*rows, DOCUMENTS[3]])


def removed_query(matrix: Matrix) -> None:
    matrix.write_rows("queries.jsonl", QUERIES[:-1])
    matrix.write_rows("judgments.jsonl", JUDGMENTS[:-1])


def retriever(name: str, **options: object) -> Change:
    """Change options of a retriever, or add one."""
    return lambda matrix: matrix.configure(name, **options)


def without_retriever(matrix: Matrix) -> None:
    del matrix.config["retrievers"]["hybrid"]
    matrix.write_config()


def renamed_retriever(matrix: Matrix) -> None:
    retrievers = matrix.config["retrievers"]
    retrievers["static"] = retrievers.pop("dense")
    retrievers["hybrid"]["inputs"] = ["bm25", "static"]
    matrix.write_config()


def setting(name: str, value: object) -> Change:
    """Change one key of the YAML."""

    def change(matrix: Matrix) -> None:
        matrix.config[name] = value
        matrix.write_config()

    return change


def cut(n_tokens: int) -> Change:
    return setting(
        "chunking", {"parts": {"strategy": "recursive", "max_tokens": n_tokens, "overlap": 0}}
    )


def other_revision(matrix: Matrix) -> None:
    """The same name, other weights: what a hub does when a model is published again."""
    weights = "model.safetensors"
    for folder in (matrix.models / "first").rglob(weights):
        below = folder.relative_to(matrix.models / "first")
        shutil.copy(matrix.models / "second" / below, folder)


def moved_model(matrix: Matrix) -> None:
    (matrix.models / "first").rename(matrix.models / "moved")
    matrix.configure("dense", model="../models/moved")


def renamed_folder(matrix: Matrix) -> None:
    """The name of the experiment is in its YAML."""
    (matrix.root / "data").rename(matrix.root / "elsewhere")
    (matrix.root / "data").symlink_to(matrix.root / "elsewhere")


def touched(matrix: Matrix) -> None:
    for file in matrix.folder.iterdir():
        os.utime(file)


def upgraded(name: str) -> Upgrade:
    """A new version of this program, in which a stage or a retriever type computes differently."""

    def change(matrix: Matrix, patch: pytest.MonkeyPatch) -> None:
        change_code(patch, name)

    return change


def deleted(asset: str, *values: str | int) -> Change:
    return lambda matrix: matrix.lose(asset, *values)


def flipped(asset: str, *values: str | int, name: str = "*.parquet") -> Change:
    """Turn a byte in the middle of a file; its size and its end stay."""

    def change(matrix: Matrix) -> None:
        (path,) = matrix.stored(asset, *values)
        (file,) = path.rglob(name) if path.is_dir() else [path]
        flip(file)

    return change


def truncated(asset: str, *values: str | int) -> Change:
    def change(matrix: Matrix) -> None:
        (path,) = matrix.stored(asset, *values)
        file = path / TABLE
        file.write_bytes(file.read_bytes()[:-9])

    return change


def without_vectors(matrix: Matrix) -> None:
    """The cache is lost, and a document is edited."""
    shutil.rmtree(matrix.root / "store" / "cache")
    matrix.replace("documents.jsonl", "30 days", "60 days")


def without_state(matrix: Matrix) -> None:
    """All that is kept beside the artifacts: locks, stamps, the digests of source files."""
    for place in (matrix.root / "store").iterdir():
        if place.name not in (matrix.artifacts.name, OBJECTS, MEASUREMENTS, "cache"):
            shutil.rmtree(place) if place.is_dir() else place.unlink()


def flip(file: Path) -> None:
    """Turn a byte; the size stays."""
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 255
    file.write_bytes(content)
