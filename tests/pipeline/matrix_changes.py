"""The changes of the invalidation matrix: each edits the files of an experiment or its store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assets.engine.measurements import MEASUREMENTS
from rag_assets.store.artifacts import OBJECTS
from rag_assets.store.atomic import TABLE
from tests.changed_code import change_code
from tests.pipeline.matrix_experiment import DOCUMENTS, JUDGMENTS, QUERIES, Matrix

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
