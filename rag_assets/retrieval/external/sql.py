"""``type: sql``: a search that is a query, of Postgres (with pgvector) or of a DuckDB file.

A query is one statement, which only reads. It is cut into texts, comments and code as Postgres does
it (documentation of Postgres, section 4.1, Lexical Structure), so that a parameter is none within a
text, and no second statement hides behind what looks like one. What two readers could understand in
two ways is refused.
"""

from __future__ import annotations

import re
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self
from urllib.parse import unquote
from uuid import UUID

from pydantic import AfterValidator, Field, model_validator

from rag_assets.called.hits import ONE_OF_THREE, Hit, Rejected, hit_of, is_one_of_three
from rag_assets.errors import DataError, UsageError
from rag_assets.package_versions import version
from rag_assets.plain_text import one_line, shortened
from rag_assets.retrieval.external.base import QueryResult, ServedRetriever
from rag_assets.servers.failures import ServerFailure, late, unconnected
from rag_assets.servers.secrets import Secrets, is_loopback, key_of

# Every character above ASCII is one of a name.
_HIGH = "\x80-\U0010ffff"
_TOKEN = re.compile(
    rf"""
    (?P<escapes> (?<![\w${_HIGH}])[eE]' )
  | (?P<text> '(?:[^']|'')*' | "(?:[^"]|"")*"
      | (?<![\w${_HIGH}])\$(?P<tag>(?:[A-Za-z_{_HIGH}][A-Za-z0-9_{_HIGH}]*)?)\$.*?\$(?P=tag)\$ )
  | (?P<comment> --[^\r\n]* | /\*.*?\*/ )
  | (?<![:\w\])'"]):(?P<parameter>query|k|vector)\b
  | (?P<end> ; )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_READS = re.compile(r"\s*(\(\s*)*(select|with|values|table|from)\b", re.IGNORECASE)

GRACE_SECONDS = 1.0
"""The server ends a query when its time is over; so much later nobody waits for it to do so."""

_OUT_OF_TIME = "57014"
_UNSERVED = ("08", "53", "57")
"""Classes of SQLSTATE: connections, resources, an operator's intervention."""


class Statement:
    """A statement in parts; ``parameters`` are the names of those that it has."""

    def __init__(self, sql: str) -> None:
        self._parts: list[tuple[str, str | None]] = []
        code, at = "", 0
        for token in _TOKEN.finditer(sql):
            self._parts.append((sql[at : token.start()], None))
            code, at = code + sql[at : token.start()], token.end()
            if token["escapes"]:
                raise ValueError("has an escape string, E'...'; write '...', with '' for a quote")
            if token["end"]:
                rest = _TOKEN.sub(lambda token: " " if token["comment"] else token[0], sql[at:])
                if rest.strip():
                    raise ValueError("must be one statement; there is more text after its ';'")
                at = len(sql)
                break
            if token["comment"]:
                if "/*" in token["comment"][2:]:
                    raise ValueError("has a comment within a comment")
                self._parts.append((" ", None))
                code += " "
            else:
                self._parts.append((token["text"] or "", token["parameter"]))
                code += "x"
        self._parts.append((sql[at:], None))
        if not _READS.match(code + sql[at:]):
            raise ValueError("must be a query that only reads: SELECT, WITH or VALUES")
        self.parameters = frozenset(name for _, name in self._parts if name)

    def written(self, parameter: Callable[[str], str], text: Callable[[str], str] = str) -> str:
        """Return it for a database."""
        return "".join(parameter(name) if name else text(part) for part, name in self._parts)


class Rows(NamedTuple):
    """The answer to a query: names of columns, and rows with a value for each."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def _checked_sql(sql: str) -> str:
    Statement(sql)
    return sql


def _checked_name(name: str) -> str:
    if not all(part.isidentifier() and part.isascii() for part in name.split(".")):
        raise ValueError(f"'{shortened(name, 40)}' is not a name")
    return name


def _checked_variable(name: str) -> str:
    if not (name.isidentifier() and name.isascii()):
        raise ValueError("names an environment variable, which holds the DSN")
    return name


def _checked_host(host: str) -> str:
    if not host or any(character in host for character in "/@? ,"):
        raise ValueError("is the name or the address of a machine, without port and user")
    return host


Name = Annotated[str, AfterValidator(_checked_name)]
Setting = Annotated[bool, Field(strict=True)] | Annotated[int, Field(strict=True)] | float | str


class SqlRetriever(ServedRetriever):
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

    type: Literal["sql"]
    query: Annotated[str, AfterValidator(_checked_sql)]
    dsn_env: Annotated[str, AfterValidator(_checked_variable)] | None = None
    host: Annotated[str, AfterValidator(_checked_host)] | None = None
    database: Path | None = None
    extensions: tuple[Name, ...] = ()
    settings: dict[Name, Setting] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.dsn_env is None) == (self.database is None):
            raise ValueError("needs `dsn_env` for a Postgres, or `database` for a DuckDB file")
        if self.dsn_env is None and self.host is not None:
            raise ValueError("`host` belongs to `dsn_env`")
        if self.dsn_env is not None and self.extensions:
            raise ValueError("`extensions` are for DuckDB; Postgres has its own")
        parameters = Statement(self.query).parameters
        if not parameters & {"query", "vector"}:
            raise ValueError("`query` has neither the parameter :query nor its :vector")
        if ("vector" in parameters) != (self.embedding is not None):
            raise ValueError("`embedding` and a :vector in the query belong together")
        return self

    def versions(self) -> Mapping[str, str]:
        engine = {"duckdb": version("duckdb")} if self.database is not None else {}
        return {**engine, **super().versions()}

    def connect(self) -> DuckDBFile | Postgres:
        return Postgres(self) if self.database is None else DuckDBFile(self)

    def read(self, answer: Any, k: int) -> QueryResult:  # noqa: ANN401
        columns = answer.columns
        unknown = [name for name in columns if name not in Hit._fields]
        if unknown or len(set(columns)) < len(columns) or not is_one_of_three(columns):
            names = f"the query returns the columns {', '.join(columns)}"
            reason = f"allowed, each once: {', '.join(Hit._fields)}" if unknown else ONE_OF_THREE
            raise Rejected(f"{names}; {reason}")
        labels = {name: name for name in columns}
        rows = (
            {n: str(v) if isinstance(v, UUID) else v for n, v in zip(columns, row, strict=True)}
            for row in answer.rows[:k]
        )
        return QueryResult([hit_of(row, rank, labels) for rank, row in enumerate(rows, 1)])


class DuckDBFile:
    """A query of a DuckDB file, asked by several threads at once.

    The file is opened read-only, and without the rest of the file system.
    """

    def __init__(self, config: SqlRetriever) -> None:
        import duckdb

        self._error, self._interrupted = duckdb.Error, duckdb.InterruptException
        self._config, self._statement = config, Statement(config.query)
        self._idle: deque[Any] = deque()
        options: dict[str, Any] = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        try:
            self._connection = duckdb.connect(str(config.database), read_only=True, config=options)
            for extension in config.extensions:
                self._connection.execute(f"LOAD {extension}")
            self._connection.execute("SET enable_external_access = false")
            self._idle.append(self._cursor())
        except duckdb.Error as error:
            raise DataError(self.line(str(error)), file=config.database) from error

    def close(self) -> None:
        self._connection.close()

    def line(self, reason: str) -> str:
        return shortened(one_line(" ".join(reason.split("\n\n")[0].split())))

    def ask(self, values: Mapping[str, Any]) -> tuple[Rows, float]:
        given = {name: values[name] for name in self._statement.parameters}
        try:
            cursor = self._idle.pop()
        except IndexError:
            cursor = self._cursor()
        timeout = self._config.timeout
        timer = threading.Timer(timeout, cursor.interrupt)
        timer.start()
        started = time.perf_counter()
        try:
            cursor.execute(self._statement.written(lambda name: f"${name}"), given)
            rows, seconds = cursor.fetchall(), time.perf_counter() - started
            return Rows([column[0] for column in cursor.description], rows), seconds
        except self._interrupted:
            raise late(timeout) from None
        except self._error as error:
            raise ServerFailure(f"the database says: {self.line(str(error))}", "refused") from None
        finally:
            timer.cancel()
            self._idle.append(cursor)

    def _cursor(self) -> Any:  # noqa: ANN401 (a connection of DuckDB)
        cursor = self._connection.cursor()
        for name, value in self._config.settings.items():
            quoted = "'" + str(value).replace("'", "''") + "'"
            cursor.execute(f"SET {name} = {quoted}")
        return cursor


class Postgres:
    """A query of a Postgres, asked by several threads at once; each has a connection meanwhile.

    It is asked in read-only transactions, within a time. The driver is psycopg2, in its
    asynchronous mode: that one waits as long as it is told and no longer, also for a server that
    says nothing at all.
    """

    def __init__(self, config: SqlRetriever) -> None:
        try:
            import psycopg2
            from psycopg2.extensions import parse_dsn
        except ModuleNotFoundError as error:
            missing = "type sql needs the package psycopg2: pip install 'rag-assets[postgres]'"
            raise UsageError(missing) from error
        self._driver, self._config, self._dsn = psycopg2, config, key_of(str(config.dsn_env))
        self._statement, self._timeout = Statement(config.query), config.timeout
        self._variable = f"environment variable {config.dsn_env}"
        try:
            parts = parse_dsn(self._dsn) if self._dsn else {}
        except psycopg2.ProgrammingError:
            parts = {}  # out of here, nothing of the DSN is the error's context
        if not parts:
            problem = "holds no Postgres DSN" if self._dsn else "is not set"
            raise UsageError(f"{self._variable} of `dsn_env` {problem}")
        hidden = [value for name in ("user", "password") if (value := parts.get(name))]
        self._secrets = Secrets([self._dsn, *hidden, *map(unquote, hidden)])
        self._idle: deque[Any] = deque()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def line(self, reason: str) -> str:
        return self._secrets.line(reason)

    def ask(self, values: Mapping[str, Any]) -> tuple[Rows, float]:
        failure: ServerFailure | None = None
        try:
            return self._answer(values)
        except self._driver.Error as error:
            failure = self._failure(error)
        except ValueError as error:  # a NUL in a text, half of a character
            failure = ServerFailure(f"cannot be sent: {self.line(str(error))}", "refused")
        raise failure  # out here, nothing is its context

    def _answer(self, values: Mapping[str, Any]) -> tuple[Rows, float]:
        given = {name: _written(values[name]) for name in self._statement.parameters}
        sql = self._statement.written(lambda n: f"%({n})s", lambda text: text.replace("%", "%%"))
        is_new = not self._idle
        try:
            connection = self._idle.pop()
        except IndexError:
            connection, is_new = self._connected(), True
        try:
            # The search that a user waits for is one request; what is around it is ours.
            self._begin(connection)
            started = time.perf_counter()
            cursor = self._execute(connection, sql, given)
            columns, rows = [column.name for column in cursor.description], cursor.fetchall()
            seconds = time.perf_counter() - started
            if is_new:
                self._check_settings(connection)
            self._execute(connection, "ROLLBACK")
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return Rows(columns, rows), seconds

    def _connected(self) -> Any:  # noqa: ANN401 (a connection of psycopg2)
        connection = self._driver.connect(
            self._dsn, async_=1, client_encoding="utf8", fallback_application_name="rag_assets"
        )
        try:
            self._wait(connection, self._timeout)
            self._check_host(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _begin(self, connection: Any) -> None:  # noqa: ANN401
        """Begin a transaction that reads, with settings of its own: a pool may be in between."""
        sql, values = "BEGIN READ ONLY", list[str]()
        for name, value in self._config.settings.items():
            text = ("off", "on")[value] if isinstance(value, bool) else str(value)
            sql, values = f"{sql}; SELECT set_config(%s, %s, true)", [*values, name, text]
        milliseconds = max(1, round(1000 * self._timeout))
        self._execute(connection, f"{sql}; SET LOCAL statement_timeout = {milliseconds}", values)
        # With it off, a backslash in a query could end the text that it stands in.
        if connection.info.parameter_status("standard_conforming_strings") != "on":
            raise ServerFailure("`standard_conforming_strings` of the server is off", "refused")

    def _check_host(self, connection: Any) -> None:  # noqa: ANN401
        address = connection.info.dsn_parameters.get("hostaddr")
        for host in filter(None, (connection.info.host, address)):
            bracketed = f"[{host}]" if ":" in host else host
            is_here = host.startswith("/") or is_loopback(f"postgresql://{bracketed}")
            if not is_here and host != self._config.host:
                raise UsageError(
                    f"{self._variable} names another machine than this one; "
                    "texts are sent there only if `host` of the retriever names it too"
                )

    def _check_settings(self, connection: Any) -> None:  # noqa: ANN401
        """Check that no extension, which a first query loads, has thrown a setting away."""
        for name in self._config.settings:
            cursor = self._execute(connection, "SELECT current_setting(%s, true)", (name,))
            if cursor.fetchone()[0] is None:
                raise ServerFailure(f"`settings`: the server has no '{name}'", "refused")

    def _execute(self, connection: Any, sql: str, values: Any = None) -> Any:  # noqa: ANN401
        cursor = connection.cursor()
        cursor.execute(sql, values)
        self._wait(connection, self._timeout + GRACE_SECONDS)
        return cursor

    def _wait(self, connection: Any, seconds: float) -> None:  # noqa: ANN401
        extensions = self._driver.extensions
        events = {extensions.POLL_READ: select.POLLIN, extensions.POLL_WRITE: select.POLLOUT}
        deadline = time.monotonic() + seconds
        while (state := connection.poll()) != extensions.POLL_OK:
            waiter = select.poll()
            waiter.register(connection.fileno(), events[state])
            if not waiter.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
                raise late(self._timeout)

    def _failure(self, error: Any) -> ServerFailure:  # noqa: ANN401 (an error of psycopg2)
        code = error.pgcode or ""
        if code == _OUT_OF_TIME:
            return late(self._timeout)
        message = self._secrets.line(error.diag.message_primary or str(error))
        is_unserved = not code and isinstance(error, self._driver.OperationalError)
        if is_unserved or code.startswith(_UNSERVED):
            return unconnected(message)
        return ServerFailure(f"the database says: {message}", "refused")


def _written(value: object) -> object:
    """Return a vector as pgvector reads it, anything else as it is."""
    return f"[{','.join(map(repr, value))}]" if isinstance(value, list) else value
