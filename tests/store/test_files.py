"""Files of a store: writes that are complete, stamps, settings."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.errors import StoreError
from rag_assets.store import canonical, file_stamps
from rag_assets.store.atomic import (
    TEMPORARY_MARK,
    atomic_directory,
    atomic_file,
    remove,
    write_text,
)
from rag_assets.store.canonical import canonical_json, file_digests, fingerprint, table_digest
from rag_assets.store.file_stamps import SourceFiles, remembered
from rag_assets.store.parquet_files import read_parquet
from rag_assets.store.settings import StoreSettings


class InterruptedWork(Exception):
    pass


def test_a_file_or_a_folder_appears_at_the_end(tmp_path: Path) -> None:
    file, folder = tmp_path / "new" / "file", tmp_path / "other" / "folder"
    with atomic_file(file) as temporary:
        temporary.write_text("content")
        assert not file.exists()
    with atomic_directory(folder) as temporary:
        (temporary / "sub").mkdir()
        (temporary / "sub" / "file").write_text("content")
        assert not folder.exists()
    for written in (file, folder / "sub" / "file"):
        assert written.read_text() == "content"
    for place in (file, folder):
        assert list(place.parent.iterdir()) == [place]


def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")

    def work() -> None:
        with atomic_file(file) as temporary:
            temporary.write_text("half")
            raise InterruptedWork

    with pytest.raises(InterruptedWork):
        work()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_directory_that_is_already_there_stays(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text("first")
    with atomic_directory(folder) as temporary:
        (temporary / "file").write_text("second")
    assert (folder / "file").read_text() == "first"
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("write", [atomic_file, atomic_directory])
def test_file_in_place_of_a_folder_is_a_store_error(tmp_path: Path, write) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreError, match="cannot write"), write(tmp_path / "file" / "sub" / "x"):
        pytest.fail("the block must not be entered")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder_is_a_store_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError, match=r"cannot write .*file: Permission denied"):
            write_text(tmp_path / "file", "content")
        with pytest.raises(StoreError, match=r"Permission denied"):
            write_text(tmp_path / "sub" / "file", "content")
    finally:
        tmp_path.chmod(0o700)


def test_what_is_removed_is_gone_whatever_it_is(tmp_path: Path) -> None:
    unfinished = tmp_path / f"x{TEMPORARY_MARK}y"
    (unfinished / "inner").mkdir(parents=True)
    remove(unfinished)
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    remove(tmp_path / "link")
    assert (tmp_path / "folder" / "inner").is_dir()  # a link goes, not what it leads to
    remove(tmp_path / "folder")
    remove(tmp_path / "absent")
    assert list(tmp_path.iterdir()) == []


def test_what_was_read_is_remembered_as_long_as_the_file_stays(tmp_path: Path) -> None:
    read: list[str] = []

    @remembered(2)
    def content(path: Path) -> str:
        read.append(path.name)
        return path.read_text()

    a, b, c = (tmp_path / name for name in "abc")
    for path in (a, b, c):
        path.write_text(path.name)
    for path in (a, b, a, c, a, b):
        assert content(path) == path.name
    assert read == ["a", "b", "c", "b"]
    before = b.stat()
    b.write_text("x")
    os.utime(b, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert content(b) == "x"
    b.unlink()
    with pytest.raises(FileNotFoundError):
        content(b)


VARIABLES = ("RAG_ASSETS_STORE", "RAG_ASSETS_STATE_DIR", "DAGSTER_HOME")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_where_a_store_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the working directory, where the environment says, or where it is said."""
    monkeypatch.chdir(tmp_path)
    settings = StoreSettings.resolve()
    assert settings.store == settings.state_dir == tmp_path / "data" / "store"
    monkeypatch.setenv("RAG_ASSETS_STORE", "far/store")
    assert StoreSettings.resolve() == StoreSettings(tmp_path / "far/store", tmp_path / "far/store")
    monkeypatch.setenv("RAG_ASSETS_STATE_DIR", str(tmp_path / "near"))
    assert StoreSettings.resolve() == StoreSettings(tmp_path / "far/store", tmp_path / "near")
    settings = StoreSettings.resolve("mine")
    assert settings.store == settings.state_dir == tmp_path / "mine"


def test_own_dagster_home_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    settings = StoreSettings.resolve(tmp_path / "store")
    assert settings.has_dagster_home
    assert settings.dagster_home == tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    root.mkdir()
    for name in ("a", "b"):
        (root / name).write_text(f"content of {name}")
        age(root / name, 60)
    return root


def age(file: Path, seconds: float) -> None:
    """Make a file look as if it was edited so many seconds ago."""
    then = time.time_ns() - int(seconds * 1e9)
    os.utime(file, ns=(then, then))


def digest(folder: Path, cache: Path | None = None) -> str:
    return SourceFiles(cache).digest(sorted(folder.iterdir()), folder)


@pytest.mark.parametrize("cached", [False, True])
def test_edit_and_rename_change_the_digest(folder: Path, tmp_path: Path, cached: bool) -> None:
    cache = tmp_path / "cache" if cached else None
    first = digest(folder, cache)
    (folder / "a").write_text("content of A")  # of the same size
    second = digest(folder, cache)
    (folder / "a").rename(folder / "c")
    third = digest(folder, cache)
    assert len({first, second, third}) == 3


def test_unchanged_file_is_not_read_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digest(folder, tmp_path / "cache")
    monkeypatch.setattr(file_stamps, "file_digest", None)
    assert digest(folder, tmp_path / "cache") == before
    with pytest.raises(TypeError):
        digest(folder)


def test_file_that_was_just_edited_is_not_trusted(folder: Path, tmp_path: Path) -> None:
    """Where times are coarse, a second edit within the same tick shows in the content only."""
    file = folder / "a"
    age(file, 0)
    status = file.stat()
    before = digest(folder, tmp_path / "cache")
    file.write_text("CONTENT OF A")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert digest(folder, tmp_path / "cache") != before


def test_corrupt_cache_is_ignored_and_repaired(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for content in ("", "{", "[]", "null"):
        cache.write_text(content)
        assert digest(folder, cache) == digest(folder)
        assert set(json.loads(cache.read_text())) == {str(folder / "a"), str(folder / "b")}


TABLE = pa.table({"first": [1, 2], "second": ["a", None], "third": [[1.0], []]})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Below a folder whose name looks like a column."""
    folder = tmp_path / "retriever=bm25"
    folder.mkdir()
    pq.write_table(TABLE, folder / "table.parquet")
    return folder / "table.parquet"


def test_what_cannot_be_read(file: Path, tmp_path: Path) -> None:
    with pytest.raises(pa.ArrowInvalid, match="no column fourth"):
        read_parquet(file, ["first", "fourth"])
    with pytest.raises(FileNotFoundError):
        read_parquet(tmp_path / "nothing.parquet")
    file.write_bytes(b"PAR1")
    with pytest.raises(pa.ArrowInvalid):
        read_parquet(file)


def test_no_data_sets_and_no_pandas_are_imported(file: Path) -> None:
    code = (
        "import sys; from pathlib import Path; "
        "from rag_assets.store.parquet_files import read_parquet; "
        f"read_parquet(Path({str(file)!r}), ['first']); "
        "sys.exit(len(sys.modules.keys() & {'pandas', 'pyarrow.dataset'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("score", pa.float64()),
    ]
)

values = st.fixed_dictionaries(
    {
        "text": st.none() | st.text(max_size=4),
        "tags": st.none() | st.lists(st.none() | st.text(max_size=2), max_size=3),
        "score": st.none() | st.floats(allow_nan=False),
    }
)


def table(rows: list[dict[str, object]]) -> pa.Table:
    numbered = [{"id": number, **row} for number, row in enumerate(rows)]
    return pa.Table.from_pylist(numbered, schema=SCHEMA)


def test_the_digest_is_what_it_always_was() -> None:
    """Another digest of the same table would make every store compute everything again."""
    rows: list[dict[str, object]] = [
        {"id": n, "text": "\u00e9" * (n % 5) if n % 7 else None, "tags": ["a"] * (n % 3)}
        for n in reversed(range(10))
    ]
    found = pa.Table.from_pylist(rows, schema=SCHEMA.remove(3))
    assert table_digest(found, ("id",)) == (
        "84445e980f7449f37c375b1f770897829bd5770e03070741575c6b92d4a4bc45"
    )


def test_texts_are_hashed_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[dict[str, object]] = [{"text": "ab" * n, "tags": None, "score": n} for n in range(9)]
    parts = pa.concat_tables([table(rows).slice(n, 1) for n in (3, 1, 2, 0, 8, 4, 6, 5, 7)])
    whole = table_digest(table(rows), ("id",))
    monkeypatch.setattr(canonical, "_BYTES", 7)
    assert table_digest(parts, ("id",)) == whole


def test_json_refuses_nan() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"a": float("nan")})


def test_fingerprint_does_not_depend_on_the_order_of_keys() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert len(fingerprint({})) == 64


@given(st.lists(values, max_size=8), st.randoms())
def test_digest_does_not_depend_on_the_order_of_rows_or_chunks(
    rows: list[dict[str, object]], chance: random.Random
) -> None:
    original = table(rows)
    order = list(range(len(rows)))
    chance.shuffle(order)
    shuffled = original.take(pa.array(order, pa.int64()))
    middle = len(rows) // 2
    pieces = pa.concat_tables([shuffled.slice(0, middle), shuffled.slice(middle)])
    assert table_digest(pieces, ["id"]) == table_digest(original, ["id"])


@given(st.lists(values, min_size=1, max_size=4), st.lists(values, min_size=1, max_size=4))
def test_digests_are_equal_exactly_when_the_rows_are(
    one: list[dict[str, object]], other: list[dict[str, object]]
) -> None:
    same = repr(table(one).to_pylist()) == repr(
        table(other).to_pylist()
    )  # 0.0 and -0.0 are equal but not the same
    assert (table_digest(table(one), ["id"]) == table_digest(table(other), ["id"])) is same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([""]), pa.array([None], pa.string())),
        (pa.array([0]), pa.array([None], pa.int64())),
        (pa.array([1], pa.int32()), pa.array([1], pa.int64())),
        (pa.array([1.0]), pa.array([1])),
        (pa.array([[]], pa.list_(pa.string())), pa.array([None], pa.list_(pa.string()))),
        (pa.array([["a", "b"]]), pa.array([["ab"]])),
        (pa.array([["a", None]]), pa.array([["a", ""]])),
        (pa.array([["a"], []]), pa.array([[], ["a"]])),
        (pa.array(["ab", "c"]), pa.array(["a", "bc"])),
    ],
)
def test_types_nulls_and_boundaries_count(one: pa.Array, other: pa.Array) -> None:
    digests = {
        table_digest(pa.table({"id": range(len(column)), "value": column}), ["id"])
        for column in (one, other)
    }
    assert len(digests) == 2


def test_projection_ignores_other_columns() -> None:
    one = pa.table({"id": [1, 2], "text": ["a", "b"], "tag": ["x", "y"]})
    other = one.set_column(2, "tag", pa.array(["z", "z"]))
    assert table_digest(one, ["id"], ["id", "text"]) == table_digest(other, ["id"], ["id", "text"])
    assert table_digest(one, ["id"]) != table_digest(other, ["id"])


def test_file_digests_go_by_names_and_contents(tmp_path: Path) -> None:
    for folder, text in (("one", "a"), ("other", "a"), ("third", "b")):
        (tmp_path / folder / "below").mkdir(parents=True)
        (tmp_path / folder / "below" / "data").write_text(text)
    one, other, third = (file_digests(tmp_path / name) for name in ("one", "other", "third"))
    assert one == other == {"below/data": hashlib.sha256(b"a").hexdigest()}
    assert third != one
