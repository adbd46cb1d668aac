from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from rag_assets.errors import DataError, StoreError
from rag_assets.retrieval.lexical.index import LexicalIndex, WordSearcher
from tests.retrieval.lexical.index_of_texts import build_index

TEXTS = {
    "b": "The pump is cooled by the water.",
    "a": "The pump and the valve of the engine.",
    "\u00e9": "Cooling water for the crew",
    "c": "",
}
ENGINES = ("builtin", "rank_bm25")


def build(folder: Path, texts: dict[str, str], engine: str = "builtin") -> Mapping[str, object]:
    folder.mkdir(parents=True)
    return build_index(
        list(texts),
        list(texts.values()),
        engine=engine,
        analyzer="auto",
        k1=1.2,
        b=0.75,
        folder=folder,
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("engine", ENGINES)
def test_facts(tmp_path: Path, engine: str) -> None:
    facts = build(tmp_path / "index", TEXTS, engine)
    sizes = [len(content) for content in contents(tmp_path / "index").values()]
    assert facts == {
        "engine": engine,
        "analyzer": "english",
        "chunks": 4,
        "empty_chunks": 1,
        "vocabulary": 6,  # pump cool water valv engin crew
        "mean_length": 9 / 4,
        "bytes": sum(sizes),
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_the_order_of_the_corpus_leaves_every_byte_as_it_is(tmp_path: Path, engine: str) -> None:
    shuffled = list(TEXTS.items())
    random.Random(3).shuffle(shuffled)
    assert shuffled != list(TEXTS.items())
    build(tmp_path / "one", TEXTS, engine)
    build(tmp_path / "two", dict(shuffled), engine)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_the_hash_seed_leaves_every_byte_as_it_is(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; "
        "from tests.retrieval.lexical.index_of_texts import build_index; "
        "build_index(list('abc'), ['pump water', 'valve pump', 'crew of water'], engine='builtin', "
        "analyzer='english', k1=1.2, b=0.75, folder=Path(sys.argv[1]))"
    )
    for seed in ("1", "2"):
        (tmp_path / seed).mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        command = [sys.executable, "-c", code, str(tmp_path / seed)]
        subprocess.run(command, env=environment, check=True)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


@pytest.mark.parametrize("engine", ["builtin", "rank_bm25"])
def test_the_folder_holds_plain_files(tmp_path: Path, engine: str) -> None:
    build(tmp_path / "index", TEXTS, engine)
    files = list((tmp_path / "index").iterdir())
    assert {file.suffix for file in files} <= {".json", ".npy"}
    for file in files:
        if file.suffix == ".npy":
            np.load(file, allow_pickle=False)  # raises for pickled objects


def test_loaded_ids_and_analyzer(tmp_path: Path) -> None:
    build(tmp_path / "index", TEXTS)
    index = LexicalIndex.load(tmp_path / "index")
    assert index.chunk_ids == ["a", "b", "c", "\u00e9"]
    assert index.analyzer == "english"
    assert index.ids_rank.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("texts", [{}, {"a": ""}, {"a": "...", "b": "\U0001f600"}])
def test_corpora_without_a_token(tmp_path: Path, engine: str, texts: dict[str, str]) -> None:
    facts = build(tmp_path / "index", texts, engine)
    assert (facts["vocabulary"], facts["mean_length"]) == (0, 0.0)
    index = LexicalIndex.load(tmp_path / "index")
    assert [hits.positions.size for hits in WordSearcher(index).search(["pump", ""], 10)] == [0, 0]


def test_damaged_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"lexical_index\.json: .* No such file"):
        LexicalIndex.load(tmp_path)
    build(tmp_path / "index", TEXTS)
    description = tmp_path / "index" / "lexical_index.json"
    whole = description.read_text()
    description.write_text(whole.replace('"format": 1', '"format": 99'))
    with pytest.raises(StoreError, match="format 99; allowed: 1"):
        LexicalIndex.load(tmp_path / "index")
    description.write_text("{}")
    with pytest.raises(StoreError, match="not a JSON object with the keys"):
        LexicalIndex.load(tmp_path / "index")
    description.write_text(whole)
    objects = np.array([{}, None], dtype=object)
    np.save(tmp_path / "index" / "data.csc.index.npy", objects, allow_pickle=True)
    for mmap in (True, False):
        with pytest.raises(StoreError, match=r"data\.csc\.index\.npy"):
            LexicalIndex.load(tmp_path / "index", mmap=mmap)


def test_ids_must_be_unique_and_as_many_as_texts(tmp_path: Path) -> None:
    options = {"engine": "builtin", "analyzer": "auto", "k1": 1.2, "b": 0.75, "folder": tmp_path}
    with pytest.raises(DataError, match="id 'a' occurs twice"):
        build_index(["a", "a"], ["x", "y"], **options)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="1 chunk ids but 2 texts"):
        build_index(["a"], ["x", "y"], **options)  # type: ignore[arg-type]


def test_importing_loads_no_engine() -> None:
    code = (
        "import sys, rag_assets.retrieval.lexical.index; "
        "sys.exit(bool({'bm25s', 'rank_bm25', 'Stemmer'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0
