from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.sources.fields import metadata_json
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
def test_a_value_that_is_written_is_read(value: dict[str, Any], ascii_only: bool) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=ascii_only)) == value


@settings(max_examples=600)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.booleans())
def test_what_is_accepted_has_the_value_that_another_parser_gives(text: str, inside: bool) -> None:
    text = f'{{"a": {text}}}' if inside else text
    try:
        value = parse_json(text)
    except JsonError:
        return
    assert json.dumps(value) == json.dumps(msgspec.json.decode(text))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1, "a": 1}', "key 'a' occurs twice in an object"),
        ('{"a": ":", "a": ":"}', "key 'a' occurs twice in an object"),
        ('{"a": 1, "\\u0061": 2}', "key 'a' occurs twice in an object"),
        ('{"a": 1, "a": "\\u003a"}', "key 'a' occurs twice in an object"),
        ('{"m": [{"a": {"b": 1, "b": 2}}]}', "key 'b' occurs twice in an object"),
        ('{"a": ' + "[" * 101 + "]" * 101 + "}", "JSON nested deeper than 100 levels"),
        ('{"a": 1e999}', "number 1e999 is out of range"),
        ('{"a": "\\ud800"}', "a lone surrogate (\\ud800 to \\udfff), half of a character"),
        ('{"a": "\\udc00\\ud800"}', "a lone surrogate (\\ud800 to \\udfff), half of a character"),
        ('{"a": NaN}', "NaN is not a JSON value"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(JsonError) as raised:
        parse_json(text)
    assert raised.value.problem == problem


@given(objects)
def test_metadata_is_canonical(fields: dict[str, Any]) -> None:
    fields.pop("metadata", None)
    assert metadata_json(fields, frozenset()) == canonical_json(fields)


def test_deep_value_is_an_error_of_ours() -> None:
    with pytest.raises(JsonError):
        parse_json("[" * 100_000)
