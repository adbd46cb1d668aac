"""JSON is strict: what is accepted means the same to another parser, what is not is one error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError
from rag_assets.sources.fields import Place, metadata_json
from rag_assets.sources.row_files import parse_json
from rag_assets.store.canonical import canonical_json

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=12
)
objects = st.dictionaries(texts, values, max_size=6)
PIECES = [
    *("{", "}", "[", "]", ":", ",", '"', '"a"', '"b"', '":"', '"\\u003a"', '"\\u003A"', "\\"),
    *('"\\ud800"', '"\\ud83d\\ude00"', '"\\n"', "1", "-0", "1.5", "1e999", "01", "NaN", "null"),
    *("9" * 30, "1e-400", "true", " ", "\t", "\x00", "\x0b", "\u2028", '"a":1,', '{"a":1,"a":2}'),
]
PLACE = Place(Path("a.jsonl"), 7)


def parsed(text: str) -> Any:
    return parse_json(text.encode(), PLACE)


@given(objects, st.booleans())
def test_a_value_that_is_written_is_read(value: dict[str, Any], ascii_only: bool) -> None:
    assert parsed(json.dumps(value, ensure_ascii=ascii_only)) == value


@settings(max_examples=600)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.booleans())
def test_what_is_accepted_has_the_value_that_another_parser_gives(text: str, inside: bool) -> None:
    text = f'{{"a": {text}}}' if inside else text
    try:
        value = parsed(text)
    except DataError:
        return
    assert json.dumps(value) == json.dumps(json.loads(text))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": ' + "[" * 101 + "]" * 101 + "}", "JSON nested deeper than 100 levels"),
        ("[" * 100_000, "JSON nested deeper than 100 levels"),
        ('{"a": 1e999}', "malformed JSON (number out of range)"),
        ('{"a": "\\ud800"}', "malformed JSON (input data was truncated)"),
        ('{"a": NaN}', "malformed JSON at byte 7 (invalid character)"),
        ("9" * 5000, "malformed JSON (integer value out of range)"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(DataError) as raised:
        parsed(text)
    assert str(raised.value) == f"a.jsonl:7: {problem}"


@given(objects)
def test_metadata_is_canonical(fields: dict[str, Any]) -> None:
    fields.pop("metadata", None)
    assert metadata_json(fields, frozenset()) == canonical_json(fields)
