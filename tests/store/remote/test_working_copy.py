from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from rag_assets.errors import StoreError
from rag_assets.store.content_cache import KEY, ContentCache
from rag_assets.store.remote.address import Address
from rag_assets.store.remote.mirror import make_working_copy, mirror, working_copy_of
from rag_assets.store.remote.objects import Objects
from rag_assets.store.remote.removals import apply_removed, fetch_all, remove_everywhere
from rag_assets.store.remote.working_copy import WorkingCopy
from tests.s3_server import deny_access


def objects(address: str) -> Objects:
    found = Address.of(address)
    assert found is not None
    return Objects(found)


def copy_at(folder: Path, address: str) -> WorkingCopy:
    found = Address.of(address)
    assert found is not None
    make_working_copy(found, folder)
    copy = working_copy_of(folder)
    assert copy is not None
    return copy


@pytest.fixture
def here(tmp_path: Path, s3_store: str) -> WorkingCopy:
    return copy_at(tmp_path / "here", s3_store)


@pytest.fixture
def other(tmp_path: Path, s3_store: str) -> WorkingCopy:
    return copy_at(tmp_path / "other", s3_store)


def written(copy: WorkingCopy, name: str, text: str) -> Path:
    path = copy.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_objects_are_written_listed_read_and_deleted(s3_store: str, tmp_path: Path) -> None:
    store = objects(s3_store)
    assert store.listed("") == {}
    assert store.read("a/x=1/one.txt") is None
    store.write("a/x=1/one.txt", b"one")
    store.write("a/two.txt", b"two")
    assert {name: listed.size for name, listed in store.listed("").items()} == {
        "a/x=1/one.txt": 3,
        "a/two.txt": 3,
    }
    assert set(store.listed("a", recursive=False)) == {"a/two.txt"}
    assert store.folders() == ["a"]
    assert store.fetch("a/two.txt", tmp_path / "new" / "two.txt")
    assert (tmp_path / "new" / "two.txt").read_bytes() == b"two"
    assert not store.fetch("a/three.txt", tmp_path / "three.txt")
    assert not (tmp_path / "three.txt").exists()
    store.delete("a/two.txt")
    store.delete("a/two.txt")
    assert set(store.listed("")) == {"a/x=1/one.txt"}


def test_a_large_file_arrives_whole(s3_store: str, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096 * 21  # 21 MB: more than one part of an upload
    (tmp_path / "large").write_bytes(content)
    store = objects(s3_store)
    store.send(tmp_path / "large", "large")
    store.fetch("large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content


def test_what_is_there_is_not_sent_again_and_wins(here: WorkingCopy, other: WorkingCopy) -> None:
    first = written(here, "ferry/chunks/1.parquet", "of here")
    here.note(first)
    here.flush()
    second = written(other, "ferry/chunks/1.parquet", "of the other")
    other.note(second)
    other.flush()
    assert here.objects.read("ferry/chunks/1.parquet") == b"of here"
    assert second.read_text() == "of here"


def test_a_folder_is_there_when_its_manifest_is(here: WorkingCopy, other: WorkingCopy) -> None:
    folder = written(here, "ferry/index/12ab/data/values", "values").parents[1]
    written(here, "ferry/index/12ab/manifest.json", '{"files": {"data/values": ""}}')
    here.objects.write("ferry/index/12ab/data/values", b"of an upload that was interrupted")
    assert not other.fetch_artifact(other.root / "ferry/index/12ab")
    here.note(folder)
    here.flush()
    written(other, "ferry/index/12ab/data/values", "of a download that was interrupted")
    assert other.fetch_artifact(other.root / "ferry/index/12ab")
    assert (other.root / "ferry/index/12ab/data/values").read_text() == "values"


def test_segments_of_a_cache_are_brought_when_it_is_read(
    here: WorkingCopy, other: WorkingCopy
) -> None:
    def opened(copy: WorkingCopy) -> ContentCache:
        schema = pa.schema([pa.field("score", pa.float64(), False)])
        return ContentCache(copy.root / "cache" / "scores", schema)

    keys = pa.array([b"a" * 32, b"b" * 32], KEY)
    opened(here).put(keys, [pa.array([1.0, 2.0])])
    here.flush()
    cache = opened(other)
    assert not other.root.joinpath("cache").exists()
    (hits,) = cache.find(pa.array([b"b" * 32, b"c" * 32], KEY))
    assert hits.asked.tolist() == [0]
    assert hits.chosen()["score"].to_pylist() == [2.0]


def test_small_files_follow_what_is_done_to_them(here: WorkingCopy) -> None:
    path = written(here, "ferry/anchor", "one")
    mirror(path)
    path.write_text("two")
    mirror(path)
    assert here.objects.read("ferry/anchor") == b"two"
    path.unlink()
    mirror(path)
    assert here.objects.read("ferry/anchor") is None


def test_a_removal_reaches_other_copies_once(here: WorkingCopy, other: WorkingCopy) -> None:
    for name in ("a/old.parquet", "a/x/12/manifest.json", "a/x/12/data", "a/kept.parquet"):
        here.objects.write(name, b"")
    apply_removed(other)
    fetch_all(other.root)
    fetch_all(here.root)
    here.note(written(here, "a/new.parquet", ""))
    here.flush()
    remove_everywhere(here.root, [here.root / "a/old.parquet", here.root / "a/x/12"])
    assert set(here.objects.listed("a")) == {"a/kept.parquet", "a/new.parquet"}
    assert (other.root / "a/x/12/data").exists()
    apply_removed(other)
    assert {path.name for path in (other.root / "a").rglob("*")} == {"kept.parquet"}
    written(other, "a/old.parquet", "made again")
    apply_removed(other)
    assert (other.root / "a/old.parquet").exists()


def test_what_was_made_again_after_a_removal_stays(here: WorkingCopy, other: WorkingCopy) -> None:
    here.objects.write("a/1.parquet", b"")
    fetch_all(other.root)
    fetch_all(here.root)
    remove_everywhere(here.root, [here.root / "a/1.parquet"])
    here.objects.write("a/1.parquet", b"")
    apply_removed(other)
    other.fetch([other.root / "a/1.parquet"])
    assert (other.root / "a/1.parquet").exists()


def test_a_removal_that_was_interrupted_is_not_undone(
    here: WorkingCopy, other: WorkingCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/1.parquet", "a/2.parquet"):
        here.objects.write(name, b"")
    for copy in (here, other):
        apply_removed(copy)
        fetch_all(copy.root)
    doomed = [here.root / "a/1.parquet", here.root / "a/2.parquet"]
    delete = Objects.delete

    def killed_at_the_second(self: Objects, name: str) -> None:
        if name.endswith("2.parquet"):
            raise KeyboardInterrupt
        delete(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(Objects, "delete", killed_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            remove_everywhere(here.root, doomed)
    apply_removed(other)
    assert list((other.root / "a").glob("*")) == []
    other.send_missing(other.root / "a")
    assert set(here.objects.listed("a")) == {"a/2.parquet"}
    remove_everywhere(here.root, doomed)
    assert here.objects.listed("a") == {}


def test_no_name_leads_out_of_a_working_copy(here: WorkingCopy, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    apply_removed(here)
    here.objects.write("_removed/1.json", b'["../mine.txt"]')
    with pytest.raises(StoreError, match="holds a name that leads out of it"):
        apply_removed(here)
    with pytest.raises(StoreError, match="holds a name that leads out of it"):
        here.fetch([here.root / "ferry" / ".." / ".." / "other.txt"])
    here.objects.write("objects/chunks/12/manifest.json", b'{"files": {"/etc/passwd": ""}}')
    with pytest.raises(StoreError, match="holds a name that leads out of it"):
        here.fetch_artifact(here.root / "objects" / "chunks" / "12")
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_missing_bucket_is_one_line(s3_store: str, s3_url: str) -> None:
    store = objects("s3://not-there/a")
    for do in (lambda: store.listed(""), lambda: store.write("a", b"")):
        with pytest.raises(StoreError) as error:
            do()
        assert str(error.value) == (
            "the store s3://not-there/a cannot be used: there is no bucket 'not-there' at "
            f"{s3_url} (AWS_ENDPOINT_URL); create it first"
        )


def test_denied_access_is_one_line(s3_store: str, s3_url: str) -> None:
    store = objects(s3_store)
    deny_access(s3_url, deny=True)
    try:
        for do in (
            lambda: store.listed(""),
            lambda: store.read("a"),
            lambda: store.write("a", b""),
        ):
            with pytest.raises(StoreError) as error:
                do()
            assert f"access was denied at {s3_url} (AWS_ENDPOINT_URL)" in str(error.value)
            assert "AWS_ACCESS_KEY_ID" in str(error.value)
            assert "ferry-" not in str(error.value)
    finally:
        deny_access(s3_url, deny=False)


def test_without_botocore_it_is_said_what_to_install(
    s3_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    found = Address.of(s3_store)
    assert found is not None
    with pytest.raises(StoreError, match=re.escape("pip install 'rag-assets[s3]'")):
        Objects(found, seconds=7).listed("")


LISTS = """
import subprocess
import sys
from rag_assets.store.remote.address import Address
from rag_assets.store.remote.objects import Objects
print(Objects(Address.of(sys.argv[1])).listed(""))
"""


def test_a_process_that_used_it_ends_in_silence(s3_store: str) -> None:
    command = [sys.executable, "-c", LISTS, s3_store]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("{}\n", "")


def test_a_profile_that_is_not_there_is_one_line(
    s3_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(StoreError, match=r"cannot be used: The config profile \(nobody\)"):
        objects(s3_store).listed("")


def test_an_empty_object_and_odd_names_come_back(s3_store: str, tmp_path: Path) -> None:
    store = objects(s3_store)
    for name in ("a/empty", "a/x=1/ü #?%2F&+.txt"):
        store.write(name, b"")
        assert store.fetch(name, tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == b""
    assert set(store.listed("a")) == {"a/empty", "a/x=1/ü #?%2F&+.txt"}


def test_a_server_that_is_not_there_is_one_line(
    s3_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreError) as error:
        objects(s3_store).listed("")
    assert str(error.value) == (
        f"the store {s3_store} cannot be used: nothing answers at http://127.0.0.1:9 "
        "(AWS_ENDPOINT_URL)"
    )
