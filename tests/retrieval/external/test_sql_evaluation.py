"""Searches in a database in an evaluation: asked once, judged as ours are, failures no zeros."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rag_assets.evaluation.likeness_stage import Pair, overlaps
from rag_assets.evaluation.metrics_stage import summary_key
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.artifacts import ArtifactKey
from tests.postgres_server import PASSWORD
from tests.retrieval.external.conftest import VARIABLE, SearchDatabase, rag_assets, vector_text
from tests.static_model import save_static_model
from tests.tiny_experiment import DOCUMENTS, Tiny

RANKINGS = ArtifactKey.of("external_rankings", retriever="mine")
HITS = ArtifactKey.of("external_hits", retriever="mine")
COMPARISONS = ArtifactKey.of("comparisons")

ANY_WORD = "CAST(replace(plainto_tsquery('english', :query)::text, ' & ', ' | ') AS tsquery)"
BY_WORDS = f"""
    SELECT text, file AS source, ts_rank(words, wanted) AS score
    FROM passages, {ANY_WORD} AS wanted WHERE words @@ wanted
    ORDER BY score DESC, text LIMIT :k
"""


def means(tiny: Tiny, retriever: str = "mine") -> dict[str, Any]:
    return dict(max(tiny.rows(summary_key(retriever)), key=lambda row: row["top_k"]))


def asked_at(tiny: Tiny) -> str:
    return str(tiny.pipeline().artifact(RANKINGS).manifest.fingerprint)


@pytest.fixture
def passages(postgres_search: SearchDatabase, monkeypatch: pytest.MonkeyPatch) -> SearchDatabase:
    """Paragraphs of the documents, which are chunks of the database's own."""
    monkeypatch.setenv(VARIABLE, postgres_search.dsn)
    postgres_search.execute(
        "DROP TABLE IF EXISTS passages; CREATE TABLE passages (file text, text text, words "
        "tsvector GENERATED ALWAYS AS (to_tsvector('english', text)) STORED, "
        "version integer DEFAULT 1)"
    )
    postgres_search.execute_each(
        "INSERT INTO passages VALUES (%s, %s)",
        [
            (name, part.strip())
            for name, text in DOCUMENTS.items()
            for part in text.split("\n\n")[1:]
        ],
    )
    return postgres_search


@pytest.fixture
def tiny(tmp_path: Path, passages: SearchDatabase, computed: Tiny) -> Tiny:
    """A search in Postgres beside BM25."""
    tiny = Tiny(tmp_path / "tiny").start_from(computed)
    tiny.config["retrievers"] = {
        "mine": {"type": "sql", "dsn_env": VARIABLE, "query": BY_WORDS, "revision": "1"},
        "bm25": tiny.config["retrievers"]["bm25"],
    }
    tiny.config |= {"baseline": "bm25", "measurements": {"latency_sample": 6}}
    return tiny.write()


def test_a_table_with_chunks_of_its_own_is_judged_on_evidence(tiny: Tiny) -> None:
    printed = rag_assets(tiny, "evaluate")
    assert "mine" in printed
    assert set(tiny.facts(HITS)["located"]) == {"exact"}
    own = means(tiny)
    assert (own["n_failed"], own["n_queries"]) == (0, 6)
    assert own["hit_rate"] == 1.0  # each evidence is a paragraph


def test_a_dsn_is_in_no_file(tiny: Tiny, passages: SearchDatabase) -> None:
    tiny.configure("mine", query=BY_WORDS.replace("passages,", "passages, no_such,"))
    printed = rag_assets(tiny, "evaluate", code=3)
    failures = set(tiny.pipeline().artifact(HITS).manifest.failures.values())
    assert 'relation "no_such" does not exist' in failures.pop()
    files = [file for file in tiny.root.rglob("*") if file.is_file()]
    assert len(files) > 50
    encoded = passages.dsn.split(":")[2].split("@")[0]
    for secret in (PASSWORD, encoded, "dagster:"):
        assert secret not in printed
        assert [file for file in files if secret.encode() in file.read_bytes()] == []


def test_the_content_of_a_duckdb_file_counts(tiny: Tiny) -> None:
    file = tiny.folder / "ids.duckdb"

    def write(name: str) -> None:
        file.unlink(missing_ok=True)
        with duckdb.connect(str(file)) as database:
            database.execute("CREATE TABLE ids AS SELECT ? AS id", [name])

    write("fares.md")
    tiny.config["retrievers"]["mine"] = {
        "type": "sql",
        "database": "ids.duckdb",
        "query": "SELECT id FROM ids WHERE :query IS NOT NULL",
        "revision": "1",
    }
    tiny.write_config()
    rag_assets(tiny, "evaluate")
    first = asked_at(tiny)
    rag_assets(tiny, "evaluate")
    assert asked_at(tiny) == first
    write("crew.md")
    rag_assets(tiny, "evaluate")
    assert asked_at(tiny) != first


class Paragraphs(Tiny):
    """The paragraphs of SQuAD, some of its questions, and their vectors in Postgres."""

    def fill(self, source: Path, model: Path, database: SearchDatabase, n_questions: int) -> None:
        from rag_assets.models.encoder import Encoder

        articles = json.loads(source.read_text(encoding="utf-8"))["data"]
        contexts = [p for article in articles for p in article["paragraphs"]]
        texts = {f"p{n:04d}": p["context"] for n, p in enumerate(contexts)}
        asked = [
            (qa["id"], qa["question"], name)
            for name, paragraph in zip(texts, contexts, strict=True)
            for qa in paragraph["qas"]
            if qa["answers"]
        ]
        asked = asked[:: len(asked) // n_questions][:n_questions]
        save_static_model(model, texts.values())
        self.write_rows("corpus.jsonl", [{"_id": n, "text": t} for n, t in texts.items()])
        self.write_rows("queries.jsonl", [{"_id": i, "text": t} for i, t, _ in asked])
        lines = [f"{i}\t{name}\t1\n" for i, _, name in asked]
        text = "".join(["query-id\tcorpus-id\tscore\n", *lines])
        (self.folder / "qrels").mkdir()
        (self.folder / "qrels" / "test.tsv").write_text(text, encoding="utf-8")
        vectors = Encoder(str(model)).encode(list(texts.values()), kind="document").tolist()
        database.execute(
            "DROP TABLE IF EXISTS exact, graph, lists;"
            "CREATE TABLE exact (id text, place vector(64));"
            "CREATE TABLE graph (LIKE exact); CREATE TABLE lists (LIKE exact)"
        )
        rows = list(zip(texts, map(vector_text, vectors), strict=True))
        database.execute_each("INSERT INTO exact VALUES (%s, %s)", rows)
        database.execute(
            "INSERT INTO graph TABLE exact; INSERT INTO lists TABLE exact;"
            "CREATE INDEX ON graph USING hnsw (place vector_cosine_ops) "
            "WITH (m = 4, ef_construction = 16);"
            "CREATE INDEX ON lists USING ivfflat (place vector_cosine_ops) WITH (lists = 30)"
        )


def nearest(table: str, model: Path, **settings: Any) -> dict[str, Any]:
    order = 'place <=> :vector, id COLLATE "C" DESC' if table == "exact" else "place <=> :vector"
    return {
        "type": "sql",
        "dsn_env": VARIABLE,
        "embedding": {"model": str(model)},
        "query": f"SELECT id, 1 - (place <=> :vector) AS score FROM {table} "
        f"ORDER BY {order} LIMIT :k",
        "settings": {"enable_seqscan": table == "exact", **settings},
        "revision": "1",
    }


@pytest.fixture
def squad(
    tmp_path: Path,
    postgres_search: SearchDatabase,
    shared_data: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> Paragraphs:
    monkeypatch.setenv(VARIABLE, postgres_search.dsn)
    source = shared_data("squad_dev_v2") / "dev-v2.0.rebuilt.json"
    found = Paragraphs(tmp_path / "squad")
    found.folder.mkdir(parents=True)
    model = tmp_path / "model"
    found.fill(source, model, postgres_search, 150)
    found.config = {
        "name": "squad",
        "dataset": {"format": "beir"},
        "retrievers": {
            "embedding": {"type": "embedding", "model": str(model)},
            "exact": nearest("exact", model),
            "hnsw_10": nearest("graph", model, **{"hnsw.ef_search": 10}),
            "hnsw_40": nearest("graph", model, **{"hnsw.ef_search": 40}),
            "hnsw_200": nearest("graph", model, **{"hnsw.ef_search": 200}),
            "ivfflat_1": nearest("lists", model, **{"ivfflat.probes": 1}),
            "ivfflat_30": nearest("lists", model, **{"ivfflat.probes": 30}),
        },
        "top_k": [10],
        "primary": "ndcg@10",
        "baseline": "exact",
        "measurements": {"latency_sample": 20},
        "statistics": {"resamples": 1000},
    }
    found.write_config()
    return found


@pytest.mark.real_data
@pytest.mark.slow
def test_pgvector_on_the_paragraphs_of_squad(squad: Paragraphs) -> None:
    rag_assets(squad, "evaluate")
    pipeline = squad.pipeline()
    names = list(pipeline.experiment.retrievers)
    runs = {name: pipeline.artifact(run_key(pipeline.experiment, name, 10)) for name in names}
    tables = {name: run.table() for name, run in runs.items()}
    assert tables["embedding"].num_rows == tables["exact"].num_rows == 1500

    ours, theirs = (
        {(row["query_id"], row["rank"]): row for row in tables[name].to_pylist()}
        for name in ("embedding", "exact")
    )
    assert ours.keys() == theirs.keys()
    differ = [place for place in ours if ours[place]["unit_id"] != theirs[place]["unit_id"]]
    # Two paragraphs change places only where their scores are that near.
    assert max(abs(ours[place]["score"] - theirs[place]["score"]) for place in ours) < 1e-6
    assert len(differ) < 15

    pairs = [Pair("exact", name, "unit") for name in names if name != "exact"]
    recall = {row["retriever_b"]: row["overlap"] for row in overlaps(tables, pairs).to_pylist()}
    assert recall["embedding"] > 0.999
    # Words of random vectors, and few links a paragraph: the graph loses much.
    assert recall["hnsw_10"] < recall["hnsw_40"] < recall["hnsw_200"] < 1
    assert recall["ivfflat_1"] < recall["ivfflat_30"] > 0.999

    rows = pipeline.artifact(COMPARISONS).table().to_pylist()
    compared = {(row["retriever_a"], row["retriever_b"]): row for row in rows}
    lost = compared["exact", "ivfflat_1"]
    assert lost["low"] <= lost["difference"] <= lost["high"] < 0
    kept = compared["exact", "ivfflat_30"]
    assert kept["low"] <= kept["difference"] == pytest.approx(0, abs=1e-9)
