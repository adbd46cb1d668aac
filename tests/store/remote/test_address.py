from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.errors import UsageError
from rag_assets.store.remote import ENDPOINT_VARIABLES, Address
from rag_assets.store.settings import StoreSettings


@pytest.fixture(autouse=True)
def no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ENDPOINT_VARIABLES, "RAG_ASSETS_STORE", "RAG_ASSETS_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("text", ["", "data/store", "/data/s3", "s3", "./s3:", "C:/store"])
def test_a_folder_is_no_address(text: str) -> None:
    assert Address.of(text) is None


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("S3://bucket/a//b/", "s3://bucket/a/b"),
        (str(Path("s3://bucket/a/b")), "s3://bucket/a/b"),
    ],
)
def test_address_of_a_url(text: str, url: str) -> None:
    address = Address.of(text)
    assert address is not None
    assert (address.url, address.endpoint) == (url, None)


@pytest.mark.parametrize("text", ["s3://", "gs://bucket/a", "https://host/a"])
def test_what_is_neither_is_refused(text: str) -> None:
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


def test_the_working_copy_lies_in_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = StoreSettings.resolve("s3://bucket/a")
    assert own.store == own.state_dir
    assert own.store.parent == tmp_path / "data" / "store" / "remote"
    monkeypatch.setenv("RAG_ASSETS_STORE", "s3://bucket/a")
    monkeypatch.setenv("RAG_ASSETS_STATE_DIR", str(tmp_path / "state"))
    shared = StoreSettings.resolve()
    assert shared.state_dir == tmp_path / "state"
    assert shared.store == tmp_path / "state" / "remote" / own.store.name
    assert StoreSettings.resolve(Path("s3://bucket/a")) == shared


def test_places_that_are_given_are_those_that_are_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for state in (None, str(tmp_path / "state")):
        if state is not None:
            monkeypatch.setenv("RAG_ASSETS_STATE_DIR", state)
        for store in ("s3://bucket/a", str(tmp_path / "local")):
            monkeypatch.setenv("RAG_ASSETS_STORE", store)
            found = StoreSettings.resolve()
            assert StoreSettings.at(store, str(found.state_dir)) == found
            assert StoreSettings.at(found.place, str(found.state_dir)) == found


def test_a_store_knows_whether_it_is_remote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_ASSETS_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    settings = StoreSettings.resolve("s3://bucket/a")
    assert settings.remote is not None
    assert settings.remote.folder == settings.store
    assert settings.remote.objects.address == Address("bucket", "a", "http://127.0.0.1:9")
    assert settings.place == "s3://bucket/a"
    local = StoreSettings.resolve(tmp_path)
    assert (local.remote, local.place) == (None, str(tmp_path))
