from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import StoreError
from rag_assets.store import remote
from rag_assets.store.remote import REMOVED, Answer, LocalCopy, Objects
from tests.s3_server import deny_access
from tests.store.remote.conftest import objects


def written(copy: LocalCopy, name: str, text: str) -> Path:
    path = copy.folder / name
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
    assert store.folders() == ["a"]
    assert store.fetch("a/two.txt", tmp_path / "new" / "two.txt")
    assert (tmp_path / "new" / "two.txt").read_bytes() == b"two"
    assert not store.fetch("a/three.txt", tmp_path / "three.txt")
    assert not (tmp_path / "three.txt").exists()
    store.delete("a/two.txt")
    store.delete("a/two.txt")
    assert set(store.listed("")) == {"a/x=1/one.txt"}
    odd = {"b/empty", "b/x=1/ü #?%2F&+.txt"}
    for name in odd:
        store.write(name, b"")
        assert store.fetch(name, tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == b""
    assert set(store.listed("b")) == odd


def test_a_large_file_arrives_whole(s3_store: str, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096 * 21  # 21 MB: more than one part of an upload
    (tmp_path / "large").write_bytes(content)
    store = objects(s3_store)
    store.send(tmp_path / "large", "large")
    store.fetch("large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content


def test_what_is_there_is_not_sent_again_and_wins(here: LocalCopy, other: LocalCopy) -> None:
    here.send([written(here, "ferry/history/1.parquet", "of here")])
    second = written(other, "ferry/history/1.parquet", "of the other")
    other.send([second])
    assert here.objects.read("ferry/history/1.parquet") == b"of here"
    assert second.read_text() == "of here"


def test_a_folder_is_there_when_its_manifest_is(here: LocalCopy, other: LocalCopy) -> None:
    folder = written(here, "objects/index/12ab/data/values", "values").parents[1]
    written(here, "objects/index/12ab/manifest.json", '{"files": {"data/values": ""}}')
    here.objects.write("objects/index/12ab/data/values", b"of an upload that was interrupted")
    assert not other.fetch_artifact(other.folder / "objects/index/12ab")
    here.written.add(folder)
    here.send_new()
    written(other, "objects/index/12ab/data/values", "of a download that was interrupted")
    assert other.fetch_artifact(other.folder / "objects/index/12ab")
    assert (other.folder / "objects/index/12ab/data/values").read_text() == "values"


def test_a_table_is_fetched_by_one_request_a_file(
    here: LocalCopy, other: LocalCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"objects/chunks/12ab/{name}" for name in ("manifest.json", "table.parquet")]
    files = [written(here, name, '{"files": {"table.parquet": ""}}') for name in names]
    here.written.add(files[0].parent)
    here.send_new()
    other.refresh()
    ask, asked = Objects._ask, list[str]()

    def noted(self: Objects, operation: str, name: str, **parameters: Any) -> Answer:
        asked.append(name)
        return ask(self, operation, name, **parameters)

    monkeypatch.setattr(Objects, "_ask", noted)
    other.fetch_entries([other.folder / "objects/chunks/12ab"])
    assert sorted(asked) == names
    assert (other.folder / names[1]).exists()
    assert not (other.folder / "manifests").exists()


def test_caches_are_sent_and_fetched(here: LocalCopy, other: LocalCopy) -> None:
    written(here, "cache/scores/1.parquet", "scores")
    here.send_new()
    other.refresh()
    assert not (other.folder / "cache").exists()
    other.fetch("cache/embeddings")
    assert not (other.folder / "cache").exists()
    other.fetch("cache")
    assert (other.folder / "cache/scores/1.parquet").read_text() == "scores"


def removed(copy: LocalCopy, *names: str) -> None:
    """Remove there, as a store is cleaned."""
    copy.refresh()
    copy.delete(copy.folder / name for name in names)


def test_a_removal_reaches_other_copies_once(here: LocalCopy, other: LocalCopy) -> None:
    names = ("objects/x/12/manifest.json", "objects/x/12/data", "a/old.parquet", "a/kept.parquet")
    for name in names:
        here.objects.write(name, b"")
    for copy in (here, other):
        copy.refresh()
        copy.fetch("")
    here.send([written(here, "a/new.parquet", "")])
    removed(here, "a/old.parquet", "objects/x/12")
    assert set(here.objects.listed("")) == {"a/kept.parquet", "a/new.parquet", REMOVED}
    assert (other.folder / "objects/x/12/data").exists()
    other.refresh()
    assert {path.name for path in other.folder.rglob("*.*")} == {"kept.parquet", REMOVED}
    here.send([written(here, "a/old.parquet", "made again")])
    other.refresh()
    other.fetch("a")
    assert (other.folder / "a/old.parquet").exists()


def test_what_a_killed_process_had_just_sent_does_not_come_back(
    here: LocalCopy, other: LocalCopy, tmp_path: Path
) -> None:
    here.send([written(here, "cache/completions/1.parquet", "a reply")])
    removed(other, "cache/completions/1.parquet")
    again = LocalCopy(here.folder, here.objects)  # the next process, to which nothing was told
    again.refresh()
    again.send_new()
    assert not (here.folder / "cache/completions/1.parquet").exists()
    assert here.objects.listed("cache") == {}


def test_names_of_what_was_removed_are_kept_for_a_time(
    here: LocalCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        here.objects.write(f"a/{number}.parquet", b"")
    removed(here, "a/0.parquet")
    here.delete([here.folder / "dagster"])  # state of this machine alone
    assert set(json.loads(here.objects.read(REMOVED) or b"")) == {"a/0.parquet"}
    monkeypatch.setattr(remote, "REMEMBERED_S", -1.0)
    removed(here, "a/1.parquet")
    assert set(json.loads(here.objects.read(REMOVED) or b"")) == {"a/1.parquet"}
    for content in (b"damaged", b'{"": 1, "..": 2, "../other": 3, "a/./2.parquet": 4}'):
        here.objects.write(REMOVED, content)
        here.refresh()
    removed(here, "a/2.parquet")
    assert set(json.loads(here.objects.read(REMOVED) or b"")) == {"a/2.parquet"}


def test_what_was_made_again_after_a_removal_stays(here: LocalCopy, other: LocalCopy) -> None:
    here.objects.write("a/1.parquet", b"")
    other.refresh()
    other.fetch("a")
    removed(here, "a/1.parquet")
    here.objects.write("a/1.parquet", b"")
    other.refresh()
    other.fetch("a")
    assert (other.folder / "a/1.parquet").exists()


def test_what_is_made_again_and_not_sent_yet_stays(here: LocalCopy, other: LocalCopy) -> None:
    for copy in (here, other):
        copy.objects.write("a/1.parquet", b"")
        copy.refresh()
        copy.fetch("a")
        removed(here, "a/1.parquet")
        (here.folder / "a/1.parquet").unlink(missing_ok=True)
        copy.refresh()
        made = written(copy, "a/1.parquet", "made again")
        LocalCopy(copy.folder, copy.objects).refresh()  # by another process
        assert made.read_text() == "made again"
        made.unlink()


def test_a_removal_by_an_old_listing_forgets_no_other_removal(
    here: LocalCopy, other: LocalCopy
) -> None:
    for name in ("a/1.parquet", "a/2.parquet"):
        here.objects.write(name, b"")
    other.refresh()
    removed(here, "a/1.parquet")
    other.delete([other.folder / "a/2.parquet"])
    assert set(json.loads(here.objects.read(REMOVED) or b"")) == {"a/1.parquet", "a/2.parquet"}


def test_a_removal_that_was_interrupted_is_not_undone(
    here: LocalCopy, other: LocalCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("a/1.parquet", "a/2.parquet")
    for name in names:
        here.objects.write(name, b"")
    other.refresh()
    other.fetch("a")
    delete = Objects.delete

    def killed_at_the_second(self: Objects, name: str) -> None:
        if name.endswith("2.parquet"):
            raise KeyboardInterrupt
        delete(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(Objects, "delete", killed_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            removed(here, *names)
    other.refresh()
    other.send(other.folder / name for name in names if (other.folder / name).exists())
    assert set(here.objects.listed("a")) == {"a/2.parquet"}
    removed(here, *names)
    assert here.objects.listed("a") == {}


def test_what_changes_is_fetched_again_and_other_files_are_not(
    here: LocalCopy, other: LocalCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ferry/attempts/1.txt", "ferry/attempts/2.txt", "ferry/current"):
        here.objects.write(name, b"1")
    other.pull(["ferry"])
    here.objects.write("ferry/attempts/1.txt", b"2")
    removed(here, "ferry/attempts/2.txt")
    fetched: list[str] = []
    fetch = Objects.fetch

    def noted(self: Objects, name: str, path: Path) -> bool:
        fetched.append(name)
        return fetch(self, name, path)

    monkeypatch.setattr(Objects, "fetch", noted)
    other.pull(["ferry"])
    assert fetched == ["ferry/attempts/1.txt"]
    assert [path.read_text() for path in (other.folder / "ferry/attempts").iterdir()] == ["2"]


def test_no_name_leads_out_of_a_local_copy(here: LocalCopy, tmp_path: Path) -> None:
    here.objects.write("objects/chunks/12/manifest.json", b'{"files": {"/etc/passwd": ""}}')
    with pytest.raises(StoreError, match="contains a name that leads out of it"):
        here.fetch_artifact(here.folder / "objects" / "chunks" / "12")
    with pytest.raises(StoreError, match="contains a name that leads out of it"):
        here.name(here.folder / "ferry" / ".." / ".." / "other.txt")


def test_a_missing_bucket_or_server_is_one_line(
    s3_store: str, s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = objects("s3://not-there/a")
    for do in (lambda: store.listed(""), lambda: store.write("a", b"")):
        with pytest.raises(StoreError) as error:
            do()
        assert str(error.value) == (
            "the store s3://not-there/a cannot be used: there is no bucket 'not-there' at "
            f"{s3_url} (AWS_ENDPOINT_URL); create it first"
        )
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreError) as error:
        objects(s3_store).listed("")
    assert str(error.value) == (
        f"the store {s3_store} cannot be used: nothing answers at http://127.0.0.1:9 "
        "(AWS_ENDPOINT_URL)"
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


LISTS = """
import subprocess
import sys
from rag_assets.store.remote import Address
from rag_assets.store.remote import Objects
print(Objects(Address.of(sys.argv[1])).listed(""))
"""


def test_a_process_that_used_it_ends_in_silence(s3_store: str) -> None:
    command = [sys.executable, "-c", LISTS, s3_store]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("{}\n", "")
