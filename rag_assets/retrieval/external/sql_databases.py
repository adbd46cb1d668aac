"""The databases that are asked: a DuckDB file, and a Postgres.

The file is opened read-only, and without the rest of the file system. A Postgres is asked in
read-only transactions, within a time, by connections that last. Its driver is psycopg2, in its
asynchronous mode: that one waits as long as it is told and no longer, also for a server that says
nothing at all.
"""

from __future__ import annotations

import select
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rag_assets.errors import DataError, UsageError
from rag_assets.llm.endpoint import key_of
from rag_assets.plain_text import one_line, shortened
from rag_assets.retrieval.external.sql_statement import Rows, Setting, Statement
from rag_assets.servers.failures import ServerFailure, late, unconnected
from rag_assets.servers.secrets import Secrets, is_loopback


class DuckDBFile:
    """A file with tables, asked by several threads at once."""

    def __init__(
        self,
        file: Path,
        extensions: Sequence[str],
        settings: Mapping[str, Setting],
        timeout: float,
    ) -> None:
        """Open it.

        Args:
            file: which DuckDB wrote.
            extensions: loaded from those that are installed on this machine.
            settings: of DuckDB.
            timeout: seconds for a query.

        Raises:
            DataError: it is no such file, another process writes to it; an extension is not
                installed; there is no such setting.
        """
        import duckdb

        self._error, self._timeout, self._settings = duckdb.Error, timeout, settings
        self._idle: deque[Any] = deque()
        config: dict[str, Any] = dict.fromkeys(
            ("autoinstall_known_extensions", "autoload_known_extensions"), False
        )
        try:
            self._connection = duckdb.connect(str(file), read_only=True, config=config)
            for extension in extensions:
                self._connection.execute(f"LOAD {extension}")
            self._connection.execute("SET enable_external_access = false")
            self._idle.append(self._cursor())
        except duckdb.Error as error:
            raise DataError(self.line(error), file=file) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def line(self, problem: Exception) -> str:
        """Return why there is no result, on one line."""
        return shortened(one_line(" ".join(str(problem).split("\n\n")[0].split())))

    def ask(self, statement: Statement, values: Mapping[str, Any]) -> tuple[Rows, float]:
        """Return the rows of a query, and the seconds that it took.

        Args:
            statement: the query.
            values: of the parameters, at least those that it has.

        Raises:
            ServerFailure: it fails, or takes too long.
        """
        given = {name: values[name] for name in statement.parameters}
        try:
            cursor = self._idle.pop()
        except IndexError:
            cursor = self._cursor()
        timer = threading.Timer(self._timeout, cursor.interrupt)
        timer.start()
        started = time.perf_counter()
        try:
            cursor.execute(statement.written(lambda name: f"${name}"), given)
            rows, seconds = cursor.fetchall(), time.perf_counter() - started
            return Rows([column[0] for column in cursor.description], rows), seconds
        except self._error as error:
            if time.perf_counter() - started >= self._timeout:
                raise late(self._timeout) from None
            raise ServerFailure(f"the database says: {self.line(error)}", "refused") from None
        finally:
            timer.cancel()
            self._idle.append(cursor)

    def _cursor(self) -> Any:  # noqa: ANN401 (a connection of DuckDB)
        cursor = self._connection.cursor()
        for name, value in self._settings.items():
            quoted = "'" + str(value).replace("'", "''") + "'"
            cursor.execute(f"SET {name} = {quoted}")
        return cursor


GRACE_SECONDS = 1.0
"""The server ends a query when its time is over; so much later nobody waits for it to do so."""

_OUT_OF_TIME = "57014"
_UNSERVED = ("08", "53", "57")
"""Classes of SQLSTATE: connections, resources, an operator's intervention."""


class Postgres:
    """A server, asked by several threads at once; each has a connection for itself meanwhile."""

    def __init__(
        self, dsn_env: str, host: str | None, settings: Mapping[str, Setting], timeout: float
    ) -> None:
        """Read the variable; nothing is connected yet.

        Args:
            dsn_env: environment variable with the DSN, ``postgresql://...`` or ``host=...``.
            host: another machine than this one that it may name.
            settings: of each connection.
            timeout: seconds to connect, and for each query.

        Raises:
            UsageError: the variable is not set, or holds no DSN; or the driver is not installed.
        """
        try:
            import psycopg2
            from psycopg2.extensions import parse_dsn
        except ModuleNotFoundError as error:
            missing = "type sql needs the package psycopg2: pip install 'rag-assets[postgres]'"
            raise UsageError(missing) from error
        self._driver, self._dsn, self._dsn_env = psycopg2, key_of(dsn_env), dsn_env
        if not self._dsn:
            raise UsageError(f"environment variable {dsn_env} of `dsn_env` is not set")
        try:
            parts = parse_dsn(self._dsn)
        except psycopg2.ProgrammingError:
            parts = None  # out of here, nothing of the DSN is the error's context
        if parts is None:
            raise UsageError(f"environment variable {dsn_env} of `dsn_env` holds no Postgres DSN")
        hidden = [value for name in ("user", "password") if (value := parts.get(name))]
        self._secrets = Secrets([self._dsn, *hidden, *map(unquote, hidden)])
        self._host, self._settings, self._timeout = host, settings, timeout
        self._idle: deque[Any] = deque()

    def close(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop().close()

    def line(self, problem: Exception) -> str:
        """Return why there is no result: one short line without a credential."""
        return self._secrets.line(str(problem))

    def ask(self, statement: Statement, values: Mapping[str, Any]) -> tuple[Rows, float]:
        """Return the rows of a query, and the seconds that it took on an open connection.

        Args:
            statement: the query.
            values: of the parameters; a vector is written as pgvector reads it.

        Raises:
            ServerFailure: it fails, or takes too long.
            UsageError: the DSN names a machine that the experiment does not.
        """
        failure: ServerFailure | None = None
        try:
            return self._asked(statement, values)
        except self._driver.Error as error:
            failure = self._failure(error)
        except ValueError as error:  # a NUL in a text, half of a character
            failure = ServerFailure(f"cannot be sent: {self.line(error)}", "refused")
        raise failure  # out here, nothing is its context

    def _asked(self, statement: Statement, values: Mapping[str, Any]) -> tuple[Rows, float]:
        given = {name: _written(values[name]) for name in statement.parameters}
        sql = statement.written(lambda name: f"%({name})s", lambda text: text.replace("%", "%%"))
        idle = self._idle_connection()
        connection = self._connected() if idle is None else idle
        try:
            # The search that a user waits for is one request; what is around it is ours.
            self._begin(connection)
            started = time.perf_counter()
            cursor = self._execute(connection, sql, given)
            columns, rows = [column.name for column in cursor.description], cursor.fetchall()
            seconds = time.perf_counter() - started
            if idle is None:
                self._check_settings(connection)
            self._execute(connection, "ROLLBACK")
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return Rows(columns, rows), seconds

    def _idle_connection(self) -> Any:  # noqa: ANN401
        try:
            return self._idle.pop()
        except IndexError:
            return None

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
        for name, value in self._settings.items():
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
            is_here = host.startswith("/") or is_loopback(f"postgresql://{_bracketed(host)}")
            if not is_here and host != self._host:
                raise UsageError(
                    f"environment variable {self._dsn_env} names another machine than this one; "
                    "texts are sent there only if `host` of the retriever names it too"
                )

    def _check_settings(self, connection: Any) -> None:  # noqa: ANN401
        """Check that no extension, which a first query loads, has thrown a setting away."""
        for name in self._settings:
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
        told = self._secrets.line(error.diag.message_primary or str(error))
        is_unserved = not code and isinstance(error, self._driver.OperationalError)
        if is_unserved or code.startswith(_UNSERVED):
            return unconnected(told)
        return ServerFailure(f"the database says: {told}", "refused")


def _written(value: object) -> object:
    return f"[{','.join(map(repr, value))}]" if isinstance(value, list) else value


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
