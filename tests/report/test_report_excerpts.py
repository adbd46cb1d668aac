from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.report.page import query_results as module
from rag_assets.report.page.query_results import LENGTHS, TEXT_BYTES, Excerpt, Unit, excerpts

LONG = "".join(chr(0x1F600 + n % 50) if n % 7 == 0 else "ab c"[n % 4] for n in range(5_000))


def test_a_short_text_is_whole() -> None:
    unit = Unit("d", 3, 8)
    found, length = excerpts({"d": ("title", "0123456789")}, [unit], {})
    assert found == {unit: Excerpt(3, "34567")}
    assert length == LENGTHS[0]


@given(st.integers(0, 4_000), st.integers(1, 1_000), st.integers(0, 4_999))
def test_an_excerpt_is_a_part_of_its_unit_and_holds_its_evidence(
    start: int, size: int, evidence: int
) -> None:
    unit = Unit("d", start, start + size)
    text, _ = excerpts({"d": ("", LONG)}, [unit], {"d": [evidence]})
    found = text[unit]
    assert found.text == LONG[found.start : found.start + len(found.text)]
    assert unit.start <= found.start
    assert found.start + len(found.text) <= unit.end
    assert len(found.text) == min(size, LENGTHS[0])


def test_a_long_text_is_cut_around_its_first_evidence() -> None:
    found, _ = excerpts({"d": ("", LONG)}, [Unit("d", 100, 4_900)], {"d": [4_000, 3_000, 50]})
    ((_, excerpt),) = found.items()
    assert excerpt.start <= 3_000 < excerpt.start + len(excerpt.text)


def test_texts_get_shorter_until_they_fit() -> None:
    documents = {f"d{n}": ("", "x" * 5_000) for n in range(3_000)}
    units = [Unit(name, 0, 5_000) for name in documents]
    found, length = excerpts(documents, units, {})
    assert len(found) == len(units)
    assert length == 500
    assert {len(excerpt.text) for excerpt in found.values()} == {length}


def test_the_last_are_left_out_when_the_shortest_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TEXT_BYTES", 10_000)
    documents = {f"d{n}": ("", "<" * 5_000) for n in range(100)}
    units = [Unit(name, 0, 5_000) for name in documents]
    found, length = excerpts(documents, units, {})
    # An escaped "<" takes six bytes, and the quotes around a text two.
    assert len(found) == 10_000 // (6 * length + 2)
    assert list(found) == units[: len(found)]
    assert TEXT_BYTES > 1_000_000


def test_a_unit_without_a_document_has_no_text() -> None:
    found, _ = excerpts({"d": ("", "text")}, [Unit("gone", 0, 4), Unit("d", 0, 0)], {})
    assert found == {}
