"""Tables that are files without names."""

from __future__ import annotations

import errno
import gc
import os
import tempfile
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.errors import StoreError
from rag_assets.evaluation import contexts_stage
from rag_assets.retrieval import array_folder
from rag_assets.store import artifacts as artifacts_module
from rag_assets.store import large_tables
from rag_assets.store.artifacts import Artifact, Manifest
from rag_assets.store.large_tables import Ids, TableBuilder, columned, read_groups
from tests.nets.options import contents
from tests.tiny_experiment import Tiny

N_BYTES = 2_500_000


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_tables, "IN_MEMORY_BYTES", N_BYTES // 8)


def a_table() -> pa.Table:
    texts = [None if n % 7 == 0 else f"text {n} " * 9 for n in range(30_000)]
    lists = pa.array([["a"] * (n % 3) for n in range(len(texts))])
    return pa.table({"n": pa.array(range(len(texts)), pa.int32()), "text": texts, "tags": lists})


def noted_files(monkeypatch: pytest.MonkeyPatch) -> list[Path | None]:
    """Return a list that will hold the folders of the files that are made from now on."""
    where, new_file = list[Path | None](), tempfile.TemporaryFile

    def noted(dir: Path | None) -> IO[bytes]:
        where.append(dir)
        return new_file(dir=dir)

    monkeypatch.setattr(f"{large_tables.__name__}.TemporaryFile", noted)
    return where


def open_files() -> list[str]:
    return sorted(file.name for file in Path("/proc/self/fd").iterdir() if file.exists())


def test_the_rows_are_those_that_were_added_and_take_no_memory(tmp_path: Path) -> None:
    table = a_table()
    open_before, before = open_files(), pa.total_allocated_bytes()
    builder = TableBuilder(tmp_path)
    for start in range(0, table.num_rows, 1000):
        builder.add(table.slice(start, 1000))
    built = builder.table()
    assert built.equals(table)
    assert built.nbytes > N_BYTES
    assert pa.total_allocated_bytes() - before < N_BYTES // 8
    assert list(tmp_path.iterdir()) == []
    assert open_files() == open_before  # of the file the map alone is left
    assert built.take([5, table.num_rows - 1]).equals(table.take([5, table.num_rows - 1]))


def test_a_small_table_stays_in_memory(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path / "there is none")
    builder.add(a_table().slice(0, 10))
    builder.add(a_table().slice(10, 10))
    assert builder.table().equals(a_table().slice(0, 20))


def test_a_large_file_is_read_group_by_group(tmp_path: Path) -> None:
    path, table = tmp_path / "table.parquet", a_table()
    pq.write_table(table, path, row_group_size=2000)
    before = pa.total_allocated_bytes()
    with pq.ParquetFile(path) as file:
        read, texts = read_groups(file, tmp_path), read_groups(file, tmp_path, ["text"])
    assert read.equals(table)
    assert texts.equals(table.select(["text"]))
    assert pa.total_allocated_bytes() - before < N_BYTES // 8
    assert os.listdir(tmp_path) == ["table.parquet"]  # noqa: PTH208
    del read, texts
    gc.collect()


def test_an_artifact_is_read_once_where_that_takes_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, artifacts = a_table(), {}
    for name, n_rows in {"small": 10, "between": 1000, "large": table.num_rows}.items():
        (folder := tmp_path / name).mkdir()
        pq.write_table(table.slice(0, n_rows), folder / "table.parquet", row_group_size=2000)
        artifacts[name] = Artifact(folder, Manifest("chunks", name, {}, {}, {}, {}, 0))
    sizes = {name: artifact.file.stat().st_size for name, artifact in artifacts.items()}
    monkeypatch.setattr(f"{artifacts_module.__name__}.SMALL_TABLE", sizes["small"])
    monkeypatch.setattr(f"{artifacts_module.__name__}.IN_MEMORY_BYTES", sizes["large"])

    def characters(name: str, *columns: str) -> pa.Buffer:
        return artifacts[name].table(columns or None)["text"].chunk(0).buffers()[2]

    first = {name: characters(name) for name in artifacts}
    assert [n for n in first if characters(n).address == first[n].address] == ["small", "large"]
    assert characters("small", "text").address == first["small"].address
    assert artifacts["large"].table(["text"]).equals(table.select(["text"]))


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as a damaged file that should be deleted."""
    pq.write_table(a_table(), tmp_path / "table.parquet", row_group_size=2000)
    artifact = Artifact(tmp_path, Manifest("chunks", "f", {}, {}, {}, {}, 0))

    def full(dir: Path) -> IO[bytes]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(dir))

    monkeypatch.setattr(f"{large_tables.__name__}.TemporaryFile", full)
    with pytest.raises(StoreError, match=rf"large table into {tmp_path.parent}: No space left"):
        artifact.table()


def test_a_store_that_can_only_be_read_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is then where the system has such files."""
    where = noted_files(monkeypatch)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    for folder in (tmp_path, tmp_path, None):
        builder = TableBuilder(folder)
        builder.add(a_table())
        assert builder.table().equals(a_table())
    assert where[0] == where[2] == Path(tempfile.gettempdir())


def test_ids_are_a_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_tables, "IDS_AT_ONCE", 3)
    names = [f"d{n}" for n in range(10)]
    ids = Ids(pa.chunked_array([names[:4], names[4:4], names[4:]]))
    assert [*ids] == names
    assert len(ids) == 10
    assert (ids[0], ids[-1], ids[4]) == ("d0", "d9", "d4")
    for part in (slice(None), slice(2, 7), slice(-3, None), slice(5, 2), slice(1, 9, 3)):
        assert ids[part] == names[part]
    assert "d7" in ids
    assert columned(ids) is ids.column
    assert columned(names).equals(ids.column)
    assert [*Ids(pa.chunked_array([], pa.string()))] == []


@pytest.mark.parametrize("judge", ["document", "evidence"])
def test_an_experiment_of_large_tables_gives_what_a_small_one_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge: str
) -> None:
    """Its tables are files, of which only pages are in memory."""
    small, large = Tiny(tmp_path / "small"), Tiny(tmp_path / "large")
    for tiny in (small, large):
        del tiny.config["retrievers"]["okapi"], tiny.config["retrievers"]["shallow"]
        tiny.config["dataset"]["judge"] = judge
        tiny.config |= {"top_k": [3], "metrics": ["mrr"], "primary": "mrr@3"}
        tiny.write()
    small.run()
    monkeypatch.setattr(large_tables, "IDS_AT_ONCE", 2)
    for name in ("IN_MEMORY_BYTES", "PORTION_BYTES"):
        monkeypatch.setattr(large_tables, name, 0)
    monkeypatch.setattr(array_folder, "IN_MEMORY", 0)
    monkeypatch.setattr(contexts_stage, "ROWS_AT_ONCE", 2)
    files = noted_files(monkeypatch)
    large.run()
    assert len(files) > 30
    assert contents(large) == contents(small)
