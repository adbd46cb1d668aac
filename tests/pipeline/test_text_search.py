"""Texts are found in stored files, however they are written there."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.pipeline.cleaning import MAX_FRAGMENTS, Fragments

SAID = 'The mate says "ahoy, all of you there" and leaves the northern harbour at six.'


@pytest.mark.parametrize("encode", [str, json.dumps, lambda text: json.dumps(json.dumps(text))])
@pytest.mark.parametrize("text", [SAID, "Trajekt z přístavu v šest ráno: čtyřicet korun."])
def test_a_text_in_bytes(tmp_path: Path, encode: type[str], text: str) -> None:
    file = tmp_path / "kept.json"
    file.write_text(encode(f"before {text} after"), encoding="utf-8")
    assert Fragments([text]).in_file(file)
    assert not Fragments(["The second mate says nothing at all in the evening."]).in_file(file)
    assert not Fragments([]).in_file(file)


COLUMNS = {
    "text": pa.array([None, SAID]),
    "list": pa.array([[], ["before", SAID]]),
    "struct": pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": SAID}]),
    "large": pa.array([SAID, ""], pa.large_string()),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_a_text_in_a_column(tmp_path: Path, column: str) -> None:
    file = tmp_path / "kept.parquet"
    pq.write_table(pa.table({"n": [1, 2], column: COLUMNS[column]}), file)
    assert Fragments([SAID]).in_file(file)
    assert Fragments([f"unknown words before it, many of them; {SAID}"]).in_file(file)
    assert not Fragments(["The second mate says nothing at all in the evening."]).in_file(file)


def test_a_text_in_the_metadata_and_in_a_file_that_is_no_parquet(tmp_path: Path) -> None:
    table = pa.table({"n": [1]}).replace_schema_metadata({"facts": json.dumps([SAID])})
    pq.write_table(table, tmp_path / "kept.parquet")
    assert Fragments([SAID]).in_file(tmp_path / "kept.parquet")
    (tmp_path / "torn.parquet").write_text(SAID, encoding="utf-8")
    assert Fragments([SAID]).in_file(tmp_path / "torn.parquet")


def test_which_fragments_are_looked_for() -> None:
    assert Fragments(["a" * 100]).texts == ("a" * 60,)
    lines = [f"line {number:02} of a text that is long enough" for number in range(30)]
    chosen = Fragments(["\n".join(lines)]).texts
    assert len(chosen) == MAX_FRAGMENTS
    assert chosen[0] == lines[0]
    assert chosen[-1] == lines[-1]


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("three four<five six seven", ("five six seven", "three four")),
        ("one<three four", ("three four",)),  # of eight characters or more, where there are
        ("one<two!<ab", ("one", "two!")),  # then of more than two
        ("ab", ()),
    ],
)
def test_fragments_of_short_texts(text: str, fragments: tuple[str, ...]) -> None:
    assert Fragments([text]).texts == fragments
