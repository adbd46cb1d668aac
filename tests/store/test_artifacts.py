from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.store.artifacts import (
    ArtifactKey,
    ArtifactStore,
    Manifest,
    read_manifest,
    save_manifest,
)
from rag_assets.store.canonical import fingerprint

KEY = ArtifactKey.of("runs", retriever="bm25", top_k=10)
TABLE = pa.table({"query_id": ["q1", "q2"], "score": [1.5, None]})
MANIFEST = Manifest(
    asset="runs",
    fingerprint=fingerprint("recipe"),
    digests={"all": fingerprint("content")},
    config={"k1": 1.2},
    inputs={"index": "abc"},
    versions={"engine": "1"},
    rows=2,
    facts={"notes": ["a note"]},
)


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store", "tiny", tmp_path / "locks")


def test_key_reads_as_people_write_it() -> None:
    assert str(KEY) == "runs[retriever=bm25, top_k=10]"
    assert str(ArtifactKey.of("documents")) == "documents"
    assert KEY["top_k"] == "10"


def test_nothing_is_created_before_the_first_write(store: ArtifactStore, tmp_path: Path) -> None:
    assert store.find(KEY, MANIFEST.fingerprint) is None
    assert list(tmp_path.iterdir()) == []


def test_table_comes_back_with_its_manifest(store: ArtifactStore) -> None:
    written = store.write_table(KEY, TABLE, MANIFEST)
    found = store.find(KEY, MANIFEST.fingerprint)
    assert found == written
    assert found.manifest == MANIFEST
    assert found.table().equals(TABLE)
    assert found.table().schema.metadata is None


def test_path_names_asset_partition_and_fingerprint(store: ArtifactStore) -> None:
    path = store.write_table(KEY, TABLE, MANIFEST).path
    name = f"{MANIFEST.fingerprint[:16]}.parquet"
    assert path.relative_to(store.root.parent).as_posix() == (
        f"tiny/runs/retriever=bm25/top_k=10/{name}"
    )


def test_manifest_is_inside_the_file(store: ArtifactStore) -> None:
    path = store.write_table(KEY, TABLE, MANIFEST).path
    assert Manifest.from_json(pq.read_schema(path).metadata[b"rag_assets"]) == MANIFEST
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_folder_comes_back_with_its_manifest(store: ArtifactStore) -> None:
    with store.write_directory(KEY, MANIFEST.fingerprint) as folder:
        (folder / "data").write_text("content")
        save_manifest(folder, MANIFEST)
    found = store.find(KEY, MANIFEST.fingerprint)
    assert found is not None
    assert found.manifest == MANIFEST
    assert (found.path / "data").read_text() == "content"


@pytest.mark.parametrize("keep", [0, 10, -1, -20])
def test_truncated_file_is_not_found_and_is_replaced(store: ArtifactStore, keep: int) -> None:
    path = store.write_table(KEY, TABLE, MANIFEST).path
    path.write_bytes(path.read_bytes()[:keep])
    assert store.find(KEY, MANIFEST.fingerprint) is None
    store.write_table(KEY, TABLE, MANIFEST)
    found = store.find(KEY, MANIFEST.fingerprint)
    assert found is not None
    assert found.table().equals(TABLE)


@pytest.mark.parametrize("damage", ["{", "{}", "[]", '{"asset": "runs"}', "null", "\xff"])
def test_folder_with_a_damaged_manifest_is_not_found_and_is_replaced(
    store: ArtifactStore, damage: str
) -> None:
    path = store.path(KEY, MANIFEST.fingerprint, directory=True)
    path.mkdir(parents=True)
    (path / "manifest.json").write_text(damage, encoding="latin-1")
    assert store.find(KEY, MANIFEST.fingerprint) is None
    with store.write_directory(KEY, MANIFEST.fingerprint) as folder:
        save_manifest(folder, MANIFEST)
    assert store.find(KEY, MANIFEST.fingerprint) is not None


def test_file_of_another_fingerprint_is_not_found(store: ArtifactStore) -> None:
    """The first 16 digits name the file; all of them must agree."""
    store.write_table(KEY, TABLE, MANIFEST)
    other = MANIFEST.fingerprint[:16] + "0" * 48
    assert store.find(KEY, other) is None


def test_parquet_without_a_manifest_has_none(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "x.parquet")
    assert read_manifest(tmp_path / "x.parquet") is None
    assert read_manifest(tmp_path / "absent.parquet") is None
