from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag_assets.query_sets.variants import folded, variant_table
from tests.query_sets.queries import queries_of, texts_of


def test_original_first_and_no_text_twice() -> None:
    queries = queries_of({"b": " Who?", "a": "Why?"})
    texts = {"b": ["who?", "  Who else? ", "WHO  ELSE?", " ", "When?"], "gone": ["x"]}
    assert texts_of(variant_table(queries, texts)) == {
        "b": [" Who?", "Who else?", "When?"],
        "a": ["Why?"],
    }
    assert variant_table(queries.slice(0, 0), {}).num_rows == 0


@given(st.text(), st.lists(st.text(max_size=4), max_size=5))
def test_every_text_is_there_once(original: str, texts: list[str]) -> None:
    (found,) = texts_of(variant_table(queries_of({"q": original}), {"q": texts})).values()
    assert found[0] == original
    kept = [folded(text) for text in found]
    assert len(set(kept)) == len(kept)
    assert set(kept) == {folded(text) for text in [original, *texts] if text.strip()} | {kept[0]}
