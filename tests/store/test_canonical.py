from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.store import canonical
from rag_assets.store.canonical import canonical_json, file_digests, fingerprint, table_digest

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


def test_empty_tables_are_told_apart_by_their_columns() -> None:
    assert table_digest(SCHEMA.empty_table(), ["id"]) == table_digest(table([]), ["id"])
    assert table_digest(SCHEMA.empty_table(), ["id"]) != table_digest(
        pa.schema([("id", pa.int64())]).empty_table(), ["id"]
    )


def test_file_digests_go_by_names_and_contents(tmp_path: Path) -> None:
    for folder, text in (("one", "a"), ("other", "a"), ("third", "b")):
        (tmp_path / folder / "below").mkdir(parents=True)
        (tmp_path / folder / "below" / "data").write_text(text)
        (tmp_path / folder / "manifest.json").write_text(folder)
    one, other, third = (
        file_digests(tmp_path / name, "manifest.json") for name in ("one", "other", "third")
    )
    assert one == other == {"below/data": hashlib.sha256(b"a").hexdigest()}
    assert third != one
    assert set(file_digests(tmp_path / "one")) == {"below/data", "manifest.json"}
