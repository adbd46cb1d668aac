from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.errors import StoreError
from rag_assets.store.artifacts import (
    ArtifactKey,
    ArtifactStore,
    Manifest,
    read_manifest,
    save_manifest,
)
from rag_assets.store.canonical import canonical_json, fingerprint, folder_digest
from rag_assets.store.seals import MARK

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
    assert found.manifest == MANIFEST
    assert found.table().equals(TABLE)
    assert found.table().schema.metadata is None


def test_path_names_asset_and_fingerprint_alone(store: ArtifactStore) -> None:
    path = store.write_table(TABLE, MANIFEST).path
    name = f"{MANIFEST.fingerprint[:16]}.parquet"
    assert path.relative_to(store.root).as_posix() == f"objects/runs/{name}"


def test_manifest_is_inside_the_file(store: ArtifactStore) -> None:
    path = store.write_table(TABLE, MANIFEST).path
    assert Manifest.from_json(pq.read_schema(path).metadata[b"rag_assets"]) == MANIFEST
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def write_folder(store: ArtifactStore) -> Manifest:
    with store.write_directory(KEY.asset, MANIFEST.fingerprint) as folder:
        (folder / "data").write_text("content")
        manifest = replace(MANIFEST, digests={"all": folder_digest(folder)})
        save_manifest(folder, manifest)
    return manifest


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
    path = store.write_table(TABLE, MANIFEST).path
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


def test_the_name_of_the_seal_is_sealed_too(store: ArtifactStore) -> None:
    path = store.write_table(TABLE, MANIFEST).path
    content = path.read_bytes()
    path.write_bytes(content.replace(MARK.encode(), b"x" * len(MARK)))
    assert again(store).find(KEY.asset, MANIFEST.fingerprint) is None


def test_a_table_of_an_older_version_is_believed(store: ArtifactStore) -> None:
    path = store.write_table(TABLE, MANIFEST).path
    old = canonical_json(asdict(MANIFEST)).encode()
    pq.write_table(TABLE.replace_schema_metadata({b"rag_assets": old}), path)
    found = again(store).find(KEY.asset, MANIFEST.fingerprint)
    assert found is not None
    assert found.manifest == MANIFEST


@pytest.mark.parametrize(
    ("file", "old", "new"), [("data", "content", "c0ntent"), ("manifest.json", "1.2", "1.3")]
)
def test_a_damaged_folder_is_not_found_and_is_replaced(
    store: ArtifactStore, file: str, old: str, new: str
) -> None:
    write_folder(store)
    store.verified.save()
    damaged = store.path(KEY.asset, MANIFEST.fingerprint, directory=True) / file
    damaged.write_text(damaged.read_text().replace(old, new))
    assert again(store).find(KEY.asset, MANIFEST.fingerprint) is None
    write_folder(again(store))
    assert again(store).find(KEY.asset, MANIFEST.fingerprint) is not None


def test_a_file_is_hashed_once_and_again_when_its_stamp_is_another(store: ArtifactStore) -> None:
    path = store.write_table(TABLE, MANIFEST).path
    assert not again(store).verified.holds(path)
    store.verified.save()
    assert again(store).verified.holds(path)
    os.utime(path)
    assert not again(store).verified.holds(path)
    other = again(store)
    assert other.find(KEY.asset, MANIFEST.fingerprint) is not None
    other.verified.save()
    assert again(store).verified.holds(path)


def test_what_is_gone_is_forgotten(store: ArtifactStore) -> None:
    path = store.write_table(TABLE, MANIFEST).path
    store.verified.save()
    path.unlink()
    write_folder(store)
    store.verified.save()
    (file,) = (store.root.parent / "locks").rglob("verified.json")
    assert path.name not in file.read_text()


def test_a_damaged_page_is_our_own_error(store: ArtifactStore) -> None:
    artifact = store.write_table(TABLE, MANIFEST)
    content = bytearray(artifact.path.read_bytes())
    content[40] ^= 255
    artifact.path.write_bytes(content)
    with pytest.raises(StoreError, match=r"cannot read .*\.parquet, delete it"):
        artifact.table()
    artifact.path.unlink()
    with pytest.raises(StoreError, match=r"cannot read .*\.parquet"):
        artifact.table()


@pytest.mark.parametrize("keep", [0, 10, -1, -20])
def test_truncated_file_is_not_found_and_is_replaced(store: ArtifactStore, keep: int) -> None:
    path = store.write_table(TABLE, MANIFEST).path
    path.write_bytes(path.read_bytes()[:keep])
    assert store.find(KEY.asset, MANIFEST.fingerprint) is None
    store.write_table(TABLE, MANIFEST)
    found = store.find(KEY.asset, MANIFEST.fingerprint)
    assert found is not None
    assert found.table().equals(TABLE)


@pytest.mark.parametrize("damage", ["{", "{}", "[]", '{"asset": "runs"}', "null", "\xff"])
def test_folder_with_a_damaged_manifest_is_not_found_and_is_replaced(
    store: ArtifactStore, damage: str
) -> None:
    path = store.path(KEY.asset, MANIFEST.fingerprint, directory=True)
    path.mkdir(parents=True)
    (path / "manifest.json").write_text(damage, encoding="latin-1")
    assert store.find(KEY.asset, MANIFEST.fingerprint) is None
    write_folder(store)
    assert store.find(KEY.asset, MANIFEST.fingerprint) is not None


def test_file_of_another_fingerprint_is_not_found(store: ArtifactStore) -> None:
    """The first 16 digits name the file; all of them must agree."""
    path = store.path(KEY.asset, MANIFEST.fingerprint)
    assert path.name == f"{MANIFEST.fingerprint[:16]}.parquet"
    assert store.path(KEY.asset, MANIFEST.fingerprint, directory=True).name == path.stem
    store.write_table(TABLE, MANIFEST)
    other = MANIFEST.fingerprint[:16] + "0" * 48
    assert store.find(KEY.asset, other) is None


def test_parquet_without_a_manifest_has_none(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "x.parquet")
    assert read_manifest(tmp_path / "x.parquet") is None
    assert read_manifest(tmp_path / "absent.parquet") is None
