from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.errors import StoreError
from rag_assets.store import blocks
from rag_assets.store.artifacts import Artifact, ArtifactKey, ArtifactStore, Manifest
from rag_assets.store.blocks import (
    BlockedTable,
    KnownBlocks,
    block_ends,
    records_digest,
    rows_digest,
    similar_artifacts,
    stored_blocks,
    table_blocks,
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


TARGET = 200


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "TARGET", TARGET)
        patch.setattr(blocks, "MOST", 8 * TARGET)
        yield


RECORDS = st.lists(st.binary(min_size=1, max_size=60), max_size=120, unique=True)


def split(records: list[bytes]) -> list[list[bytes]]:
    ends = block_ends([record.hex() for record in records], map(len, records))
    return [records[start:end] for start, end in pairwise([0, *ends])]


def digests(records: list[bytes]) -> list[str]:
    return [records_digest(pa.array(block, pa.binary()), "") for block in split(records)]


@given(RECORDS)
def test_blocks_hold_all_records_in_their_order(records: list[bytes]) -> None:
    found = split(records)
    assert [record for block in found for record in block] == records
    assert all(found)


@given(RECORDS, st.binary(min_size=1, max_size=60), st.data())
def test_an_inserted_record_makes_at_most_two_new_blocks(
    records: list[bytes], new: bytes, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(records)))
    before, after = digests(records), digests([*records[:place], new, *records[place:]])
    # A block that is larger than the most has cuts inside, which may all move.
    if all(size < blocks.MOST for size in sizes(records) + sizes([*records, new])):
        assert len(set(after) - set(before)) <= 2
        assert len(set(before) - set(after)) <= 1


@given(RECORDS.filter(bool), st.data())
def test_a_removed_record_makes_at_most_one_new_block(
    records: list[bytes], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(records) - 1))
    before, after = digests(records), digests([*records[:place], *records[place + 1 :]])
    if all(size < blocks.MOST for size in sizes(records)):
        assert len(set(after) - set(before)) <= 1


def sizes(records: list[bytes]) -> list[int]:
    """Return the bytes of runs of records that no boundary of theirs ends."""
    return [sum(map(len, block)) for block in split(records)]


@given(RECORDS)
def test_no_block_is_much_larger_than_the_most(records: list[bytes]) -> None:
    assert all(size < blocks.MOST + 60 for size in sizes(records * 5))


def table(ids: list[str]) -> pa.Table:
    return pa.table({"id": ids, "text": [f"text of {one} " * 5 for one in ids]})


def stored(store: ArtifactStore, name: str, built: BlockedTable, code: str = "c") -> Artifact:
    rows = built.table()
    manifest = Manifest(
        "chunks", name * 32, {"all": "d"}, {"files": name, "size": 3}, {}, {}, rows.num_rows,
        code_version=code, blocks=built.blocks,
    )  # fmt: skip
    return store.write_table(rows, manifest)


def built(ids: list[str], known: KnownBlocks) -> BlockedTable:
    found = BlockedTable(known)
    blocks = table_blocks(table(ids), "id", "text")
    found.add(((rows_digest(rows), partial(pa.concat_tables, [rows])) for rows in blocks), _same)
    return found


def _same(rows: pa.Table) -> pa.Table:
    return rows


def test_only_blocks_that_no_stored_table_has_are_computed(tmp_path: Path) -> None:
    store, ids = ArtifactStore(tmp_path, tmp_path / "locks"), [f"d{n}" for n in range(400)]
    first = built(ids, KnownBlocks())
    assert first.computed == len(first.blocks) > 50
    stored(store, "a", first)
    changed = [*ids[:200], "new", *ids[200:]]
    alike = list(similar_artifacts(store, "chunks", "c", {"files": "other", "size": 3}, {}))
    second = built(changed, KnownBlocks(alike))
    assert second.computed <= 2
    assert second.table().equals(table(changed))
    assert second.blocks == built(changed, KnownBlocks()).blocks


@pytest.mark.parametrize(
    ("code", "config", "versions"),
    [("other", {"size": 3}, {}), ("c", {"size": 4}, {}), ("c", {"size": 3}, {"engine": "2"})],
)
def test_other_code_configuration_or_engines_give_no_block(
    tmp_path: Path, code: str, config: dict[str, int], versions: dict[str, str]
) -> None:
    store = ArtifactStore(tmp_path, tmp_path / "locks")
    stored(store, "a", built(["a", "b"], KnownBlocks()))
    assert list(similar_artifacts(store, "chunks", code, config, versions)) == []
    assert len(list(similar_artifacts(store, "chunks", "c", {"size": 3}, {}))) == 1


def test_what_is_computed_from_a_table_of_blocks_goes_by_their_rows(tmp_path: Path) -> None:
    store, ids = ArtifactStore(tmp_path, tmp_path / "locks"), [f"d{n}" for n in range(400)]
    first = stored(store, "a", built(ids, KnownBlocks()))
    again = stored(store, "b", built([*ids[:200], "new", *ids[200:]], KnownBlocks([first])))
    whole = replace(first, manifest=replace(first.manifest, blocks=()))
    for artifact in (first, again, whole):
        found = [(digest, rows()) for digest, rows in stored_blocks(artifact, "id", "text")]
        assert pa.concat_tables([rows for _, rows in found]).equals(artifact.table())
        assert [digest for digest, _ in found] == [rows_digest(rows) for _, rows in found]
        assert len(found) > 50
    names = [{digest for digest, _ in stored_blocks(one, "id", "text")} for one in (first, again)]
    assert len(names[1] - names[0]) <= 2


def test_a_table_of_blocks_that_is_damaged_or_gone(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, tmp_path / "locks")
    one = stored(store, "a", built(["a", "b"], KnownBlocks()))
    known = KnownBlocks([one])
    one.file.write_bytes(b"PAR1")
    with pytest.raises(StoreError, match="delete it"):
        [rows() for _, rows in stored_blocks(one, "id", "text")]
    one.file.unlink()
    assert known.rows(one.manifest.blocks[0][0]) is None
    assert built(["a", "b"], known).table().equals(table(["a", "b"]))


def test_blocks_across_row_groups_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_assets.store.artifacts.GROUP_BYTES", 1_000)
    store, ids = ArtifactStore(tmp_path, tmp_path / "locks"), [f"d{n}" for n in range(100)]
    again = built(ids, KnownBlocks([stored(store, "a", built(ids, KnownBlocks()))]))
    assert again.computed == 0
    assert again.table().equals(table(ids))
