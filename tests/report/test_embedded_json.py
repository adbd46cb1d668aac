from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.report.page.environment import escaped_json

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@given(ANY_TEXT)
def test_every_text_comes_back(text: str) -> None:
    assert json.loads(escaped_json(text)) == text


@given(st.recursive(ANY_TEXT, lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner)))
def test_nothing_in_it_ends_a_block(value: object) -> None:
    found = escaped_json(value)
    assert not set(found) & set("<>&\u2028\u2029")
    found.encode("utf-8")


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        escaped_json(float("nan"))


def test_a_tag_is_escaped() -> None:
    assert escaped_json("</script>") == '"\\u003c/script\\u003e"'
