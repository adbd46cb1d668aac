"""What every retriever keeps to, whatever it computes; so do fusions and rerankers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pytest
import yaml

from rag_assets.experiment import load_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import required_partitions
from rag_assets.retrieval.reranking.candidates import RerankedRetriever
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.settings import StoreSettings

HOSTILE = (
    "\u202eright to left\u202c \ufeff\u200b\u200d e\u0301\u0301\u0301 \U0001f469\u200d\U0001f52c "
    "\ufffd\ufffe\uffff \U0010ffff <script>alert(1)</script> '; DROP TABLE runs; -- \t\r\n {{x}} %s"
)
DOCUMENTS = {
    "twin-1": "The southern harbour closes when the wind is strong.",
    "twin-2": "The southern harbour closes when the wind is strong.",
    "dog": "A dog needs a ticket of ten crowns.",
    "hostile": f"harbour {HOSTILE}",
    "empty": "",
    "\u00e9-\u6e2f": "The harbour of \u6e2f \u6771\u4eac opens at six; a ferry leaves every hour.",
}
ONE_DOCUMENT = {"only": "The southern harbour closes when the wind is strong."}
WORDS = ("harbour", "wind", "ticket", "ferry", "crowns", "dog", "closes", "opens", "southern")
WIDE = {
    f"wide-{number:02}": " ".join(WORDS[number % step :: step] or WORDS[:1]) + f" {number // 3}"
    for number in range(45)
    for step in [1 + number % 4]
}
"""More documents than a shallow search looks at; three of them at a time are much alike."""

QUERIES = {
    "plain": "when does the southern harbour close",
    "other": "ticket for a dog",
    "empty": "",
    "blank": " \t ",
    "none": "zzyzx quux",
    "long": "wind harbour ticket ferry crowns " * 2_000,
    "hostile": HOSTILE,
}
TOP_K = (1, 3, 50)
DEEPEST = TOP_K[-1]
SHALLOW = 2

Rows = dict[str, list[dict[str, Any]]]
Retrievers = Mapping[str, Mapping[str, Any]]
"""Name -> options, as in an ``experiment.yaml``."""


class Evaluated:
    """An experiment in which retrievers rank queries, most of them awkward."""

    def __init__(
        self,
        root: Path,
        retrievers: Retrievers,
        documents: Mapping[str, str],
        queries: Mapping[str, str] = QUERIES,
        top_k: Sequence[int] = TOP_K,
    ) -> None:
        """Write the experiment into a folder of its own; documents and queries are id -> text."""
        self.documents, self.queries = documents, queries
        folder = root / "data"
        folder.mkdir(parents=True)
        corpus = [{"_id": name, "title": "", "text": text} for name, text in documents.items()]
        named = [{"_id": name, "text": text} for name, text in queries.items()]
        for file, rows in (("corpus.jsonl", corpus), ("queries.jsonl", named)):
            (folder / file).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        self.prepare(root)
        config = {
            "name": "contract",
            "dataset": {"format": "beir"},
            "retrievers": {name: dict(options) for name, options in retrievers.items()},
            "top_k": list(top_k),
            "measurements": {"latency_sample": 0},
        }
        (folder / "experiment.yaml").write_text(yaml.safe_dump(config, allow_unicode=True))
        self.settings = StoreSettings.resolve(root / "store")
        self.pipeline = Pipeline(load_experiment(folder), self.settings)

    def prepare(self, root: Path) -> None:
        """Write what the retrievers read besides the corpus, before the experiment is loaded."""

    def run(self) -> Self:
        """Compute all runs, and nothing of them."""
        experiment = self.pipeline.experiment
        for asset, keys in required_partitions(experiment, Selection.of(experiment)).items():
            if asset != "overlaps":
                list(self.pipeline.materialize(asset, keys))
        return self

    def table(self, retriever: str, top_k: int = DEEPEST) -> pa.Table:
        """Return a run as it is stored."""
        return self.pipeline.artifact(run_key(self.pipeline.experiment, retriever, top_k)).table()

    def failures(self, retriever: str) -> Mapping[str, str]:
        """Return the queries on which a retriever failed."""
        artifact = self.pipeline.artifact(run_key(self.pipeline.experiment, retriever, DEEPEST))
        return artifact.manifest.failures

    def rows(self, retriever: str, top_k: int = DEEPEST) -> Rows:
        """Return query id -> the rows of its results, as they are stored."""
        rows: Rows = {name: [] for name in QUERIES}
        for row in self.table(retriever, top_k).to_pylist():
            rows[row["query_id"]].append(row)
        return rows


Folders = pytest.TempPathFactory
_RUNS: dict[tuple[type[Evaluated], str, str], Evaluated] = {}


class RetrieverContract:
    """Order, ties, depths, empty and hostile queries, and equal bytes."""

    evaluated: type[Evaluated] = Evaluated

    @pytest.fixture
    def options(self) -> Mapping[str, Any]:
        """Give the block of an ``experiment.yaml``, such as ``{"type": "bm25"}``."""
        raise NotImplementedError

    @pytest.fixture
    def retrievers(self, options: Mapping[str, Any]) -> Retrievers:
        """Give all retrievers of the experiment."""
        return {"checked": options}

    @pytest.fixture
    def kind(self) -> str:
        """Give the name of the one that is checked."""
        return "checked"

    @pytest.fixture
    def first(self, retrievers: Retrievers, tmp_path_factory: Folders) -> Evaluated:
        """Give all runs."""
        return self._run("first", retrievers, DOCUMENTS, tmp_path_factory)

    @pytest.fixture
    def second(
        self, first: Evaluated, retrievers: Retrievers, tmp_path_factory: Folders
    ) -> Evaluated:
        """Give the same with the caches of the first, and the documents in another order."""
        turned = dict(reversed(DOCUMENTS.items()))
        cache = first.settings.store / "cache"
        return self._run("second", retrievers, turned, tmp_path_factory, cache)

    @pytest.fixture
    def single(self, retrievers: Retrievers, tmp_path_factory: Folders) -> Evaluated:
        """Give the runs over one document."""
        return self._run("single", retrievers, ONE_DOCUMENT, tmp_path_factory)

    def _run(
        self,
        name: str,
        retrievers: Retrievers,
        documents: Mapping[str, str],
        folders: Folders,
        cache: Path | None = None,
        queries: Mapping[str, str] = QUERIES,
        top_k: Sequence[int] = TOP_K,
    ) -> Evaluated:
        """Return runs; those of equal retrievers are computed once for all tests."""
        key = self.evaluated, name, json.dumps(retrievers, default=str)
        if key not in _RUNS:
            root = folders.mktemp(name)
            evaluated = self.evaluated(root, retrievers, documents, queries, top_k)
            if cache is not None and cache.is_dir():
                shutil.copytree(cache, evaluated.settings.store / "cache")
            _RUNS[key] = evaluated.run()
        return _RUNS[key]

    def test_ranks_count_from_one_and_nothing_stands_twice(
        self, first: Evaluated, kind: str
    ) -> None:
        """A run is a ranking of units of the corpus."""
        for rows in first.rows(kind).values():
            assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
            items = [row["unit_id"] for row in rows]
            assert len(set(items)) == len(items)
            assert set(items) <= set(DOCUMENTS)

    def test_the_order_is_by_score_then_id_descending(self, first: Evaluated, kind: str) -> None:
        """Equal scores are ordered by id, and every score is a number."""
        for rows in first.rows(kind).values():
            keys = [(row["score"], row["unit_id"].encode()) for row in rows]
            assert all(before > after for before, after in pairwise(keys))
            assert np.isfinite([score for score, _ in keys]).all()

    def test_a_smaller_k_is_a_cut_of_a_larger_one(self, first: Evaluated, kind: str) -> None:
        """So recall cannot fall as k grows."""
        deepest = first.rows(kind)
        for top_k in TOP_K:
            for query, rows in first.rows(kind, top_k).items():
                assert rows == deepest[query][:top_k]

    def test_an_ordinary_query_finds_its_documents(self, first: Evaluated, kind: str) -> None:
        """Words and meaning are those of two documents."""
        items = [row["unit_id"] for row in first.rows(kind)["plain"]]
        assert {"twin-1", "twin-2"} <= set(items)

    def test_no_query_fails(self, first: Evaluated, single: Evaluated, kind: str) -> None:
        """However odd it is."""
        assert first.failures(kind) == single.failures(kind) == {}

    def test_of_identical_documents_the_higher_id_comes_first(
        self, first: Evaluated, kind: str
    ) -> None:
        """Equal texts have equal scores."""
        for query, rows in first.rows(kind).items():
            items = [row["unit_id"] for row in rows if row["unit_id"].startswith("twin")]
            assert items in (["twin-2", "twin-1"], []), query

    def test_one_document_is_all_there_is(self, single: Evaluated, kind: str) -> None:
        """A corpus of one document gives lists of one."""
        for query, rows in single.rows(kind).items():
            assert [row["unit_id"] for row in rows] in (["only"], []), query
        assert [row["rank"] for row in single.rows(kind)["plain"]] == [1]

    def test_a_second_run_with_the_same_cache_gives_the_same_bytes(
        self, first: Evaluated, second: Evaluated, kind: str
    ) -> None:
        """The order of the documents does not matter."""
        for top_k in TOP_K:
            assert content(first.table(kind, top_k)) == content(second.table(kind, top_k))

    def test_how_deep_a_search_goes_changes_nothing_above(
        self, retrievers: Retrievers, kind: str, tmp_path_factory: Folders
    ) -> None:
        """What another cell, fusion or experiment reads below is no matter of the top."""
        cases = _with_inputs(retrievers, kind)
        few = {name: QUERIES[name] for name in ("plain", "other")}
        given = (cases, WIDE, tmp_path_factory)
        deep = self._run("deep", *given, queries=few, top_k=(SHALLOW, len(WIDE)))
        cache = deep.settings.store / "cache"
        shallow = self._run("shallow", *given, cache, queries=few, top_k=(SHALLOW,))
        expected = content(shallow.table(kind, SHALLOW))
        assert shallow.table(kind, SHALLOW).num_rows
        assert content(deep.table(kind, SHALLOW)) == expected

    @pytest.mark.parametrize("query", ["long", "hostile"])
    def test_an_awkward_query_is_a_query(self, first: Evaluated, kind: str, query: str) -> None:
        """It has results."""
        assert first.rows(kind)[query] != []


class FusionContract(RetrieverContract):
    """A fused retriever; its ``inputs`` are given."""

    @pytest.fixture
    def retrievers(self, options: Mapping[str, Any]) -> Retrievers:
        """Give two lexical retrievers and their fusion."""
        inputs = {"bm25": {"type": "bm25"}, "tfidf": {"type": "tfidf"}}
        return {**inputs, "checked": {"inputs": list(inputs), **options}}

    def test_only_what_an_input_has_is_returned(self, first: Evaluated, kind: str) -> None:
        """A fusion finds nothing by itself."""
        inputs = [first.rows("bm25"), first.rows("tfidf")]
        for query, rows in first.rows(kind).items():
            items = {row["unit_id"] for ranking in inputs for row in ranking[query]}
            assert {row["unit_id"] for row in rows} <= items


class RerankerContract(RetrieverContract):
    """A reranked retriever; its ``input`` is given."""

    @pytest.fixture
    def retrievers(self, options: Mapping[str, Any]) -> Retrievers:
        """Give a lexical retriever, and its candidates in a new order."""
        return {"bm25": {"type": "bm25"}, "checked": {"input": "bm25", **options}}

    def test_the_candidates_stay_the_same(self, first: Evaluated, kind: str) -> None:
        """A reranker brings nothing back; it loses nothing but what its type says it drops."""
        candidates = first.rows("bm25")
        drops = RerankedRetriever.lookup(kind, first.pipeline.experiment.retrievers).drops
        for query, rows in first.rows(kind).items():
            before = {row["unit_id"] for row in candidates[query]}
            after = {row["unit_id"] for row in rows}
            assert after <= before if drops else after == before


def _with_inputs(retrievers: Retrievers, name: str) -> dict[str, Mapping[str, Any]]:
    """Return a retriever with those that it reads, and no other."""
    options = retrievers[name]
    names = [*options.get("inputs", ()), *([options["input"]] if "input" in options else [])]
    return {n: o for kind_name in names for n, o in _with_inputs(retrievers, kind_name).items()} | {
        name: options
    }


def content(table: pa.Table) -> bytes:
    """Return the bytes of a table, without metadata."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.remove_metadata()) as writer:
        writer.write_table(table.replace_schema_metadata().combine_chunks())
    return bytes(sink.getvalue())
