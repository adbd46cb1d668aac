"""A DuckDB file that is asked: read-only, and without the rest of the file system."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rag_assets.errors import DataError
from rag_assets.plain_text import one_line, shortened
from rag_assets.retrieval.external.sql_rows import Rows, Setting
from rag_assets.retrieval.external.sql_statement import Statement
from rag_assets.servers.failures import ServerFailure, late


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
