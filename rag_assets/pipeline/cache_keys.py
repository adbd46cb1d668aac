"""Which texts the snapshots of a store need vectors of, as keys of the vector caches.

The key of a vector is the SHA-256 of a prompt and a text. Texts are those of chunks, as they are
indexed, and of queries and their variants; prompts are those in the artifacts' manifests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from rag_assets.chunking.spans import indexed_texts
from rag_assets.experiment.names import RESERVED
from rag_assets.pipeline.evaluation_names import snapshot_ids
from rag_assets.pipeline.evaluations import FOLDER, Evaluation, read_evaluation
from rag_assets.pipeline.history_files import FOLDER as HISTORY
from rag_assets.store.artifacts import read_manifest, table_file
from rag_assets.store.parquet_files import read_parquet
from rag_assets.store.segments import KEY


def snapshots_of(root: Path) -> list[Evaluation]:
    """Return all snapshots of an experiment.

    Raises:
        StoreError: one cannot be read, so it is not known what it names.
    """
    return [read_evaluation(root / FOLDER / f"{name}.json") for name in snapshot_ids(root)]


def experiment_roots(store: Path) -> list[Path]:
    """Return the folders of all experiments of which anything is stored, evaluated or not."""
    found = {place.parent for name in (FOLDER, HISTORY) for place in store.glob(f"*/{name}")}
    return sorted(root for root in found if root.name not in RESERVED)


def used_keys(roots: Iterable[Path]) -> pa.Array:
    """Return the keys of all vectors that the snapshots of some experiments may need.

    Raises:
        StoreError: a snapshot cannot be read.
    """
    texts: set[str] = set()
    prompts = {""}
    for root in roots:
        paths = {(e.asset, root.parent / e.path) for one in snapshots_of(root) for e in one.entries}
        for asset, path in sorted(paths):
            if path.exists():
                texts.update(_texts(asset, table_file(path)))
                prompts.update(prompts_in(path))
    return vector_keys(texts, prompts)


def vector_keys(texts: Iterable[str], prompts: Iterable[str]) -> pa.Array:
    """Return the key of every text with every prompt."""
    both = list(prompts)
    found = {hashlib.sha256((p + text).encode()).digest() for text in texts for p in both}
    return pa.array(sorted(found), KEY)


def chunk_texts(chunks: pa.Table) -> set[str]:
    """Return the texts of chunks, in each form in which one may be embedded."""
    plain = set(chunks.column("text").to_pylist())
    return plain.union(indexed_texts(chunks), indexed_texts(chunks, headings=True))


def prompts_in(path: Path) -> Iterator[str]:
    """Yield the prompts that the manifest of an artifact names."""
    manifest = read_manifest(path)
    if manifest is not None:
        yield from _prompts(manifest.config)


def _prompts(config: Mapping[str, object]) -> Iterator[str]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _prompts(value)
        elif name.endswith("prompt") and isinstance(value, str):
            yield value


def _texts(asset: str, path: Path) -> set[str]:
    match asset:
        case "chunks":
            return chunk_texts(read_parquet(path))
        case "queries" | "query_sets":
            column = read_parquet(path, ["text"]).column("text")
            return set(column.to_pylist())
        case _:
            return set()
