"""Searches in a database in an evaluation: asked once, judged as ours are, failures no zeros."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from rag_assets.evaluation.metrics_stage import summary_key
from rag_assets.retrieval.runs_stage import hits_key
from tests.postgres_server import PASSWORD
from tests.retrieval.external.conftest import VARIABLE, SearchDatabase, evaluate
from tests.tiny_experiment import DOCUMENTS, Tiny

ANY_WORD = "CAST(replace(plainto_tsquery('english', :query)::text, ' & ', ' | ') AS tsquery)"
BY_WORDS = f"""
    SELECT text, file AS source, ts_rank(words, wanted) AS score
    FROM passages, {ANY_WORD} AS wanted WHERE words @@ wanted
    ORDER BY score DESC, text LIMIT :k
"""


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


def test_chunks_of_a_table_are_judged_on_evidence_and_a_dsn_is_in_no_file(
    tmp_path: Path, passages: SearchDatabase, computed: Tiny
) -> None:
    tiny = Tiny(tmp_path / "tiny").start_from(computed)
    mine = {"type": "sql", "dsn_env": VARIABLE, "query": BY_WORDS, "revision": "1"}
    wrong = BY_WORDS.replace("passages,", "passages, no_such,")
    tiny.config["retrievers"] = {
        "mine": mine,
        "wrong": {**mine, "query": wrong},
        "bm25": tiny.config["retrievers"]["bm25"],
    }
    tiny.write()
    printed = evaluate(tiny, code=3)
    assert set(tiny.facts(hits_key("mine"))["located"]) == {"exact"}
    own = max(tiny.rows(summary_key("mine")), key=lambda row: row["top_k"])
    assert (own["n_failed"], own["n_queries"]) == (0, 6)
    assert own["hit_rate"] == 1.0  # each evidence is a paragraph
    failures = set(tiny.pipeline().artifact(hits_key("wrong")).manifest.failures.values())
    assert 'relation "no_such" does not exist' in failures.pop()
    files = [file for file in tiny.root.rglob("*") if file.is_file()]
    assert len(files) > 50
    encoded = passages.dsn.split(":")[2].split("@")[0]
    for secret in (PASSWORD, encoded, "dagster:"):
        assert secret not in printed
        assert [file for file in files if secret.encode() in file.read_bytes()] == []


def test_the_content_of_a_duckdb_file_counts(tmp_path: Path, computed: Tiny) -> None:
    tiny = Tiny(tmp_path / "tiny").start_from(computed).write()
    file = tiny.folder / "ids.duckdb"

    def write(name: str) -> None:
        file.unlink(missing_ok=True)
        with duckdb.connect(str(file)) as database:
            database.execute("CREATE TABLE ids AS SELECT ? AS id", [name])

    write("fares.md")
    query = "SELECT id FROM ids WHERE :query IS NOT NULL"
    tiny.configure("mine", type="sql", database="ids.duckdb", query=query, revision="1")
    assert "external_rankings/mine" in tiny.run()
    assert tiny.run() == set()
    write("crew.md")
    assert "external_rankings/mine" in tiny.run()
