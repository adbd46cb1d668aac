"""The recipes of docs/search_databases.md, on a real Postgres with pgvector and a DuckDB file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pytest
import snowballstemmer
import yaml

from rag_assets.called.hits import Hit
from rag_assets.retrieval.external.sql import SqlRetriever
from rag_assets.retrieval.workspace import NO_WORKSPACE
from tests.retrieval.external.conftest import VARIABLE, SearchDatabase, search, vector_text
from tests.retrieval.external.test_http_recipes import HARMFUL
from tests.tiny_experiment import DOCUMENTS, QUERIES, Tiny
from tests.walked_page import DOCS

PAGE = (DOCS / "search_databases.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(yaml|sql)\n(.*?)^```$", re.M | re.S)
TABLES = [block for kind, block in _BLOCK.findall(PAGE) if kind == "sql"]
RECIPES: Mapping[str, Mapping[str, Any]] = {
    name: options
    for kind, block in _BLOCK.findall(PAGE)
    if kind == "yaml"
    for name, options in yaml.safe_load(block)["retrievers"].items()
}
"""Retriever -> its options as the page has them."""

FUNCTION_WORDS = set(re.findall(r"\w+", "a are does for how in is of on the what when where"))
"""Those of the queries that Postgres leaves out."""

TEXTS = [str(query["text"]) for query in QUERIES] + HARMFUL
DIMENSIONS = 64
Ranked = list[tuple[float, "Passage"]]
Encode = Callable[[Sequence[str]], Any]
_stems = snowballstemmer.stemmer("english").stemWords


class Passage(NamedTuple):
    """A paragraph of a document."""

    file: str
    start: int
    text: str


@dataclass(frozen=True)
class Index:
    """Passages with their vectors; ``encode`` embeds passages."""

    passages: list[Passage]
    vectors: Any

    @classmethod
    def of(cls, documents: Mapping[str, str], encode: Encode) -> Index:
        passages = [
            Passage(file, found.start(), found[0])
            for file, text in documents.items()
            for found in re.finditer(r"^(?!#).+", text, re.M)
        ]
        return cls(passages, encode([passage.text for passage in passages]))

    def by_words(self, query: str) -> Ranked:
        wanted = set(re.findall(r"\w+", query.lower()))
        scores = [
            float(len(wanted & set(re.findall(r"\w+", p.text.lower())))) for p in self.passages
        ]
        return [pair for pair in self._ordered(scores) if pair[0] > 0]

    def by_vector(self, vector: object) -> Ranked:
        return self._ordered((self.vectors @ np.array(vector, dtype=np.float64)).tolist())

    def _ordered(self, scores: Sequence[float]) -> Ranked:
        return sorted(zip(scores, self.passages, strict=True), key=lambda pair: (-pair[0], pair[1]))


@pytest.fixture(scope="module")
def index(static_model: Path) -> Index:
    from rag_assets.models.encoder import Encoder

    encoder = Encoder(str(static_model))
    return Index.of(DOCUMENTS, lambda texts: encoder.encode(texts, kind="document"))


@pytest.fixture(scope="module")
def file(index: Index, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The DuckDB file of the page."""
    path = tmp_path_factory.mktemp("duckdb") / "manuals.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute(TABLES[1].replace("384", str(DIMENSIONS)))
        for passage, vector in zip(index.passages, index.vectors.tolist(), strict=True):
            row = [passage.file, passage.start, passage.start + len(passage.text), passage.text]
            database.execute("INSERT INTO manuals VALUES (?, ?, ?, ?, ?, 1)", [*row, vector])
    return path


@pytest.fixture(scope="module")
def tables(index: Index, postgres_search: SearchDatabase) -> Iterator[SearchDatabase]:
    """The table of the page, with its indexes."""
    create = TABLES[0].replace("CREATE EXTENSION vector;", "").replace("384", str(DIMENSIONS))
    postgres_search.execute(create)
    insert = "INSERT INTO manuals (id, file, text, embedding) VALUES (%s, %s, %s, %s)"
    rows = [
        (passage_id(passage), passage.file, passage.text, vector_text(vector))
        for passage, vector in zip(index.passages, index.vectors.tolist(), strict=True)
    ]
    postgres_search.execute_each(insert, rows)
    yield postgres_search
    postgres_search.execute("DROP TABLE manuals")


def passage_id(passage: Passage) -> str:
    # The order of ids is that of the passages, as in the engine of the other recipes.
    return f"{passage.file}#{passage.start:05d}"


@pytest.fixture(params=RECIPES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def searched(
    name: str,
    static_model: Path,
    file: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> SqlRetriever:
    """What the page has, with a model that is here."""
    if "dsn_env" in RECIPES[name]:
        monkeypatch.setenv(VARIABLE, request.getfixturevalue("tables").dsn)
    return recipe(name, static_model, file)


def recipe(name: str, model: Path, file: Path) -> SqlRetriever:
    options = dict(RECIPES[name])
    if "database" in options:
        options["database"] = file
        options["query"] = options["query"].replace("384", str(DIMENSIONS))
    if "embedding" in options:
        options["embedding"] = {**options["embedding"], "model": str(model)}
    return SqlRetriever.model_validate(options)


def is_known(hit: Hit, index: Index) -> bool:
    if hit.document_id is not None:
        span = (hit.document_id, hit.start, hit.end)
        return span in {(p.file, p.start, p.start + len(p.text)) for p in index.passages}
    return (hit.source, hit.text) in {(p.file, p.text) for p in index.passages}


def test_a_recipe_answers_every_query(searched: SqlRetriever, index: Index) -> None:
    results = search(searched, *TEXTS, k=3)
    assert [result.error for result in results] == [None] * len(TEXTS)
    for result in results:
        assert all(is_known(hit, index) for hit in result.hits)
        scores = [hit.score for hit in result.hits]
        assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
    assert any(len(result.hits) == 3 for result in results)


# With so few passages the graph holds all of them, and misses none.
@pytest.mark.parametrize("name", ["pgvector_exact", "pgvector_hnsw", "duckdb_vectors"])
def test_nearest_vectors(searched: SqlRetriever, index: Index) -> None:
    assert searched.embedding is not None
    for text, result in zip(TEXTS, search(searched, *TEXTS, k=5), strict=True):
        expected = index.by_vector(searched.embedding.vectors([text], NO_WORKSPACE)[0])[:5]
        assert [hit.score for hit in result.hits] == pytest.approx(
            [score for score, _ in expected], abs=1e-6
        )
        # Equal passages may change places.
        apart = [a - b > 1e-6 for (a, _), (b, _) in pairwise(expected)]
        if all(apart):
            texts = [passage.text for _, passage in expected]
            assert [hit.text for hit in result.hits] == texts


@pytest.mark.parametrize("name", ["pgvector_hnsw", "pgvector_exact"])
def test_whether_the_graph_is_used(
    name: str, searched: SqlRetriever, tables: SearchDatabase
) -> None:
    settings = [f"SET {key} = '{value}'" for key, value in RECIPES[name]["settings"].items()]
    query = RECIPES[name]["query"].replace(":vector", f"'{vector_text([1.0] * DIMENSIONS)}'")
    sql = "; ".join([*settings, f"EXPLAIN {query.replace(':k', '5')}"])
    plan = "\n".join(row[0] for row in tables.execute(sql))
    assert ("manuals_embedding_idx" in plan) == (name == "pgvector_hnsw"), plan


@pytest.mark.parametrize("name", ["postgres_words"])
def test_words_are_those_of_a_query(searched: SqlRetriever, index: Index) -> None:
    def stems(text: str) -> set[str]:
        words = set(re.findall(r"\w+", text.lower())) - FUNCTION_WORDS
        return set(_stems(sorted(words)))

    texts = [str(query["text"]) for query in QUERIES]
    for text, result in zip(texts, search(searched, *texts, k=100), strict=True):
        shared = {p.text for p in index.passages if stems(p.text) & stems(text)}
        assert {hit.text for hit in result.hits} == shared
        assert 0 < len(shared) < len(index.passages)


@pytest.mark.parametrize("name", ["duckdb_words"])
def test_words_in_duckdb(searched: SqlRetriever, index: Index) -> None:
    texts = [str(query["text"]) for query in QUERIES]
    for text, result in zip(texts, search(searched, *texts, k=5), strict=True):
        expected = index.by_words(text)[:5]
        assert [hit.score for hit in result.hits] == [score for score, _ in expected]


def test_a_hybrid_is_the_fusion_of_its_parts(
    tables: SearchDatabase,
    index: Index,
    static_model: Path,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, tables.dsn)
    words, vectors, hybrid = (
        search(recipe(name, static_model, file), *TEXTS, k=100)
        for name in ("postgres_words", "pgvector_exact", "postgres_hybrid")
    )
    ids = {(passage.file, passage.text): passage_id(passage) for passage in index.passages}
    for one, other, both in zip(words, vectors, hybrid, strict=True):
        scores: dict[str, float] = {}
        for part in (one, other):
            for rank, hit in enumerate(part.hits, 1):
                key = ids[str(hit.source), str(hit.text)]
                scores[key] = scores.get(key, 0.0) + 1 / (60 + rank)
        expected = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
        found = {ids[str(h.source), str(h.text)]: h.score for h in both.hits}
        assert found == pytest.approx(dict(expected), abs=1e-9)
    assert any(len(result.hits) > 1 for result in words)


def test_the_recipes_of_the_page_load(tmp_path: Path, file: Path) -> None:
    tiny = Tiny(tmp_path / "tiny").write()
    (tiny.folder / "manuals.duckdb").write_bytes(file.read_bytes())
    for name, options in RECIPES.items():
        tiny.configure(name, **options)
    assert set(RECIPES) < set(tiny.pipeline().experiment.retrievers)
