"""The types ``bm25`` and ``tfidf``: what determines an index, what its folder holds, its order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.retrieval.lexical.bm25 import BM25
from rag_assets.retrieval.lexical.tfidf import TfIdf
from rag_assets.retrieval.registry import RETRIEVER_TYPES

WEIGHTINGS = ("raw", "length_normalised", "saturated", "sklearn")
TEXTS = {
    "b": "Die Pumpe KFP-30417 wird gek\u00fchlt",
    "a": "Die Pumpen KFP-30418 und das Ventil 30417",
    "\u00e9": "K\u00fchlung der Mannschaft",
    "c": "",
    "d": "Die Pumpe KFP-30417 wird gek\u00fchlt",
}
CONFIGS: dict[str, dict[str, Any]] = {
    "lucene": {"type": "bm25"},
    "robertson": {"type": "bm25", "variant": "robertson"},
    "bm25l": {"type": "bm25", "variant": "bm25l"},
    "plus": {"type": "bm25", "variant": "bm25plus"},
    **{name: {"type": "tfidf", "weighting": name} for name in WEIGHTINGS},
    "identifiers": {"type": "tfidf", "analyzer": "german", "identifiers": True},
    "feedback": {"type": "bm25", "expand": {"type": "rm3", "documents": 2}},
}


def retriever(options: dict[str, Any]) -> BM25 | TfIdf:
    kind = RETRIEVER_TYPES[options["type"]]
    made = kind(**options)
    assert isinstance(made, BM25 | TfIdf)
    return made


def build(options: dict[str, Any], texts: dict[str, str], folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    chunks = pa.table({"chunk_id": pa.array(list(texts), pa.string())})
    retriever(options).build(chunks, list(texts.values()), folder)
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def ranking(options: dict[str, Any], folder: Path, query: str, k: int) -> list[tuple[str, float]]:
    opened = retriever(options).open(folder)
    (hits,) = opened.search([query], k, None)
    found = zip(hits.positions.tolist(), hits.scores.tolist(), strict=True)
    return [(opened.chunk_ids[position], score) for position, score in found]


@pytest.mark.parametrize("options", CONFIGS.values(), ids=CONFIGS.keys())
def test_equal_chunks_give_equal_bytes_and_plain_files(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    one = build(options, TEXTS, tmp_path / "one")
    assert one == build(options, dict(reversed(TEXTS.items())), tmp_path / "two")
    for name in one:
        assert Path(name).suffix in {".json", ".npy"}
        if name.endswith(".npy"):
            np.load(tmp_path / "one" / name, allow_pickle=False)  # raises for pickled objects


@pytest.mark.parametrize("options", CONFIGS.values(), ids=CONFIGS.keys())
def test_order_and_hits(tmp_path: Path, options: dict[str, Any]) -> None:
    build(options, TEXTS, tmp_path / "index")
    found = ranking(options, tmp_path / "index", "30417", 10)
    ids = [chunk for chunk, _ in found]
    assert found == sorted(found, key=lambda hit: (hit[1], hit[0].encode()), reverse=True)
    # robertson: in three of five chunks, which is more than half
    assert set(ids) == (set() if options.get("variant") == "robertson" else {"a", "b", "d"})
    assert ranking(options, tmp_path / "index", "30417", 1) == found[:1]
    assert ranking(options, tmp_path / "index", "unknown", 10) == []


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(["x", "y z", "x x y", "", "z"]), min_size=1, max_size=12))
def test_exact_order_of_tfidf(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    options = {"type": "tfidf", "weighting": "sklearn", "analyzer": "standard"}
    folder = tmp_path_factory.mktemp("index") / "files"
    build(options, {f"d{i}": text for i, text in enumerate(texts)}, folder)
    whole = ranking(options, folder, "x z", 100)
    assert whole == sorted(whole, key=lambda hit: (hit[1], hit[0]), reverse=True)
    assert len(whole) == sum("x" in text or "z" in text for text in texts)
    assert all(ranking(options, folder, "x z", k) == whole[:k] for k in (1, 2, 5))


def test_identifiers_lift_the_chunk_that_holds_the_whole(tmp_path: Path) -> None:
    texts = {"parts": "30417 KFP 30417 KFP valve", "whole": "the valve KFP-30417 of the pump"}
    for name, flag in (("plain", False), ("kept", True)):
        build({"type": "bm25", "identifiers": flag}, texts, tmp_path / name)
    plain, kept = (
        ranking({"type": "bm25", "identifiers": flag}, tmp_path / name, "KFP-30417", 2)[0][0]
        for name, flag in (("plain", False), ("kept", True))
    )
    assert (plain, kept) == ("parts", "whole")


def test_a_default_that_is_written_out_changes_no_index() -> None:
    silent = BM25(type="bm25").index_options()
    assert silent == BM25(type="bm25", variant="lucene").index_options()
    assert silent != BM25(type="bm25", variant="atire").index_options()
    plus = BM25(type="bm25", variant="bm25plus")
    assert plus.index_options() == BM25(type="bm25", variant="bm25plus", delta=1.0).index_options()
    saturated = TfIdf(type="tfidf", weighting="saturated")
    assert saturated.k1 == 1.2
    assert saturated.index_options() != TfIdf(type="tfidf", weighting="raw").index_options()


def test_versions_name_what_computes() -> None:
    assert set(TfIdf(type="tfidf", analyzer="french", identifiers=True).versions()) == {
        "numpy",
        "PyStemmer",
        "unicode",
    }


@pytest.mark.parametrize("options", [{"type": "bm25"}, {"type": "tfidf", "weighting": "raw"}])
def test_a_title_counts_as_often_as_it_is_said_to(tmp_path: Path, options: dict[str, Any]) -> None:
    bodies = {"a": "the dog", "b": "the ferry and the dog", "c": "the ferry", "d": "a quay"}
    titles = {"a": "ferry", "b": "", "c": "dog", "d": "ferry"}

    def scores(name: str, weight: int, said: int, title: bool) -> dict[str, float]:
        (tmp_path / name).mkdir()
        texts = [f"{titles[one]}\n" * said * bool(titles[one]) + bodies[one] for one in titles]
        named = list(titles.values()) if title else [""] * len(titles)
        chunks = pa.table({"chunk_id": list(titles), "title": named})
        made = retriever({**options, "title_weight": weight})
        made.build(chunks, texts, tmp_path / name)
        return dict(ranking(options, tmp_path / name, "dog", 9))

    for weight in (0, 1, 3):
        found = scores(f"weight {weight}", weight, 1, title=True)
        assert found == scores(f"said {weight} times", 1, weight, title=False)
        assert ("c" in found) == (weight > 0)


def test_a_feedback_is_part_of_index_and_search_and_returns_no_more() -> None:
    plain, grown = BM25(type="bm25"), retriever(CONFIGS["feedback"])
    assert plain.index_options() != grown.index_options()
    assert plain.search_config() != grown.search_config()
    assert grown.neighbours is None
    window = BM25.model_validate({"type": "bm25", "expand": {"type": "window", "chunks": 2}})
    assert (window.index_options(), window.search_config()) == (
        plain.index_options(),
        plain.search_config(),
    )
    assert window.neighbours is not None
