"""A Postgres with pgvector that a test fills, and then lets be searched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tests.postgres_server import PASSWORD, postgres

VARIABLE = "MANUALS_DSN"


@dataclass(frozen=True)
class SearchDatabase:
    """A server on loopback with the extension ``vector``; all tables are in one database."""

    port: int

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[SearchDatabase]:
        with postgres() as port:
            database = cls(port)
            database.execute("CREATE EXTENSION vector")
            yield database

    @property
    def dsn(self) -> str:
        return f"postgresql://dagster:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/postgres"

    def execute(self, sql: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        return self.execute_each(sql, [values])

    def execute_each(self, sql: str, rows: Iterable[Sequence[Any] | None]) -> list[Any]:
        """Execute a statement once for each row of values; return what the last one gives."""
        import psycopg2

        connection = psycopg2.connect(self.dsn)
        try:
            with connection, connection.cursor() as cursor:
                for values in rows:
                    cursor.execute(sql, values)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()


def vector_text(vector: Iterable[float]) -> str:
    """Return a vector as pgvector reads it."""
    return f"[{','.join(map(repr, map(float, vector)))}]"
