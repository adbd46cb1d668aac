"""What every retriever keeps to, of ours and of packages."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from rag_assets.errors import ConfigError, StoreError
from rag_assets.models.encoder import Encoder
from rag_assets.retrieval.array_folder import CHUNK_IDS, ArrayFolder
from rag_assets.retrieval.registry import OWN_TYPES, retriever_types
from rag_assets.testing import RetrieverContract
from rag_assets.testing.retrievers import QUERIES, TOP_K, WIDE, Evaluated
from tests.installed import install, python
from tests.llm.server import ordered, serving, vector
from tests.retrieval import qdrant_server
from tests.retrieval.external import loopback
from tests.retrieval.reranking.tiny_models import cross_encoder, masked_language_model
from tests.static_model import save_static_model
from tests.test_contributing import blocks

TESTS = Path(__file__).resolve().parents[1]


class EvaluatedWithFiles(Evaluated):
    """What the types read that compute nothing is there too, also in an engine of Qdrant."""

    qdrant: Any = None

    def __init__(
        self,
        root: Path,
        retrievers: Mapping[str, Mapping[str, Any]],
        documents: Mapping[str, str],
        queries: Mapping[str, str] = QUERIES,
        top_k: Sequence[int] = TOP_K,
    ) -> None:
        hits = [{"id": name, "score": score} for name, score in scored(documents)]
        asking = {
            name: {**options, "body": {**options["body"], "documents": hits}}
            for name, options in retrievers.items()
            if options["type"] == "http"
        }
        asking |= {
            name: {**options, "collection": collected(self.qdrant, documents)}
            for name, options in retrievers.items()
            if options["type"] == "qdrant"
        }
        super().__init__(root, {**retrievers, **asking}, documents, queries, top_k)

    def prepare(self, root: Path) -> None:
        write_given(root / "given", self.documents, self.queries)


def scored(documents: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return the documents by their length, the longest first."""
    by_length = sorted(((len(text), name) for name, text in documents.items()), reverse=True)
    return [(name, score) for score, name in by_length]


def collected(engine: Any, documents: Mapping[str, str]) -> str:
    """Put documents into a new collection, with vectors of the default model, and name it."""
    from qdrant_client import models

    name, ids = f"made-{len(engine.get_collections().collections)}", sorted(documents)
    vectors = Encoder().encode([documents[one] for one in ids], kind="document").tolist()
    size = models.VectorParams(size=len(vectors[0]), distance=models.Distance.COSINE)
    engine.create_collection(name, size)
    rows = enumerate(zip(ids, vectors, strict=True))
    points = [models.PointStruct(id=n, vector=v, payload={"chunk_id": i}) for n, (i, v) in rows]
    engine.upsert(name, points)
    return name


def write_given(folder: Path, documents: Mapping[str, str], queries: Mapping[str, str]) -> None:
    """Write what is read, not computed: a run, and vectors of all documents and queries."""
    folder.mkdir()
    # Of equal texts both the scores and the vectors are equal.
    ranked = sorted(documents, key=lambda name: (-len(documents[name]), name))
    lines = [
        f"{query} Q0 {name} {rank} {len(documents[name])} made\n"
        for query in queries
        for rank, name in enumerate(ranked, start=1)
    ]
    (folder / "run.trec").write_text("".join(lines), encoding="utf-8")
    code = f"def retrieve(query, k):\n    return {scored(documents)!r}[:k]\n"
    (folder / "search.py").write_text(code, encoding="utf-8")
    with duckdb.connect(str(folder / "search.duckdb")) as database:
        database.execute("CREATE TABLE hits (id VARCHAR, score INTEGER)")
        database.executemany("INSERT INTO hits VALUES (?, ?)", scored(documents))
    for name, texts in (("chunks", documents), ("queries", queries)):
        vectors = np.array([vector(text) for text in texts.values()], dtype=np.float32)
        np.save(folder / f"{name}.npy", vectors)
        (folder / f"{name}.json").write_text(json.dumps(list(texts)), encoding="utf-8")


FUSED: Mapping[str, Any] = {"inputs": ["bm25", "embedding"]}
# Every query has candidates there, also the empty one.
RERANKED: Mapping[str, Any] = {"input": "embedding"}

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "bm25": {},
    "tfidf": {},
    "embedding": {},
    "rrf": FUSED,
    "convex": FUSED,
    "comb_sum": FUSED,
    "comb_mnz": FUSED,
    "borda": FUSED,
    "maxsim": RERANKED,
    "cross_encoder": {**RERANKED, "model": "<cross-encoder>"},
    "rerank_api": {**RERANKED, "model": "tiny", "base_url": "<server>", "retries": 0},
    "listwise": {
        **RERANKED,
        "model": "tiny",
        "base_url": "<v1>",
        "api_key_env": None,
        "retries": 0,
        "window": 3,
        "step": 2,
    },
    "mmr": RERANKED,
    "keep": {**RERANKED, "min_score": 0},  # the documents have twins
    "run_file": {"path": "../given/run.trec"},
    "python": {"call": "../given/search.py:retrieve"},
    "http": {
        "url": "<search>",
        "body": {"query": "{query}", "k": "{k}"},
        "hits": "hits",
        "id": "id",
        "score": "score",
        "retries": 0,
        "revision": "1",
    },
    "sql": {
        "database": "../given/search.duckdb",
        "query": "SELECT id, score FROM hits WHERE :query IS NOT NULL "
        "ORDER BY score DESC, id DESC LIMIT :k",
        "revision": "1",
    },
    "vectors": {
        "chunk_vectors": "../given/chunks.npy",
        "chunk_ids": "../given/chunks.json",
        "query_vectors": "../given/queries.npy",
        "query_ids": "../given/queries.json",
    },
    "openai_embedding": {"model": "tiny", "base_url": "<v1>", "api_key_env": None, "retries": 0},
    "splade": {"model": "<masked language model>"},
    "qdrant": {"url": "<qdrant>", "collection": "<made>", "exact": True},
}
"""The least that each type needs; what stands in angle brackets is made for all tests, files in
``../given`` for each experiment."""


ELSEWHERE = {"generator": "answers/test_own_answers.py"}
"""Types that need more than a retriever's block, here a generator, and where they are tested."""


def absent(kind: str) -> bool:
    return kind == "qdrant" and find_spec("qdrant_client") is None


def best_documents(request: loopback.Request) -> loopback.Reply:
    """Answer as the search in a file does; the request of an experiment brings its documents."""
    return loopback.Reply({"hits": request.body["documents"][: request.body["k"]]})


@pytest.fixture(scope="module")
def retrievers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """One retriever of each type, named after it."""
    folder = tmp_path_factory.mktemp("models")
    made = {
        "<cross-encoder>": str(cross_encoder(folder / "cross-encoder")),
        "<masked language model>": str(masked_language_model(folder / "splade")),
    }
    engine = None
    if not absent("qdrant"):
        from qdrant_client import QdrantClient

        engine = EvaluatedWithFiles.qdrant = QdrantClient(":memory:")
    with (
        serving(ordered) as server,
        loopback.serving(best_documents) as search,
        qdrant_server.serving(engine) as qdrant,
    ):
        made |= {"<qdrant>": qdrant}
        made |= {"<server>": server.root, "<v1>": server.base_url, "<search>": search.root}
        yield {
            kind: {"type": kind, **{n: made.get(str(v), v) for n, v in options.items()}}
            for kind, options in OPTIONS.items()
            if not absent(kind)
        }


class TestEveryType(RetrieverContract):
    evaluated = EvaluatedWithFiles

    @pytest.fixture
    def retrievers(self, retrievers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return retrievers

    @pytest.fixture(params=OPTIONS)
    def kind(self, request: pytest.FixtureRequest) -> str:
        kind = str(request.param)
        if absent(kind):
            pytest.skip("needs pip install 'rag-assets[qdrant]'")
        return kind

    @pytest.mark.parametrize("query", ["empty", "blank", "none"])
    @pytest.mark.parametrize("lexical", ["bm25", "tfidf"])
    def test_a_lexical_retriever_finds_nothing_for_nothing(
        self, first: Evaluated, lexical: str, query: str
    ) -> None:
        assert first.rows(lexical)[query] == []


def test_every_type_has_an_entry() -> None:
    assert sorted([*OPTIONS, *ELSEWHERE]) == sorted(OWN_TYPES)
    for kind, file in ELSEWHERE.items():
        assert f'"type": "{kind}"' in (TESTS / file).read_text(encoding="utf-8")


FINE = blocks()["acme_retrievers.py"]
POINT = "entry point rag_assets.retrievers "
BROKEN: dict[str, tuple[str, str, str]] = {
    "no such module": (
        "import nothing_like_it",
        "shared_ngrams",
        "cannot be imported: ModuleNotFoundError: No module named 'nothing_like_it'",
    ),
    "raises when imported": (
        "1 / 0",
        "shared_ngrams",
        "cannot be imported: ZeroDivisionError: division by zero",
    ),
    "no such class": (
        "",
        "shared_ngrams",
        "cannot be imported: AttributeError: module 'broken_module' has no attribute ",
    ),
    "a function": (
        "def SharedNgrams() -> None: ...",
        "shared_ngrams",
        "is not a class of a family, which are LexicalRetriever, EmbeddingRetriever, ",
    ),
    "another class": ("class SharedNgrams: ...", "shared_ngrams", "is not a class of a family, "),
    "half a class": (
        FINE.replace("def open(", "def opened("),
        "shared_ngrams",
        "lacks the methods open",
    ),
    "a name of ours": (FINE, "bm25", "the type exists already, in rag_assets"),
    "another name than its type": (
        FINE,
        "ngrams",
        'must have the option `type: Literal["ngrams"]`',
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plug_in_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    source, name, problem = BROKEN[case]
    install(tmp_path, {"broken_module.py": source}, pyproject("broken", name))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_module", raising=False)
    with pytest.raises(ConfigError) as caught:
        retriever_types().check()
    place = f"{POINT}'{name}' = 'broken_module:SharedNgrams' of broken 2.0: "
    assert str(caught.value).startswith(place + problem)
    assert "\n" not in str(caught.value)


def test_options_that_pydantic_cannot_read_are_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FINE.replace("    n: int =", "    strange: memoryview\n    n: int =")
    install(tmp_path, {"broken_module.py": source}, pyproject("broken", "shared_ngrams"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_module", raising=False)
    with pytest.raises(ConfigError, match="cannot be imported: PydanticSchemaGenerationError: "):
        retriever_types().check()


def test_two_packages_with_one_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        install(tmp_path, {f"{name}_module.py": FINE}, pyproject(name, "shared_ngrams"))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"of two 2\.0: the type exists already, in one 2\.0$"):
        retriever_types().check()


def test_the_command_line_says_it_in_one_line(tmp_path: Path) -> None:
    site = install(
        tmp_path, {"broken_module.py": "import nothing_like_it"}, pyproject("broken", "ngrams")
    )
    assert python(site, "-m", "rag_assets.cli", "--help").returncode == 0
    file = tmp_path / "experiment.yaml"
    file.write_text("retrievers: {mine: {type: ngrams}}\n", encoding="utf-8")
    done = python(site, "-m", "rag_assets.cli", "evaluate", str(file))
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {POINT}'ngrams' = 'broken_module:SharedNgrams' of broken 2.0: ")
    assert (done.returncode, done.stdout) == (2, "")


def pyproject(package: str, point: str) -> str:
    lines: dict[str, Any] = {"name": package, "version": "2.0"}
    head = "".join(f'{name} = "{value}"\n' for name, value in lines.items())
    group = '[project.entry-points."rag_assets.retrievers"]'
    return f'[project]\n{head}{group}\n{point} = "{package}_module:SharedNgrams"\n'


BM25: Mapping[str, Any] = {"type": "bm25", "analyzer": "english"}


class Contract(RetrieverContract):
    """Not collected: called for one option after the other."""

    __test__ = False


def check(options: Mapping[str, Any], folders: pytest.TempPathFactory) -> None:
    """Check one retriever alone."""
    given = {"bm25": {**BM25}, "checked": options}
    Contract().test_how_deep_a_search_goes_changes_nothing_above(given, "checked", folders)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_static_model(tmp_path_factory.mktemp("model") / "static", list(WIDE.values()))


@pytest.mark.parametrize(
    "options",
    [
        {"index": "hnsw", "hnsw": {"m": 2, "ef_construction": 4, "ef_search": 6}},
        {"index": "hnsw", "hnsw": {"m": 2, "ef_search": 4}, "similarity": "euclidean"},
        {"similarity": "euclidean"},
    ],
    ids=str,
)
def test_searches_of_vectors(
    options: Mapping[str, Any], model: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A graph this small misses much, and the same whatever it is asked for."""
    check({"type": "embedding", "model": str(model), **options}, tmp_path_factory)


@pytest.mark.parametrize(
    "options", [{"variant": "okapi"}, {"expand": {"type": "rm3", "documents": 3}}], ids=str
)
def test_searches_of_words(
    options: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    check({**BM25, **options}, tmp_path_factory)


class ByDepth(Evaluated):
    """A search of its own that puts another document first, the more it is asked for."""

    def prepare(self, root: Path) -> None:
        code = (
            f"def retrieve(query, k):\n    ids = {list(WIDE)!r}\n    return [*ids[k:], *ids][:k]\n"
        )
        (root / "search.py").write_text(code, encoding="utf-8")


class ContractByDepth(Contract):
    evaluated = ByDepth


def test_a_search_that_depends_on_the_depth_is_found_out(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    options = {"type": "python", "call": "../search.py:retrieve"}
    found = ContractByDepth().test_how_deep_a_search_goes_changes_nothing_above
    with pytest.raises(AssertionError):
        found({"checked": options}, "checked", tmp_path_factory)
    found({"checked": {**options, "k": 10}}, "checked", tmp_path_factory)


@pytest.mark.parametrize("text", ['{"a": 1}', '"abc"', "[1", ""])
def test_what_is_no_list_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "chunk_ids.json").write_text(text, encoding="utf-8")
    with pytest.raises(StoreError, match=r"JSON list|Expecting"):
        ArrayFolder(tmp_path).texts(CHUNK_IDS)
