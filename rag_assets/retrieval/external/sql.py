"""``type: sql``: a search that is a query, of Postgres (with pgvector) or of a DuckDB file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from rag_assets.errors import DataError, NotServed
from rag_assets.package_versions import version
from rag_assets.plain_text import shortened
from rag_assets.retrieval.external.answer_paths import Unusable
from rag_assets.retrieval.external.base import (
    ExternalRetriever,
    QueryResult,
    RevisionQuery,
    SearchSession,
)
from rag_assets.retrieval.external.http_connection import Outage
from rag_assets.retrieval.external.query_embedding import QueryEmbedding
from rag_assets.retrieval.external.sql_databases import DuckDBFile, Postgres
from rag_assets.retrieval.external.sql_statement import Settings, Sql, Statement, hits_in
from rag_assets.retrieval.external.workers import in_order
from rag_assets.servers.failures import ServerFailure


def _checked_variable(name: str) -> str:
    if not (name.isidentifier() and name.isascii()):
        raise ValueError("names an environment variable, which holds the DSN")
    return name


def _checked_host(host: str) -> str:
    if not host or any(character in host for character in "/@? ,"):
        raise ValueError("is the name or the address of a machine, without port and user")
    return host


def _checked_extension(name: str) -> str:
    if not (name.isidentifier() and name.isascii()):
        raise ValueError(f"'{name}' is not the name of an extension")
    return name


class SqlRetriever(ExternalRetriever):
    """A search that is a query of a database.

    ``query`` is one statement that reads, with the parameters ``:query``, ``:k`` and ``:vector``,
    the query's vector by ``embedding``. Its columns are those of a hit: ``id``; ``text``, with
    ``source`` or ``document_id``; or ``document_id``, ``start`` and ``end``; with all of them
    ``score``. The order of the rows is the ranking. The environment variable that ``dsn_env`` names
    holds the DSN of a Postgres, which is never stored, shown or part of a fingerprint; ``host`` is
    the machine in it, where that is another one. ``database`` is a DuckDB file, whose content
    counts. ``settings`` are those of the database for these queries, such as ``hnsw.ef_search``.
    """

    file_options: ClassVar[tuple[str, ...]] = ("database",)
    answers_sql: ClassVar[bool] = True

    type: Literal["sql"]
    query: Sql
    dsn_env: Annotated[str, AfterValidator(_checked_variable)] | None = None
    host: Annotated[str, AfterValidator(_checked_host)] | None = None
    database: Path | None = None
    extensions: tuple[Annotated[str, AfterValidator(_checked_extension)], ...] = ()
    settings: Settings = Field(default_factory=dict)
    embedding: QueryEmbedding | None = None

    @model_validator(mode="after")
    def _asks_one_database(self) -> Self:
        if (self.dsn_env is None) == (self.database is None):
            raise ValueError("needs `dsn_env` for a Postgres, or `database` for a DuckDB file")
        if self.dsn_env is None and self.host is not None:
            raise ValueError("`host` belongs to `dsn_env`")
        if self.dsn_env is not None and self.extensions:
            raise ValueError("`extensions` are for DuckDB; Postgres has its own")
        return self

    @model_validator(mode="after")
    def _asks_for_queries(self) -> Self:
        parameters = Statement(self.query).parameters
        if not parameters & {"query", "vector"}:
            raise ValueError("`query` has neither the parameter :query nor its :vector")
        if ("vector" in parameters) != (self.embedding is not None):
            raise ValueError("`embedding` and a :vector in the query belong together")
        if isinstance(self.revision, RevisionQuery) and Statement(self.revision.sql).parameters:
            raise ValueError("revision: {sql: ...} asks for no query, so it has no parameters")
        return self

    def ranking_config(self) -> Mapping[str, Any]:
        """Return the options that determine what is found; nothing of a DSN but its variable."""
        own = {"embedding": self.embedding.described()} if self.embedding is not None else {}
        return {**super().ranking_config(), **own}

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what embeds queries, and of what reads a file."""
        engine = {"duckdb": version("duckdb")} if self.database is not None else {}
        return {**engine, **(self.embedding.versions() if self.embedding is not None else {})}

    def describe_for_plan(self) -> list[str]:
        """Return who would be asked."""
        at_once = f", {self.concurrency} at once" if self.concurrency > 1 else ""
        if self.database is not None:
            return [f"reads {self.database.name} by DuckDB{at_once}"]
        where = self.host or "this machine"
        return [f"asks the Postgres of {self.dsn_env} on {where}, a statement a query{at_once}"]

    def current_revision(self, tools: SearchSession) -> str:
        """Return what the query of ``revision`` gives.

        Raises:
            NotServed: it fails.
            DataError: it gives something else than one value.
        """
        if not isinstance(self.revision, RevisionQuery):
            return super().current_revision(tools)
        sql = shortened(" ".join(self.revision.sql.split()), 60)
        with closing(self._opened()) as database:
            try:
                answer, _ = database.ask(Statement(self.revision.sql), {})
            except ServerFailure as failure:
                problem = database.line(failure)
            else:
                if len(answer.columns) == len(answer.rows) == 1 and answer.rows[0][0] is not None:
                    return str(answer.rows[0][0])
                size = f"{len(answer.rows)} rows of {len(answer.columns)} columns"
                raise DataError(f"gives {size}, or nothing; it must be one value", key=sql)
        raise NotServed(f"`revision`: {sql}: {problem}")

    def search(
        self, queries: Sequence[tuple[str, str]], k: int, tools: SearchSession
    ) -> Iterator[QueryResult]:
        """Ask the database; times are those of the statement, without embedding and connecting.

        Raises:
            UsageError: the variable of ``dsn_env`` is not set, holds no DSN, or names a machine
                that ``host`` does not; or the driver is not installed.
            DataError: DuckDB cannot open the file.
            ModelUnavailable: the model of ``embedding`` cannot be loaded.
        """
        database = tools.get_or_open("sql", lambda: closing(self._opened()))
        texts = [text for _, text in queries]
        vectors: Sequence[object] = [None] * len(texts)
        if self.embedding is not None and texts:
            vectors = self.embedding.vectors(texts, tools.workspace)
        statement, outage = Statement(self.query), Outage()
        works = [
            partial(
                self._result, database, outage, statement, {"query": text, "vector": vector, "k": k}
            )
            for text, vector in zip(texts, vectors, strict=True)
        ]
        yield from in_order(works, self.concurrency)

    def _opened(self) -> Postgres | DuckDBFile:
        if self.database is not None:
            return DuckDBFile(self.database, self.extensions, self.settings, self.timeout)
        return Postgres(str(self.dsn_env), self.host, self.settings, self.timeout)

    def _result(
        self,
        database: Postgres | DuckDBFile,
        outage: Outage,
        statement: Statement,
        values: Mapping[str, Any],
    ) -> QueryResult:
        try:
            answer, seconds = outage.watched(lambda: database.ask(statement, values))
            return QueryResult(hits_in(answer, values["k"]), seconds)
        except (ServerFailure, Unusable) as problem:
            return QueryResult(error=database.line(problem))
