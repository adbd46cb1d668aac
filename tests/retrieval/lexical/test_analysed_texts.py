"""Texts that are analysed again, of which most are known, give the files of a first analysis."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.retrieval.lexical.analyzers import analyze_all
from rag_assets.retrieval.lexical.tokens import AnalysedTexts, SortedTexts
from rag_assets.store import blocks
from rag_assets.store.canonical import file_digests

WORDS = [f"word{number}" for number in range(60)]


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "TARGET", 300)
        yield


def texts_of(seed: int, n: int = 200) -> dict[str, str]:
    chance = random.Random(seed)
    return {f"d{i:03d}": " ".join(chance.choices(WORDS, k=i % 12)) for i in range(n)}


def analysed(texts: dict[str, str], known: AnalysedTexts | None = None) -> AnalysedTexts:
    return AnalysedTexts.of(SortedTexts.of(list(texts), list(texts.values())), "whitespace", known)


def digest(folder: Path, found: AnalysedTexts) -> dict[str, str]:
    folder.mkdir()
    found.save(folder)
    return file_digests(folder)


def changed(texts: dict[str, str], changes: Sequence[tuple[str, int]]) -> dict[str, str]:
    found = dict(texts)
    for what, number in changes:
        name = f"d{number:03d}"
        if what == "remove":
            found.pop(name, None)
        else:
            found[name if what == "edit" else f"{name}x"] = f"other words {number} word1"
    return found


CHANGES = st.lists(
    st.tuples(st.sampled_from(["edit", "insert", "remove"]), st.integers(0, 199)), max_size=12
)


@given(st.integers(0, 5), CHANGES)
def test_known_blocks_change_no_byte(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    changes: list[tuple[str, int]],
) -> None:
    folder, texts = tmp_path_factory.mktemp("counts"), texts_of(seed)
    (folder / "known").mkdir()
    analysed(texts).save(folder / "known")
    known = AnalysedTexts.load(folder / "known")
    now = changed(texts, changes)
    again = analysed(now, known)
    assert digest(folder / "again", again) == digest(folder / "cold", analysed(now))


def test_only_texts_of_other_blocks_are_analysed(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, asked = texts_of(0), list[str]()
    known = analysed(texts)
    assert len(known.blocks) > 20

    def watched(analyzer: str, some: Sequence[str]) -> object:
        asked.extend(some)
        return analyze_all(analyzer, some)

    monkeypatch.setattr("rag_assets.retrieval.lexical.tokens.analyze_all", watched)
    analysed(texts, known)
    assert asked == []
    now = changed(texts, [("edit", 100)])
    digests = {block.digest for block in known.blocks}
    rows = [block.rows for block in analysed(now, known).blocks if block.digest not in digests]
    assert now["d100"] in asked
    assert len(rows) <= 2
    assert len(asked) == sum(rows) < 60


def test_another_analyzer_takes_nothing_over() -> None:
    texts = {f"d{number}": "The houses were painted" for number in range(30)}
    known = AnalysedTexts.of(SortedTexts.of(list(texts), list(texts.values())), "whitespace")
    found = AnalysedTexts.of(SortedTexts.of(list(texts), list(texts.values())), "english", known)
    assert "paint" in found.tokens.words
