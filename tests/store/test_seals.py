"""Every flipped bit of a stored artifact is noticed."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.store.seals import MARK, UNSEALED, is_sealed, seal

TABLE = pa.table({"id": [f"q{n}" for n in range(50)], "score": [n / 7 for n in range(50)]})


def sealed(file: Path) -> Path:
    with pq.ParquetWriter(file, TABLE.schema, compression="zstd") as writer:
        writer.write_table(TABLE, row_group_size=20)
        writer.add_key_value_metadata({MARK: UNSEALED})
    seal(file)
    return file


def test_a_sealed_file_is_a_parquet_file_and_the_same_again(tmp_path: Path) -> None:
    first, second = sealed(tmp_path / "a.parquet"), sealed(tmp_path / "b.parquet")
    assert is_sealed(first)
    assert pq.read_table(first).equals(TABLE)
    assert first.read_bytes() == second.read_bytes()


def test_a_flipped_bit_anywhere_breaks_the_seal(tmp_path: Path) -> None:
    file = sealed(tmp_path / "a.parquet")
    content = file.read_bytes()
    mark = content.rfind(MARK.encode())
    # Without its name the seal is not known for one, nor where the footer's length is another.
    unknown = {*range(mark, mark + len(MARK)), *range(len(content) - 8, len(content) - 4)}
    for place in random.Random(0).sample(range(len(content)), 300):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        file.write_bytes(damaged)
        assert is_sealed(file) is False or place in unknown


def test_damage_that_parquet_readers_do_not_notice(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    plain = pa.table({"score": [n / 7 for n in range(50)]})
    with pq.ParquetWriter(file, plain.schema, compression="none", use_dictionary=False) as writer:
        writer.write_table(plain)
        writer.add_key_value_metadata({MARK: UNSEALED})
    seal(file)
    content = bytearray(file.read_bytes())
    content[200] ^= 1
    file.write_bytes(content)
    assert not pq.read_table(file).equals(plain)
    assert is_sealed(file) is False


@pytest.mark.parametrize("content", [b"", b"PAR1", b"\xff\xff\xff\x7fPAR1"])
def test_what_is_no_parquet_file_was_never_sealed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    assert is_sealed(tmp_path / "x") is None
    with pytest.raises(ValueError, match="was not written to be sealed"):
        seal(tmp_path / "x")


def test_a_file_of_an_older_version_was_never_sealed(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "old.parquet")
    assert is_sealed(tmp_path / "old.parquet") is None
