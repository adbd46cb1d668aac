"""Tokens of texts, and the files of an index of them."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError, StoreError
from rag_assets.retrieval import array_folder
from rag_assets.retrieval.array_folder import COUNTED
from rag_assets.retrieval.lexical.analyzers import analyze_all
from rag_assets.retrieval.lexical.chunk_tokens import ChunkTokens
from rag_assets.retrieval.lexical.tokens import AnalysedTexts
from rag_assets.store import blocks
from rag_assets.store.artifacts import Block
from rag_assets.store.canonical import file_digests
from tests.retrieval.lexical.index_of_texts import build_index, opened

WORDS = [f"word{number}" for number in range(60)]


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "TARGET", 300)
        patch.setattr(array_folder, "SEGMENT", 2000)
        patch.setattr(array_folder, "MAX_SEGMENTS", 1 << 40)
        yield


def texts_of(seed: int, n: int = 200) -> dict[str, str]:
    chance = random.Random(seed)
    return {f"d{i:03d}": " ".join(chance.choices(WORDS, k=i % 12)) for i in range(n)}


def analysed(texts: dict[str, str], known: AnalysedTexts | None = None) -> AnalysedTexts:
    return AnalysedTexts.of(list(texts), list(texts.values()), "whitespace", known)


def blocks_of(texts: AnalysedTexts) -> list[Block]:
    return [block for segment in texts.segments for block in segment.blocks]


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


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> AnalysedTexts:
    folder = tmp_path_factory.mktemp("known")
    analysed(texts_of(0)).save(folder)
    return AnalysedTexts.load(folder)


@settings(max_examples=40)
@given(CHANGES)
def test_known_blocks_change_no_byte(
    tmp_path_factory: pytest.TempPathFactory, stored: AnalysedTexts, changes: list[tuple[str, int]]
) -> None:
    folder, known, now = tmp_path_factory.mktemp("counts"), stored, changed(texts_of(0), changes)
    again, cold = analysed(now, known), digest(folder / "cold", analysed(now))
    assert digest(folder / "again", again) == cold
    (folder / "at once").mkdir()
    ids = sorted(now)
    written = AnalysedTexts.of_ordered(
        ids,
        pa.chunked_array([[now[name] for name in ids]], pa.string()).__getitem__,
        "whitespace",
        known,
        folder=folder / "at once",
    )
    assert all(segment.content is None for segment in written.segments)
    written.save(folder / "at once")
    assert file_digests(folder / "at once") == cold


def test_an_edit_writes_one_segment(tmp_path: Path) -> None:
    texts, folders = texts_of(0), [tmp_path / name for name in ("known", "again", "cold")]
    for folder in folders:
        folder.mkdir()
    analysed(texts).save(folders[0])
    now = changed(texts, [("edit", 100)])
    analysed(now, AnalysedTexts.load(folders[0])).save(folders[1])
    analysed(now).save(folders[2])
    tables = sorted(folders[1].glob("*.parquet"))
    other = [file for file in tables if not file.samefile(folders[0] / file.name)]
    assert len(tables) >= 5 * len(COUNTED)
    assert {file.name.partition("-")[2] for file in other} == {other[0].name.partition("-")[2]}
    assert file_digests(folders[1]) == file_digests(folders[2])


def test_only_texts_of_other_blocks_are_analysed(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, asked = texts_of(0), list[str]()
    known = analysed(texts)
    assert len(blocks_of(known)) > 20

    def watched(analyzer: str, some: Sequence[str]) -> object:
        asked.extend(some)
        return analyze_all(analyzer, some)

    monkeypatch.setattr("rag_assets.retrieval.lexical.tokens.analyze_all", watched)
    analysed(texts, known)
    assert asked == []
    now = changed(texts, [("edit", 100)])
    digests = {block.digest for block in blocks_of(known)}
    again = blocks_of(analysed(now, known))
    rows = [block.rows for block in again if block.digest not in digests]
    assert now["d100"] in asked
    assert len(rows) <= 2
    assert len(asked) == sum(rows) < 60


def test_another_analyzer_takes_nothing_over() -> None:
    texts = {f"d{number}": "The houses were painted" for number in range(30)}
    known = AnalysedTexts.of(list(texts), list(texts.values()), "whitespace")
    found = AnalysedTexts.of(list(texts), list(texts.values()), "english", known)
    assert "paint" in found.segments[0].tokens.words


TEXTS = {
    "b": "The pump is cooled by the water.",
    "a": "The pump and the valve of the engine.",
    "\u00e9": "Cooling water for the crew",
    "c": "",
}
CORPORA = st.lists(st.lists(st.sampled_from("gfedcba"), max_size=9), max_size=12)


def build(folder: Path, texts: dict[str, str]) -> Mapping[str, object]:
    folder.mkdir(parents=True)
    return build_index(list(texts), list(texts.values()), analyzer="auto", folder=folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_facts(tmp_path: Path) -> None:
    facts = build(tmp_path / "index", TEXTS)
    sizes = [len(content) for content in contents(tmp_path / "index").values()]
    assert facts == {
        "analyzer": "english",
        "chunks": 4,
        "empty_chunks": 1,
        "vocabulary": 6,  # pump cool water valv engin crew
        "mean_length": 9 / 4,
        "bytes": sum(sizes),
    }


def test_another_process_writes_the_same_bytes_and_loads_no_stemmer_before(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; "
        "from tests.retrieval.lexical.index_of_texts import build_index; "
        "assert 'Stemmer' not in sys.modules; "
        f"build_index({list(TEXTS)}, {list(TEXTS.values())}, analyzer='auto', "
        "folder=Path(sys.argv[1]))"
    )
    build(tmp_path / "here", TEXTS)
    (tmp_path / "there").mkdir()
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, str(tmp_path / "there")]
    subprocess.run(command, env=environment, check=True)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


@pytest.mark.parametrize("texts", [{}, {"a": ""}, {"a": "...", "b": "\U0001f600"}])
def test_corpora_without_a_token(tmp_path: Path, texts: dict[str, str]) -> None:
    facts = build(tmp_path / "index", texts)
    assert (facts["vocabulary"], facts["mean_length"]) == (0, 0.0)
    index = opened(tmp_path / "index")
    assert [hits.positions.size for hits in index.search(["pump", ""], 10)] == [0, 0]


def test_damaged_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"word_index\.json: .* No such file"):
        opened(tmp_path)
    build(tmp_path / "index", TEXTS)
    description = tmp_path / "index" / "word_index.json"
    whole = description.read_text()
    description.write_text("{}")
    with pytest.raises(StoreError, match="not a JSON object with the keys"):
        opened(tmp_path / "index")
    description.write_text(whole)
    postings = tmp_path / "index" / "postings-0000.parquet"
    for table, problem in (
        (pa.table({"row": [0, 1, 2], "weight": [1.0] * 3}), "3 rows for 9 of its terms"),
        (pa.table({"row": [0, 1, 2]}), "there is no column weight"),
    ):
        pq.write_table(table, postings)
        with pytest.raises(StoreError, match=rf"postings-0000\.parquet: .* read: {problem}"):
            opened(tmp_path / "index")
    postings.write_text("no table")
    with pytest.raises(StoreError, match=r"postings-0000\.parquet: .* Parquet"):
        opened(tmp_path / "index")


def test_ids_must_be_unique_and_as_many_as_texts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="id 'a' occurs twice"):
        build_index(["a", "a"], ["x", "y"], analyzer="auto", folder=tmp_path)
    with pytest.raises(DataError, match="1 chunk ids but 2 texts"):
        build_index(["a"], ["x", "y"], analyzer="auto", folder=tmp_path)


@settings(deadline=None)
@given(CORPORA)
def test_counts_are_those_of_counters(chunks: list[list[str]]) -> None:
    tokens_of = ChunkTokens.joined([chunks])
    words = list(tokens_of.words)
    counts = tokens_of.counts(list(map(str, range(len(chunks)))))
    assert words == sorted({token for chunk in chunks for token in chunk})
    assert tokens_of.lengths.tolist() == [len(chunk) for chunk in chunks]
    expected = [
        (number, chunk, Counter(chunks[chunk])[token])
        for number, token in enumerate(words)
        for chunk in range(len(chunks))
        if token in chunks[chunk]
    ]
    numbers = np.repeat(np.arange(len(words)), counts.holding)
    entries = zip(numbers.tolist(), *(column.tolist() for column in counts.entries), strict=True)
    assert list(entries) == expected
    assert [array.dtype.name for array in counts.entries] == ["int32", "uint8"]
    every = [token for chunk in chunks for token in chunk]
    assert counts.terms.column("first").to_pylist() == [every.index(word) for word in words]


@settings(deadline=None)
@given(CORPORA, st.lists(st.integers(0, 12), max_size=3), st.booleans())
def test_blocks_of_any_size_give_the_tokens_of_all(
    chunks: list[list[str]], cuts: list[int], stored: bool
) -> None:
    bounds = [0, *sorted(min(cut, len(chunks)) for cut in cuts)]
    whole = ChunkTokens.joined([chunks])
    known = [whole.part(start, end) for start, end in pairwise(bounds)] if stored else []
    new = [chunks[start:end] for start, end in pairwise(bounds)] if not stored else []
    joined = ChunkTokens.joined([*known, *new, chunks[bounds[-1] :]])
    assert [joined.of_chunk(number) for number in range(len(chunks))] == chunks
    assert joined.words == whole.words
