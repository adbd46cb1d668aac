"""``type: sql`` and its statements."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pydantic import ValidationError

from rag_assets.called.hits import Hit
from rag_assets.errors import DataError, UsageError
from rag_assets.experiment.hosts import retriever_client
from rag_assets.retrieval.external.base import QueryResult
from rag_assets.retrieval.external.sql import Postgres, SqlRetriever, Statement
from tests.background import free_port
from tests.postgres_server import PASSWORD
from tests.retrieval.external.conftest import VARIABLE, SearchDatabase, search
from tests.tiny_experiment import Tiny

WORDS = "plainto_tsquery('english', :query)"
FULL_TEXT = f"""
    SELECT id, ts_rank(to_tsvector('english', body), {WORDS}) AS score
    FROM notes WHERE to_tsvector('english', body) @@ {WORDS}
    ORDER BY score DESC, id LIMIT :k
"""


def echoing(columns: str) -> str:
    """Return a query of one row, that mentions a parameter."""
    return f"SELECT {columns} WHERE :query IS NOT NULL"


@pytest.fixture
def notes(postgres_search: SearchDatabase, monkeypatch: pytest.MonkeyPatch) -> SearchDatabase:
    monkeypatch.setenv(VARIABLE, postgres_search.dsn)
    postgres_search.execute(
        "DROP TABLE IF EXISTS notes; CREATE TABLE notes (id text, body text, place vector(3));"
        "INSERT INTO notes VALUES ('dog', 'A dog barks. Dogs bark.', '[1,0,0]'),"
        "('cat', 'The cat sleeps, as a dog does.', '[0,1,0]'), ('100%', 'It''s 100%', '[0,0,1]')"
    )
    return postgres_search


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "notes.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute(
            "CREATE TABLE notes AS SELECT * FROM (VALUES "
            "('dog', 'A dog barks', [1, 0]::FLOAT[2]), ('cat', 'A cat', [0.6, 0.8]::FLOAT[2])"
            ") AS given (id, body, place)"
        )
    return path


def retriever(query: str = FULL_TEXT, **options: Any) -> SqlRetriever:
    given = {"type": "sql", "query": query, "revision": "1", "timeout": 5, **options}
    if "database" not in given:
        given.setdefault("dsn_env", VARIABLE)
    return SqlRetriever.model_validate(given)


def reason(config: SqlRetriever, text: str = "dog") -> str:
    (result,) = search(config, text)
    assert list(result.hits) == []
    return str(result.error)


def ids(results: list[QueryResult]) -> list[list[str | None]]:
    return [[hit.id for hit in result.hits] for result in results]


@pytest.mark.usefixtures("notes")
def test_postgres_is_asked_for_each_query() -> None:
    results = search(retriever(), "dogs", "sleeping cats", "nothing like it", "")
    assert ids(results) == [["dog", "cat"], ["cat"], [], []]
    assert [result.error for result in results] == [None] * 4
    assert all(result.seconds is not None and result.seconds > 0 for result in results)
    (first, second) = results[0].hits
    assert first.score is not None
    assert second.score is not None
    assert first.score > second.score > 0
    assert ids(search(retriever(), "dogs", k=1)) == [["dog"]]


@pytest.mark.parametrize(
    "text",
    ["it's", "\\", "\\' OR 1=1 --", "%s %(query)s 100%", ":k :query", "$1", "'; DROP TABLE notes"],
)
def test_a_query_of_any_content_is_a_value(notes: SearchDatabase, file: Path, text: str) -> None:
    query = echoing(":query AS text, 5 % 3 AS start, '100%' AS source")
    for config in (retriever(query), retriever(query, database=file)):
        (result,) = search(config, text)
        assert (result.error, result.hits) == (None, [Hit(text=text, start=2, source="100%")])
    assert notes.execute("SELECT count(*) FROM notes") == [(3,)]


@pytest.mark.parametrize("where", ["postgres", "duckdb"])
@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("'x' AS body", "returns the columns body; allowed, each once: id, text, docume"),
        ("1 AS score", "returns the columns score; a hit is one of three: `id`; `text`; or"),
        ("'a' AS id, 'b' AS id", "returns the columns id, id; a hit is one of three"),
        ("NULL AS id", "hit 1: `id` matches nothing; a hit is one of three"),
        ("'a' AS id, 'NaN'::float8 AS score", "hit 1: `score` is NaN; it must be a finite number"),
        ("no_such AS id", "the database says: "),
    ],
)
def test_columns_that_are_no_hit_are_a_failed_query(
    notes: SearchDatabase, file: Path, where: str, columns: str, problem: str
) -> None:
    given = {} if where == "postgres" else {"database": file}
    assert problem in reason(retriever(echoing(columns), **given))


@pytest.mark.usefixtures("notes")
@pytest.mark.parametrize(
    ("columns", "hit"),
    [
        ("17::bigint AS id, 2::numeric AS score", Hit(id="17", score=2)),
        ("'a' AS id, NULL::real AS score", Hit(id="a")),
        ("gen_random_uuid() AS id", None),
        ("'t' AS text, 'f.md' AS source, NULL AS start", Hit(text="t", source="f.md")),
        ("3 AS document_id, 0 AS start, 5 AS end", Hit(document_id="3", start=0, end=5)),
    ],
)
def test_forms_of_a_hit(columns: str, hit: Hit | None) -> None:
    (result,) = search(retriever(echoing(columns)), "x")
    assert result.error is None
    (found,) = result.hits
    assert found == hit or (hit is None and len(str(found.id)) == 36)


def test_a_failure_of_one_query_leaves_the_others_alone(notes: SearchDatabase, file: Path) -> None:
    query = "SELECT (10 / length(:query))::int AS id"
    results = search(retriever(query), "ab", "", "a", "nul\0", "half \ud800", "ab")
    problems = [str(result.error) for result in results]
    assert problems[1] == "the database says: division by zero"
    assert problems[3].startswith("cannot be sent: A string literal cannot contain NUL")
    assert problems[4].startswith("cannot be sent: ")
    assert ids(results) == [["5"], [], ["10"], [], [], ["5"]]
    query = "SELECT CASE WHEN :query = '' THEN error('no words') ELSE :query END AS id"
    results = search(retriever(query, database=file), "ab", "", "a")
    assert ids(results) == [["ab"], [], ["a"]]
    assert results[1].error == "the database says: Invalid Input Error: no words"


@pytest.mark.usefixtures("notes")
def test_a_slow_postgres() -> None:
    query = "SELECT 'a' AS id FROM pg_sleep(CASE :query WHEN 'slow' THEN 20 ELSE 0 END)"
    results = search(retriever(query, timeout=1), "a", "slow", "b")
    assert [result.error for result in results] == [None, "no answer within 1 s", None]
    assert ids(results) == [["a"], [], ["a"]]


def test_a_slow_duckdb(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # An interrupted query is late, whatever a clock that was read elsewhere says.
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    heavy = "SELECT count(*) FROM range(CASE :query WHEN 'slow' THEN 9999999 ELSE 1 END) AS a(i)"
    query = f"SELECT ({heavy}, range(9999) AS b(j) WHERE i * j % 7 = 1)::VARCHAR AS id"
    results = search(retriever(query, database=file, timeout=1), "a", "slow", "b")
    assert [result.error for result in results] == [None, "no answer within 1 s", None]


def test_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv(VARIABLE, f"host=127.0.0.1 port={port} user=u password=secret-1")
        assert reason(retriever(timeout=0.2)) == "no answer within 0.2 s"


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"postgresql://u:secret-1@127.0.0.1:{free_port()}/manuals")
    results = search(retriever(), *"abcdefghij")
    assert str(results[0].error).startswith("the connection failed (")
    assert "Connection refused" in str(results[0].error)
    assert [str(r.error).startswith("not asked: 8 requests in a row") for r in results] == [
        *[False] * 8,
        *[True] * 2,
    ]


def test_a_connection_that_ends(notes: SearchDatabase) -> None:
    query = "SELECT pg_terminate_backend(pg_backend_pid())::text AS id WHERE :query = 'bad'"
    results = search(retriever(query), "good", "bad", "good")
    assert [result.error is None for result in results] == [True, False, True]
    assert str(results[1].error).startswith("the connection failed (")


@pytest.mark.usefixtures("notes")
@pytest.mark.parametrize(
    "query",
    [
        "WITH gone AS (DELETE FROM notes RETURNING id) SELECT id FROM gone WHERE :query <> ''",
        "SELECT setval('counter', 5)::text AS id WHERE :query <> ''",
        "SELECT set_config('transaction_read_only', 'off', false) AS id WHERE :query <> ''",
    ],
)
def test_postgres_is_only_read(notes: SearchDatabase, query: str) -> None:
    notes.execute("DROP SEQUENCE IF EXISTS counter; CREATE SEQUENCE counter")
    told = reason(retriever(query))
    assert "read-only transaction" in told or "must be set before any query" in told
    # Whatever a query says of later ones, these are read-only, too.
    settings = {"default_transaction_read_only": False, "transaction_read_only": False}
    assert reason(retriever(query, settings=settings)) != ""
    assert notes.execute("SELECT count(*) FROM notes") == [(3,)]
    assert notes.execute("SELECT last_value FROM counter") == [(1,)]


@pytest.mark.parametrize(
    "table", ["read_text('{file}')", "read_csv('{file}')", "glob('/*')", "'{file}'"]
)
def test_duckdb_reads_no_other_file(file: Path, tmp_path: Path, table: str) -> None:
    other = tmp_path / "other.csv"
    other.write_text("id\nsecret\n", encoding="utf-8")
    query = f"SELECT * FROM {table.format(file=other)} WHERE :query <> ''"
    told = reason(retriever(query, database=file))
    assert "disabled" in told
    assert "\n" not in told


def test_settings_are_those_of_the_queries(notes: SearchDatabase, file: Path) -> None:
    query = echoing("current_setting('hnsw.ef_search') || current_setting('jit') AS id")
    settings = {"hnsw.ef_search": 77, "jit": False}
    # The first connection loads the extension only when something of it is used.
    for k in (1, 2):
        assert ids(search(retriever(query, settings=settings), "x", k=k)) == [["77off"]]
    query = echoing("current_setting('threads') AS id")
    assert ids(search(retriever(query, database=file, settings={"threads": 1}), "x")) == [["1"]]


@pytest.mark.usefixtures("notes")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no_such", 'the database says: unrecognized configuration parameter "no_such"'),
        ("hnsw.ef_serch", "`settings`: the server has no 'hnsw.ef_serch'"),
    ],
)
def test_a_setting_that_is_none_is_said(name: str, problem: str) -> None:
    query = "SELECT id FROM notes WHERE :query <> '' ORDER BY place <=> '[1,0,0]'"
    assert reason(retriever(query, settings={name: 1})) == problem


@pytest.mark.usefixtures("notes")
def test_a_server_to_which_a_backslash_is_no_character() -> None:
    config = retriever(echoing(":query AS text"), settings={"standard_conforming_strings": False})
    assert reason(config, "\\") == "`standard_conforming_strings` of the server is off"


def test_settings_are_gone_with_the_query(notes: SearchDatabase) -> None:
    # What a pool hands on to somebody else is as it was.
    query = "SELECT :query || current_setting('app.tenant', true) AS id, pg_backend_pid() AS score"
    config = retriever(query, settings={"app.tenant": "acme"})
    assert ids(search(config, "a", "b")) == [["aacme"], ["bacme"]]
    with closing(config.connect()) as database:
        assert isinstance(database, Postgres)
        database.ask({"query": "a"})
        (connection,) = database._idle
        cursor = database._execute(connection, "SELECT current_setting('app.tenant', true)")
        assert cursor.fetchone() in ((None,), ("",))


def test_what_duckdb_cannot_open_is_said(file: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.duckdb"
    text.write_text("no database " * 999, encoding="utf-8")
    for options, problem in (
        ({"database": text}, r"text\.duckdb: IO Error"),
        ({"database": file, "extensions": ["no_such"]}, r"notes\.duckdb: .*no_such"),
        ({"database": file, "settings": {"no_such": 1}}, r"notes\.duckdb: .*no_such"),
    ):
        with pytest.raises(DataError, match=problem):
            search(retriever(echoing("1 AS id"), **options), "x")


def test_an_extension_of_duckdb_is_loaded(file: Path) -> None:
    config = retriever(echoing("1 AS id"), database=file, extensions=["json"])
    assert ids(search(config, "x")) == [["1"]]


def test_a_credential_stands_nowhere(
    notes: SearchDatabase, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[object] = []
    queries = (FULL_TEXT, echoing(f"1 / length('{PASSWORD}') - {'1' * 30} AS id"))
    wrong = notes.dsn.replace("dagster:", "dagster:no-")
    for dsn in (notes.dsn, wrong, notes.dsn.replace("/postgres", "/nowhere")):
        monkeypatch.setenv(VARIABLE, dsn)
        told += [search(retriever(query), "a") for query in queries]
    config = retriever(FULL_TEXT)
    told += [config.asked_as(), config.describe_for_plan(), caplog.text]
    for secret in (notes.dsn, PASSWORD, notes.dsn.split(":")[2].split("@")[0]):
        assert secret not in repr(told[0:1] + told[2:])
    assert "dagster" not in repr(told)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "environment variable MANUALS_DSN of `dsn_env` is not set"),
        ("secret words", "environment variable MANUALS_DSN of `dsn_env` holds no Postgres DSN"),
        ("postgresql://u:secret@h:port:1/x?y", "MANUALS_DSN of `dsn_env` holds no Postgres DSN"),
    ],
)
def test_a_variable_that_holds_no_dsn(
    value: str | None, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(UsageError, match=problem) as raised:
        search(retriever(), "a")
    assert "secret" not in str(raised.value)
    assert raised.value.__context__ is None


def test_another_machine_must_be_named(
    notes: SearchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What connects is the address; the name may be anything.
    monkeypatch.setenv(VARIABLE, f"{notes.dsn}?host=elsewhere.example&hostaddr=127.0.0.1")
    with pytest.raises(UsageError, match="variable MANUALS_DSN names another machine than this"):
        search(retriever(), "a")
    with pytest.raises(UsageError, match="`host` of the retriever names it too"):
        search(retriever(host="other.example"), "a")
    (result,) = search(retriever(host="elsewhere.example"), "dogs")
    assert result.error is None


def test_who_is_asked_is_known_without_asking(tmp_path: Path, file: Path) -> None:
    tiny = Tiny(tmp_path / "tiny").write()
    options = {"type": "sql", "dsn_env": VARIABLE, "query": FULL_TEXT, "revision": "1"}
    tiny.configure("here", **options)
    tiny.configure("there", **options, host="db.example", concurrency=4)
    tiny.configure("file", type="sql", database=str(file), query=FULL_TEXT, revision="1")
    experiment = tiny.pipeline().experiment
    assert retriever_client(experiment, "here") is None
    assert retriever_client(experiment, "file") is None
    client = retriever_client(experiment, "there")
    assert client is not None
    assert (client.host, client.is_named, client.is_bounded) == ("db.example", True, True)


OPTIONS: Mapping[str, Any] = {"type": "sql", "dsn_env": "A", "query": FULL_TEXT, "revision": "1"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"query": "SELECT 1; SELECT 2"}, "must be one statement"),
        ({"query": "SELECT 1 AS id LIMIT :k"}, "has neither the parameter :query nor its :vector"),
        ({"query": "SELECT :vector AS id"}, "`embedding` and a :vector in the query belong toget"),
        ({"embedding": {"model": "m"}}, "`embedding` and a :vector in the query belong together"),
        ({"dsn_env": None}, "needs `dsn_env` for a Postgres, or `database` for a DuckDB file"),
        ({"database": "a.duckdb"}, "needs `dsn_env` for a Postgres, or `database` for a DuckDB"),
        ({"dsn_env": "postgresql://u:secret@h/d"}, "names an environment variable, which holds"),
        ({"dsn_env": None, "database": "a", "host": "h"}, "`host` belongs to `dsn_env`"),
        ({"host": "u@h"}, "is the name or the address of a machine, without port and user"),
        ({"extensions": ["fts"]}, "`extensions` are for DuckDB"),
        ({"dsn_env": None, "database": "a", "extensions": ["a; b"]}, "'a; b' is not a name"),
        ({"settings": {"a = 1; b": 1}}, "'a = 1; b' is not a name"),
    ],
)
def test_options_that_contradict_each_other(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError) as raised:
        SqlRetriever.model_validate({**OPTIONS, **options})
    assert problem in str(raised.value)


def written(sql: str) -> str:
    return Statement(sql).written(lambda name: f"<{name}>")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT :query, :k", "SELECT <query>, <k>"),
        ("select :query::text limit :k", "select <query>::text limit <k>"),
        ("SELECT (:vector)::real[]", "SELECT (<vector>)::real[]"),
        ("SELECT a::k, b:k, c[1:k], '':k", "SELECT a::k, b:k, c[1:k], '':k"),
        ("SELECT ':query', \":k\", 'it''s :k'", "SELECT ':query', \":k\", 'it''s :k'"),
        ("SELECT $$ :k ' $$, $a$ :k $$ $a$, :k", "SELECT $$ :k ' $$, $a$ :k $$ $a$, <k>"),
        ("SELECT :kind, :k", "SELECT :kind, <k>"),
        ("-- ; :k\nSELECT 1 /* ; ' :k */ + :k", " \nSELECT 1   + <k>"),
        ("SELECT :k ; -- done", "SELECT <k> "),
        (" ( SELECT :k )", " ( SELECT <k> )"),
        ("WITH a AS (SELECT 1) TABLE a", "WITH a AS (SELECT 1) TABLE a"),
    ],
)
def test_parameters_stand_in_code_alone(sql: str, expected: str) -> None:
    assert written(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1; DROP TABLE a",
        "SELECT 1;;",
        "SELECT 1; /* */ SELECT 2",
        # A line ends at a carriage return too.
        "SELECT 1 -- \r ; DROP TABLE a",
        # A name goes on with a dollar, so this begins no text.
        "SELECT a$$ ; DROP TABLE a; $$",
        "SELECT \U0001f600$$ ; DROP TABLE a; $$",
        # A text of any letters.
        "SELECT $\u00e9$ ' $\u00e9$ ; DROP TABLE a; '",
        "SELECT 'a' ; DROP TABLE a; --'",
        "SELECT \"a'\" ; DROP TABLE a; '",
    ],
)
def test_a_second_statement_is_refused(sql: str) -> None:
    with pytest.raises(ValueError, match="one statement; there is more text after its ';'"):
        Statement(sql)


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        (r"SELECT E'a'" + "\n" + r"'\'' ; DROP TABLE a --'", "has an escape string"),
        (r"SELECT 1,e'\''", "has an escape string"),
        ("SELECT /* /* */ '*/ ; DROP TABLE a; --'", "has a comment within a comment"),
        ("DELETE FROM a", "must be a query that only reads"),
        ("COPY (SELECT 1) TO PROGRAM 'sh'", "must be a query that only reads"),
        ("/* SELECT */ UPDATE a SET b = 1", "must be a query that only reads"),
        ("'SELECT' 1", "must be a query that only reads"),
        ("SELECTED", "must be a query that only reads"),
        ("", "must be a query that only reads"),
        ("; SELECT 1", "there is more text"),
    ],
)
def test_what_does_not_only_read_is_refused(sql: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Statement(sql)
