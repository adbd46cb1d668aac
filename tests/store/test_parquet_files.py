from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.store.parquet_files import read_parquet

TABLE = pa.table({"first": [1, 2], "second": ["a", None], "third": [[1.0], []]})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Below a folder whose name looks like a column."""
    folder = tmp_path / "retriever=bm25"
    folder.mkdir()
    pq.write_table(TABLE, folder / "table.parquet")
    return folder / "table.parquet"


def test_a_file_is_its_columns_in_the_order_asked_for(file: Path) -> None:
    assert read_parquet(file) == TABLE
    assert read_parquet(file, ["third", "first"]) == TABLE.select(["third", "first"])


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
