"""SQL of an experiment: which parts are parameters, and what is refused before it is sent."""

from __future__ import annotations

import pytest

from rag_assets.retrieval.external.sql import Statement


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


def test_the_names_of_its_parameters() -> None:
    assert Statement("SELECT :k, :query, ':vector', :k").parameters == {"k", "query"}


def test_what_is_no_parameter_can_be_escaped_for_a_driver() -> None:
    statement = Statement("SELECT '%', 5 % :k")
    found = statement.written(lambda name: f"%({name})s", lambda text: text.replace("%", "%%"))
    assert found == "SELECT '%%', 5 %% %(k)s"
    assert found % {"k": 3} == "SELECT '%', 5 % 3"


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


@pytest.mark.parametrize("sql", ["SELECT name'x'", "SELECT type 'x'", "SELECT date'2026-01-01'"])
def test_a_name_before_a_text_is_no_escape_string(sql: str) -> None:
    assert written(sql) == sql
