from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.sources.fields import metadata_json
from rag_assets.sources.jsonl import parse_object
from rag_assets.sources.strict_json import JsonError, parse_json
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


@given(objects, st.booleans())
def test_same_value_as_the_strict_parser(value: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    fast = parse_object(text.encode())
    if fast is None:
        assert "\\u003" in text
    else:
        assert fast == value
        assert json.dumps(fast) == json.dumps(parse_json(text))


@settings(max_examples=600)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.booleans())
def test_accepts_nothing_that_the_strict_parser_refuses(text: str, inside: bool) -> None:
    text = f'{{"a": {text}}}' if inside else text
    fast = parse_object(text.encode())
    if fast is not None:
        assert json.dumps(fast) == json.dumps(parse_json(text))


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 1}',
        '{"a": ":", "a": ":"}',
        '{"a": 1, "\\u0061": 2}',
        '{"a": 1, "a": "\\u003a"}',
        '{"m": [{"a": {"b": 1, "b": 2}}]}',
        '{"a": ' + "[" * 100 + "]" * 100 + "}",
        '{"a": 1e999}',
        '{"a": "\\ud800"}',
        '{"a": "\\udc00\\ud800"}',
    ],
)
def test_what_is_left_to_the_strict_parser(text: str) -> None:
    assert parse_object(text.encode()) is None


def test_bytes_that_are_not_utf8_are_left_to_the_strict_parser() -> None:
    assert parse_object(b'{"a": "\xed\xa0\x80"}') is None


@given(objects)
def test_metadata_is_canonical(fields: dict[str, Any]) -> None:
    fields.pop("metadata", None)
    assert metadata_json(fields, frozenset()) == canonical_json(fields)


def test_deep_value_is_an_error_of_ours() -> None:
    with pytest.raises(JsonError):
        parse_json("[" * 100_000)
