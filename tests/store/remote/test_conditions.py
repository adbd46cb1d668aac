"""Several machines write the same small object: none of them loses what another one wrote."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from rag_assets.errors import StoreError, UsageError
from rag_assets.store.remote import ABSENT, ANY, ENDPOINT_VARIABLES, Address, LocalCopy, Objects
from rag_assets.store.settings import StoreSettings
from tests.s3_server import VARIABLES, refusing_conditions
from tests.servers.hostile import Handler, Hostile
from tests.store.remote.conftest import copy_at

CONFLICT = b"<Error><Code>ConditionalRequestConflict</Code></Error>"


def words(content: bytes | None) -> set[str]:
    return set((content or b"").decode().split())


def with_word(content: bytes | None, word: str) -> bytes:
    return " ".join(sorted(words(content) | {word})).encode()


def test_a_write_expects_what_was_read(here: LocalCopy) -> None:
    store = here.objects
    first = store.write("current", b"1", ABSENT)
    assert first
    assert store.write("current", b"2", ABSENT) is None
    second = store.write("current", b"2", first)
    assert second not in (None, first)
    assert store.write("current", b"3", first) is None
    assert store.find("current") == (b"2", second)
    store.delete("current")
    assert store.write("current", b"3", second or "") is None
    assert store.read("current") is None
    assert store.write("current", b"4", ABSENT) == store.write("current", b"4")


def test_a_server_that_knows_no_conditions_is_refused(here: LocalCopy, s3_url: str) -> None:
    with (
        refusing_conditions(s3_url),
        pytest.raises(StoreError, match=f"{s3_url} .* does not support conditional writes"),
    ):
        here.objects.write("current", b"1", ABSENT)
    assert here.objects.read("current") is None


def test_a_write_whose_answer_was_lost_is_not_taken_for_that_of_another(here: LocalCopy) -> None:
    first = here.objects.write("current", b"1")
    second = here.objects.write("current", b"2", first or "")
    # As the same request comes again, when the connection broke before the answer.
    assert here.objects.write("current", b"2", first or "") == second
    assert here.objects.write("other", b"1", ABSENT) == here.objects.write("other", b"1", ABSENT)


def test_a_large_file_replaces_nothing_that_was_not_expected(
    here: LocalCopy, tmp_path: Path
) -> None:
    large = tmp_path / "large"
    large.write_bytes(bytes(9 << 20))
    assert here.objects.send(large, "large", ABSENT)
    here.objects.write("theirs", b"theirs")
    assert not here.objects.send(large, "theirs", ABSENT)
    assert here.objects.read("theirs") == b"theirs"
    assert here.objects.listed("")["large"].size == 9 << 20


def test_many_writers_at_once_lose_nothing(s3_store: str, tmp_path: Path) -> None:
    def write(number: int) -> None:
        copy = copy_at(tmp_path / str(number), s3_store)
        for word in range(3):
            copy.merge(copy.folder / "shared", partial(with_word, word=f"{number}-{word}"))

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(write, range(3)))
    content = copy_at(tmp_path / "reader", s3_store).objects.read("shared")
    assert words(content) == {f"{number}-{word}" for number in range(3) for word in range(3)}


def test_what_comes_between_is_merged(here: LocalCopy, monkeypatch: pytest.MonkeyPatch) -> None:
    write, came = Objects.write, False

    def between(self: Objects, name: str, content: bytes, expected: str = ANY) -> str | None:
        nonlocal came
        if not came:
            came = bool(write(self, name, b"theirs"))
        return write(self, name, content, expected)

    monkeypatch.setattr(Objects, "write", between)
    path = here.folder / "shared"
    assert here.merge(path, partial(with_word, word="ours")) == b"ours theirs"
    assert here.objects.read("shared") == b"ours theirs"


def test_who_never_comes_through_says_so(here: LocalCopy, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Objects.write
    number = 0

    def first(self: Objects, name: str, content: bytes, expected: str = ANY) -> str | None:
        nonlocal number
        number += 1
        write(self, name, str(number).encode())
        return write(self, name, content, expected)

    monkeypatch.setattr(Objects, "write", first)
    with pytest.raises(StoreError, match="current is being changed by other machines; run"):
        here.merge(here.folder / "current", lambda there: b"ours")
    assert here.objects.read("current") == str(number).encode()


def test_two_that_send_one_folder_leave_one_that_is_whole(
    here: LocalCopy, other: LocalCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for copy in (here, other):
        whose = f"of {copy.folder.name}"
        for name in ("manifest.json", "table.parquet"):
            path = copy.folder / "objects" / "chunks" / "12ab" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"files": {"table.parquet": whose}}))
        copy.written.add(path.parent)
    send, came = Objects.send, False

    def other_comes_in_between(self: Objects, path: Path, name: str, expected: str = ANY) -> bool:
        nonlocal came
        if name.endswith("manifest.json") and not came:
            came = True
            other.send_new()
        return send(self, path, name, expected)

    monkeypatch.setattr(Objects, "send", other_comes_in_between)
    here.send_new()
    for copy in (here, other):
        files = (copy.folder / "objects" / "chunks" / "12ab").iterdir()
        assert ["of other" in path.read_text() for path in files] == [True, True]
    contents = [here.objects.read(name) or b"" for name in here.objects.listed("objects")]
    assert [b"of other" in content for content in contents] == [True, True]


def test_a_conflict_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(handler: Handler) -> None:
        if len(server.received) < 3:
            handler.send(CONFLICT, 409)
        else:
            handler.send(b"", 200, ETag='"3"')

    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    with Hostile(answer) as server:
        assert Objects(Address("bucket", "", server.root)).write("current", b"1", '"2"') == '"3"'
        assert [headers["if-match"] for _, headers, _ in server.received] == ['"2"'] * 3


@pytest.fixture(autouse=True)
def no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ENDPOINT_VARIABLES, "RAG_ASSETS_STORE", "RAG_ASSETS_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)


def test_addresses() -> None:
    for text in ("", "data/store", "/data/s3", "s3", "./s3:", "C:/store"):
        assert Address.of(text) is None, "a folder"
    for text, url in (
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("S3://bucket/a//b/", "s3://bucket/a/b"),
        (str(Path("s3://bucket/a/b")), "s3://bucket/a/b"),
    ):
        address = Address.of(text)
        assert address is not None
        assert (address.url, address.endpoint) == (url, None)
    for text in ("s3://", "gs://bucket/a", "https://host/a"):
        with pytest.raises(UsageError, match="neither a folder nor s3://BUCKET/PREFIX"):
            Address.of(text)


def test_the_endpoint_for_s3_wins_and_loses_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://all.example/")
    assert Address.of("s3://b") == Address("b", "", "https://all.example")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://me:secret@s3.example:9000")
    assert Address.of("s3://b") == Address("b", "", "http://s3.example:9000")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "me:secret@s3.example:9000")
    with pytest.raises(UsageError, match=r"AWS_ENDPOINT_URL_S3 is 's3\.example:9000'; allowed"):
        Address.of("s3://b")


def test_no_two_stores_share_a_working_copy() -> None:
    addresses = [
        Address("a", "b"),
        Address("a-b", ""),
        Address("a", "b", "http://x"),
        Address("a", "b", "http://y"),
        Address("a", "c" * 500),
    ]
    names = {address.folder_name for address in addresses}
    assert len(names) == len(addresses)
    assert all(len(name) < 80 and name.isascii() for name in names)


def test_where_the_working_copy_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    own = StoreSettings.resolve("s3://bucket/a")
    assert own.store == own.state_dir
    assert own.store.parent == tmp_path / "data" / "store" / "remote"
    monkeypatch.setenv("RAG_ASSETS_STORE", "s3://bucket/a")
    monkeypatch.setenv("RAG_ASSETS_STATE_DIR", str(tmp_path / "state"))
    shared = StoreSettings.resolve()
    assert shared.state_dir == tmp_path / "state"
    assert shared.store == tmp_path / "state" / "remote" / own.store.name
    assert StoreSettings.resolve(Path("s3://bucket/a")) == shared
    assert shared.remote is not None
    assert shared.remote.folder == shared.store
    assert shared.remote.objects.address == Address("bucket", "a", "http://127.0.0.1:9")
    local = StoreSettings.resolve(tmp_path)
    assert (local.remote, local.place) == (None, str(tmp_path))
    # A place that is given is the one that is resolved.
    for settings, store in ((own, None), (shared, None), (local, str(tmp_path))):
        state = str(settings.state_dir)
        assert StoreSettings.at(store or "s3://bucket/a", state) == settings
        assert StoreSettings.at(settings.place, state) == settings
