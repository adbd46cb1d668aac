from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rag_assets.errors import StoreError, UsageError
from rag_assets.ordering import Hits
from rag_assets.retrieval.lexical import engine as engines
from rag_assets.retrieval.lexical.bm25 import BM25
from rag_assets.retrieval.lexical.builtin_engine import BuiltinEngine
from rag_assets.retrieval.lexical.engine import build_engine
from rag_assets.retrieval.lexical.tantivy_engine import LONGEST, TIES, TantivyEngine
from rag_assets.retrieval.lexical.token_counts import TokenCounts

TOKENS = st.lists(st.sampled_from("abcdefg"), max_size=12)
CORPORA = st.lists(TOKENS, min_size=1, max_size=12)


@pytest.fixture(scope="module", autouse=True)
def _temporary_files_in_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let no commit wait for a disk."""
    tmp_path_factory.getbasetemp()  # stays where it is
    with pytest.MonkeyPatch.context() as patched:
        if Path("/dev/shm").is_dir():
            patched.setattr(tempfile, "tempdir", "/dev/shm")
        yield


def lossy(length: int) -> int:
    """Return the length as one byte keeps it."""
    kept: list[int] = [*range(32), *(24 + m * 2**e for e in range(20) for m in range(8, 16))]
    return max(each for each in kept if each <= length)


def formula(chunks: list[list[str]], query: list[str]) -> npt.NDArray[np.float64]:
    """Return 2.2 times Lucene's BM25 with lossy lengths and an idf in float32, written out."""
    counts, mean = [Counter(chunk) for chunk in chunks], np.mean([len(chunk) for chunk in chunks])
    scores = np.zeros(len(chunks))
    for token in query:
        n = sum(token in count for count in counts)
        idf = np.log(np.float32(1) + np.float32((len(chunks) - n + 0.5) / (n + 0.5)))
        for i, count in enumerate(counts):
            if count[token]:
                relative = lossy(len(chunks[i])) / mean
                f = count[token]
                scores[i] += 2.2 * idf * f / (f + 1.2 * (1 - 0.75 + 0.75 * relative))
    return scores


def best_of(
    engine: TantivyEngine, query: list[str], ids_rank: npt.NDArray[np.int64], k: int
) -> Hits:
    return next(engine.best([query], ids_rank, k))


def ranks(engine: TantivyEngine) -> npt.NDArray[np.int64]:
    return np.arange(engine.n_chunks)


def long_chunks() -> list[list[str]]:
    random = np.random.default_rng(5)
    lengths = [*range(36, 60), 87, 88, 95, 96, 151, 1000, 5000, 20_000]
    return [[f"w{n}" for n in random.integers(0, 500, length)] for length in lengths]


def test_the_lengths_that_a_byte_keeps() -> None:
    assert [lossy(length) for length in range(41)] == [*range(41)]
    assert [lossy(length) for length in (41, 42, 55, 57, 60, 87, 88, 95, 96)] == [
        *(40, 42, 54, 56, 60, 84, 88, 88, 96)
    ]


def test_scores_of_long_chunks() -> None:
    chunks = long_chunks()
    engine = TantivyEngine.build(chunks)
    for query in (["w1"], ["w2", "w7", "w30"], ["w3", "w3", "w499", "w5", "w3"]):
        expected = formula(chunks, query)
        np.testing.assert_allclose(engine.scores(query), expected, rtol=1e-6)
        # the lengths matter: with exact ones the scores differ
        exact = 2.2 * BuiltinEngine.build(TokenCounts.of(chunks), 1.2, 0.75).scores(query)
        assert np.abs(exact / np.where(expected, expected, 1) - 1).max() > 1e-3


@settings(deadline=None, max_examples=25)
@given(CORPORA, st.lists(st.sampled_from("abcdefgxyz"), max_size=8))
def test_short_chunks_score_as_in_bm25s_times_the_factor(
    chunks: list[list[str]], query: list[str]
) -> None:
    scores = TantivyEngine.build(chunks).scores(query)
    assert scores.dtype == np.float64
    expected = 2.2 * BuiltinEngine.build(TokenCounts.of(chunks), 1.2, 0.75).scores(query)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_a_token_in_all_but_few_of_many_chunks() -> None:
    chunks = [["a"]] * 3_000 + [["b"]]
    scores = TantivyEngine.build(chunks).scores(["a"])
    np.testing.assert_allclose(scores, formula(chunks, ["a"]), rtol=1e-6)
    exact = 2.2 * BuiltinEngine.build(TokenCounts.of(chunks), 1.2, 0.75).scores(["a"])
    assert 1e-5 < abs(scores[0] / exact[0] - 1) < 1e-3  # 1 + x in float32 loses digits of a small x


def test_the_cut_goes_through_ties_of_any_number() -> None:
    n = 5 * TIES
    engine = TantivyEngine.build([["b"], *[["a", "b"]] * n, ["a", "a"]])
    best = best_of(engine, ["a"], ranks(engine), 3)
    assert best.positions.tolist() == [n + 1, n, n - 1]
    np.testing.assert_array_equal(best.scores, engine.scores(["a"])[best.positions])
    reversed_ids = ranks(engine)[::-1].copy()
    assert best_of(engine, ["a"], reversed_ids, 3).positions.tolist() == [n + 1, 1, 2]
    assert best_of(engine, ["a"], ranks(engine), 10_000).positions.tolist() == [
        *range(n + 1, 0, -1)
    ]
    with pytest.raises(UsageError, match="k is 0"):
        best_of(engine, ["a"], ranks(engine), 0)


def test_a_shorter_list_begins_a_longer_one_and_copies_score_the_same() -> None:
    random = np.random.default_rng(2)
    kinds = [[f"w{n}" for n in random.integers(0, 20, random.integers(2, 15))] for _ in range(40)]
    of_chunk = random.integers(0, 40, 3_000)
    engine = TantivyEngine.build([kinds[i] for i in of_chunk])
    query = [f"w{n}" for n in random.integers(0, 20, 9)]
    whole, all_scores = best_of(engine, query, ranks(engine), 3_000), engine.scores(query)
    for kind in range(40):
        assert len(set(all_scores[of_chunk == kind].tolist())) == 1
    for k in (1, 7, 100, 1_000):
        part = best_of(engine, query, ranks(engine), k)
        np.testing.assert_array_equal(part.positions, whole.positions[:k])
        np.testing.assert_array_equal(part.scores, whole.scores[:k])


def test_tokens_that_tantivy_would_drop_or_cut() -> None:
    spaced = "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647"  # what NFKC makes of one ligature
    longest = "x" * LONGEST
    chunks = [[spaced, "a"], ["x" * 70_000], ["x" * 70_001, "a"], [longest, "\u65e5"], ["A", "+"]]
    engine = TantivyEngine.build(chunks)
    assert engine.vocabulary_size == 8
    for token, holders in {
        **{spaced: [0], "\u0635\u0644\u0649": [], "x" * 70_000: [1], "x" * 70_001: [2]},
        **{longest: [3], "\u65e5": [3], "a": [0, 2], "A": [4], "+": [4], "": [], " ": []},
    }.items():
        assert np.flatnonzero(engine.scores([token])).tolist() == holders
    np.testing.assert_allclose(engine.scores(["a"]), formula(chunks, ["a"]), rtol=1e-6)


def test_files_repeat_and_tantivy_opens_the_folder(tmp_path: Path) -> None:
    import tantivy

    chunks = long_chunks()
    contents = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        built = TantivyEngine.build(chunks)
        built.save(folder)
        loaded = TantivyEngine.load(folder)
        np.testing.assert_array_equal(loaded.scores(["w2", "w9"]), built.scores(["w2", "w9"]))
        assert loaded.vocabulary_size == built.vocabulary_size
        again = tmp_path / f"{name} again"
        again.mkdir()
        loaded.save(again)
        contents += [
            {file.name: file.read_bytes() for file in each.iterdir()} for each in (folder, again)
        ]  # after searches: they leave nothing behind
    assert all(content == contents[0] for content in contents)
    assert {name.partition(".")[0] for name in contents[0]} == {"meta", "tantivy", f"{1:032x}"}
    assert tantivy.Index.open(str(tmp_path / "one")).searcher().num_docs == len(chunks)


def test_several_segments_give_the_same_scores(tmp_path: Path) -> None:
    chunks = [[f"w{i * j % 9001}" for j in range(1, 60)] for i in range(9_000)]
    one, many = TantivyEngine.build(chunks), TantivyEngine.build(chunks, heap=15_000_000)
    assert (one.searcher.num_segments, many.searcher.num_segments > 1) == (1, True)
    many.save(tmp_path)
    query = ["w18", "w4", "w4", "w360"]
    for engine in (many, TantivyEngine.load(tmp_path)):
        np.testing.assert_array_equal(engine.scores(query), one.scores(query))
        found = best_of(engine, query, ranks(engine), 50)
        assert found.positions.tolist() == best_of(one, query, ranks(one), 50).positions.tolist()


def test_the_temporary_folder_goes_with_the_engine() -> None:
    engine = TantivyEngine.build([["a"]])
    folder = engine.folder
    assert folder.is_dir()
    del engine
    assert not folder.exists()


@pytest.mark.parametrize("chunks", [[], [[]], [[], [], []]])
def test_no_tokens_at_all(tmp_path: Path, chunks: list[list[str]]) -> None:
    built = TantivyEngine.build(chunks)
    built.save(tmp_path)
    for engine in (built, TantivyEngine.load(tmp_path)):
        assert engine.vocabulary_size == 0
        assert engine.scores(["a"]).tolist() == [0.0] * len(chunks)
        assert best_of(engine, ["a"], ranks(engine), 3).positions.size == 0


def test_damaged_folders_are_named(tmp_path: Path) -> None:
    TantivyEngine.build([["a"]]).save(tmp_path)
    (tmp_path / f"{1:032x}.term").unlink()
    with pytest.raises(StoreError, match="index of tantivy cannot be read") as missing:
        TantivyEngine.load(tmp_path)
    assert "\n" not in str(missing.value)
    (tmp_path / "meta.json").write_text("{}")
    with pytest.raises(StoreError, match="index of tantivy cannot be read"):
        TantivyEngine.load(tmp_path)
    (tmp_path / "tantivy.json").unlink()
    with pytest.raises(StoreError, match=r"tantivy\.json"):
        TantivyEngine.load(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k1": 0.9}, "engine tantivy computes with k1 1.2 only; found 0.9"),
        ({"b": 0.4}, "engine tantivy computes with b 0.75 only; found 0.4"),
        ({"variant": "lucene"}, "engine tantivy computes lucene_lossy; found 'lucene'"),
        ({"delta": 1.0}, "delta belongs to the variants bm25l and bm25plus, not to lucene_lossy"),
    ],
)
def test_what_it_does_not_compute(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        BM25(type="bm25", engine="tantivy", **options)
    with pytest.raises(UsageError, match=message):
        build_engine("tantivy", TokenCounts.of([["a"]]), **{"k1": 1.2, "b": 0.75, **options})
    assert BM25(type="bm25", engine="tantivy", k1=1.2, b=0.75).variant == "lucene_lossy"


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda _: None)
    message = r"engine tantivy needs the package tantivy: pip install 'rag-assets\[tantivy\]'"
    with pytest.raises(ValidationError, match=message):
        BM25(type="bm25", engine="tantivy")
    with pytest.raises(UsageError, match=message):
        engines.own_versions("tantivy")
    assert BM25(type="bm25").engine == "builtin"
