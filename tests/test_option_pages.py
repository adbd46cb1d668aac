"""Pages that follow the code: options of retrievers and query sets, and docs/reference/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from rag_assets.experiment import load_experiment
from rag_assets.query_sets.query_set import QUERY_SET_TYPES
from rag_assets.retrieval.lexical.analyzers import ANALYZERS
from rag_assets.retrieval.lexical.bm25 import Variant
from rag_assets.retrieval.registry import OWN_TYPES
from rag_assets.retrieval.reranking.diversity import mmr_order
from tests.option_tables import BLOCKS, PAGES, SHARED, meanings_in, options_of, table, tables_of
from tests.reference_pages import FOLDER
from tests.reference_pages import PAGES as REFERENCE_PAGES
from tests.tiny_experiment import DOCUMENTS, QUERIES, Tiny
from tests.walked_page import DOCS

_YAML = re.compile(r"^```yaml\n(.*?)^```$", re.M | re.S)
TABLES = [(page, name) for page in PAGES for name in tables_of(page)]


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


BLOCKS_OF_YAML = [(page, block[1]) for page in PAGES for block in _YAML.finditer(text_of(page))]


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    """A small folder with the files that the blocks name."""
    one = Tiny(tmp_path).write()
    (one.folder / "vectors").mkdir()
    (one.folder / "runs").mkdir()
    np.save(one.folder / "vectors" / "chunks.npy", np.eye(len(DOCUMENTS), dtype=np.float32))
    (one.folder / "vectors" / "chunks.txt").write_text("\n".join(DOCUMENTS), encoding="utf-8")
    ids = [str(query["query_id"]) for query in QUERIES]
    vectors = np.eye(len(ids), len(DOCUMENTS), dtype=np.float32)
    np.save(one.folder / "vectors" / "queries.npy", vectors)
    (one.folder / "vectors" / "queries.txt").write_text("\n".join(ids), encoding="utf-8")
    (one.folder / "runs" / "production.trec").write_text("q1 Q0 fares.md 1 2.5 ours\n")
    (one.folder / "my_search.py").write_text("def retrieve(query, k): return []\n")
    (one.folder / "app.py").write_text("def chain(question): return question\n")
    spans = [{"document_id": "fares.md", "start": 0, "end": 9, "texts": ["prices"]}]
    one.write_rows("written.jsonl", spans)
    (one.folder / "paraphrase.txt").write_text("version: 1\n[user]\nparaphrase: {query}\n")
    one.write_rows("rewritten.jsonl", [{"query_id": "q1", "variants": ["a dog on board"]}])
    return one


@pytest.mark.parametrize(("page", "block"), BLOCKS_OF_YAML)
def test_every_block_loads(tiny: Tiny, page: str, block: str) -> None:
    (tiny.folder / "experiment.yaml").write_text(block, encoding="utf-8")
    assert load_experiment(tiny.folder).retrievers


def test_every_type_strategy_and_option_has_its_place() -> None:
    blocks = "".join(block for _, block in BLOCKS_OF_YAML)
    for kind in OWN_TYPES:
        assert f"type: {kind}," in blocks or f"type: {kind}}}" in blocks, kind
        assert f"\n## {kind}\n" in text_of("retrievers.md"), kind
        assert f"](#{kind})" in text_of("retrievers.md"), kind
    for strategy in QUERY_SET_TYPES:
        assert f"strategy: {strategy}," in blocks or f"strategy: {strategy}}}" in blocks, strategy
    wanted = {*SHARED, *BLOCKS, *OWN_TYPES, *QUERY_SET_TYPES}
    assert {name for _, name in TABLES} == {name for name in wanted if options_of(name)}
    page = text_of("retrievers.md")
    for name in (*ANALYZERS, *get_args(Variant)):
        assert f"`{name}`" in page, name


@pytest.mark.parametrize(("page", "name"), TABLES)
def test_tables_are_those_of_the_code(page: str, name: str) -> None:
    rows = tables_of(page)[name]
    assert rows == table(name, meanings_in(rows)), "run `python -m tests.option_tables`"
    assert all(meanings_in(rows).values())


def test_the_worked_example_of_mmr() -> None:
    query = np.array([1, 0], dtype=np.float32)
    documents = np.array([[0.9, 0.436], [0.95, 0.312], [0.6, -0.8]], dtype=np.float32)
    order = mmr_order(query, documents, ["a", "b", "c"], 0.5)
    assert ["abc"[i] for i in order] == ["b", "c", "a"]
    a, b, c = documents.astype(float)
    assert [round(0.5 * one[0] - 0.5 * float(b @ one), 2) for one in (c, a)] == [0.14, -0.05]
    assert "= .14), then a (.5 x .9 - .5 x .991 =\n-.05)" in text_of("retrievers.md")


@pytest.mark.parametrize("name", REFERENCE_PAGES)
def test_a_page_is_as_the_code_writes_it(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == REFERENCE_PAGES[name](), (
        "run `make reference`"
    )


def test_no_cell_of_the_tables_is_empty_and_no_markup_of_docstrings_is_left() -> None:
    pages = {name: page() for name, page in REFERENCE_PAGES.items()}
    assert "| |" not in pages["tables.md"]
    assert ":class:" not in "".join(pages.values())
