from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.errors import StoreError
from rag_assets.store.artifacts import (
    ArtifactKey,
    ArtifactStore,
    Manifest,
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
    return ArtifactStore(tmp_path / "store", tmp_path / "locks")


def test_key_reads_as_people_write_it() -> None:
    assert str(KEY) == "runs[retriever=bm25, top_k=10]"
    assert str(ArtifactKey.of("documents")) == "documents"
    assert KEY["top_k"] == "10"


def test_nothing_is_created_before_the_first_write(store: ArtifactStore, tmp_path: Path) -> None:
    assert store.find(KEY.asset, MANIFEST.fingerprint) is None
    assert list(tmp_path.iterdir()) == []


def test_table_comes_back_with_its_manifest(store: ArtifactStore) -> None:
    written = store.write_table(TABLE, MANIFEST)
    found = store.find(KEY.asset, MANIFEST.fingerprint)
    assert found == written
    assert replace(found.manifest, files={}) == MANIFEST
    assert found.table().equals(TABLE)
    assert found.table().schema.metadata is None
    first = TABLE.column_names[:1]
    assert found.table(first).equals(TABLE.select(first))


def test_the_manifest_lies_beside_the_table_and_has_its_checksum(store: ArtifactStore) -> None:
    artifact = store.write_table(TABLE, MANIFEST)
    assert {file.name for file in artifact.path.iterdir()} == {"table.parquet", "manifest.json"}
    digest = hashlib.sha256(artifact.file.read_bytes()).hexdigest()
    assert artifact.manifest == replace(MANIFEST, files={"table.parquet": digest})
    assert pq.read_schema(artifact.file).metadata is None


def write_folder(store: ArtifactStore, content: str = "content") -> Manifest:
    def fill(folder: Path) -> Manifest:
        (folder / "data").write_text(content)
        return replace(MANIFEST, digests={})

    return store.write(KEY.asset, MANIFEST.fingerprint, fill).manifest


def test_whoever_comes_second_takes_what_is_there(store: ArtifactStore) -> None:
    """With a state folder of its own a process does not see the locks of another one."""
    first = store.write_table(TABLE, MANIFEST)
    other = ArtifactStore(store.root, store.root.parent / "elsewhere")
    found = other.write_table(TABLE.slice(1), replace(MANIFEST, digests={"all": "f" * 64}, rows=1))
    assert found == first
    assert found.table().equals(TABLE)


def test_folder_comes_back_with_its_manifest(store: ArtifactStore) -> None:
    manifest = write_folder(store)
    found = store.find(KEY.asset, MANIFEST.fingerprint)
    assert found is not None
    assert found.manifest == manifest
    assert (found.path / "data").read_text() == "content"


def again(store: ArtifactStore) -> ArtifactStore:
    """The store as another process sees it."""
    return ArtifactStore(store.root, store.root.parent / "locks")


@pytest.mark.parametrize("saved", [True, False])
def test_a_damaged_body_is_not_found_and_is_replaced(
    store: ArtifactStore, saved: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = store.write_table(TABLE, MANIFEST).file
    if saved:
        store.verified.save()
    content = bytearray(path.read_bytes())
    content[10] ^= 255
    path.write_bytes(content)
    other = again(store)
    assert other.find(KEY.asset, MANIFEST.fingerprint) is None
    assert other.find(KEY.asset, MANIFEST.fingerprint) is None
    assert len(caplog.records) == 1
    assert "is damaged" in caplog.text
    other.write_table(TABLE, MANIFEST)
    assert again(store).find(KEY.asset, MANIFEST.fingerprint) is not None


@pytest.mark.parametrize(
    ("file", "old", "new"), [("data", "content", "c0ntent"), ("manifest.json", "1.2", "1.3")]
)
def test_a_damaged_folder_is_not_found_and_is_replaced(
    store: ArtifactStore, file: str, old: str, new: str
) -> None:
    write_folder(store)
    store.verified.save()
    damaged = store.path(KEY.asset, MANIFEST.fingerprint) / file
    damaged.write_text(damaged.read_text().replace(old, new))
    assert again(store).find(KEY.asset, MANIFEST.fingerprint) is None
    write_folder(again(store))
    assert again(store).find(KEY.asset, MANIFEST.fingerprint) is not None


def test_a_file_is_hashed_once_and_again_when_its_stamp_is_another(store: ArtifactStore) -> None:
    artifact = store.write_table(TABLE, MANIFEST)
    path, files = artifact.path, artifact.manifest.files
    assert not again(store).verified.holds(path, files)
    store.verified.save()
    assert again(store).verified.holds(path, files)
    assert not again(store).verified.holds(path, {"table.parquet": "0" * 64})
    os.utime(artifact.file)
    assert not again(store).verified.holds(path, files)
    other = again(store)
    assert other.find(KEY.asset, MANIFEST.fingerprint) is not None
    other.verified.save()
    assert again(store).verified.holds(path, files)


def test_what_is_gone_is_forgotten(store: ArtifactStore) -> None:
    path = store.write_table(TABLE, MANIFEST).path
    store.verified.save()
    shutil.rmtree(path)
    store.write_table(TABLE, replace(MANIFEST, fingerprint="0" * 64))
    store.verified.save()
    (file,) = (store.root.parent / "locks").rglob("verified.json")
    assert path.name not in file.read_text()


def test_a_damaged_page_is_our_own_error(store: ArtifactStore) -> None:
    artifact = store.write_table(TABLE, MANIFEST)
    content = bytearray(artifact.file.read_bytes())
    content[40] ^= 255
    artifact.file.write_bytes(content)
    with pytest.raises(StoreError, match=r"cannot read .*, delete it"):
        artifact.table()
    artifact.file.unlink()
    with pytest.raises(StoreError, match="cannot read "):
        artifact.table()


def test_file_of_another_fingerprint_is_not_found(store: ArtifactStore) -> None:
    """The first 16 digits name the file; all of them must agree."""
    store.write_table(TABLE, MANIFEST)
    other = MANIFEST.fingerprint[:16] + "0" * 48
    assert store.find(KEY.asset, other) is None
