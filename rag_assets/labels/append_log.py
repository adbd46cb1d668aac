"""Files of JSON lines that people's answers go to: declared rows, only ever appended to.

Several processes may append at once: a call is one write, and on the disk when it returns. Of
several lines on one thing the last one counts, so who takes something back appends another line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from rag_assets.sources.row_files import read_declared
from rag_assets.store.atomic import append_line
from rag_assets.store.canonical import canonical_json

Name = Annotated[
    str, Meta(pattern=r"\A[^\r\n\0]+\Z", description="a string on one line, not empty")
]
"""An id of a question or of a document."""


class LogLine(msgspec.Struct, frozen=True):
    """One line; a log's rows declare their fields, which are the keys of the JSON object."""

    def row(self) -> dict[str, Any]:
        """Return the JSON object."""
        row: dict[str, Any] = msgspec.to_builtins(self)
        return row

    def problem(self) -> tuple[str, str] | None:
        """Return a key, and what is wrong with it that its type does not say; None: nothing."""
        return None


Line = TypeVar("Line", bound=LogLine)


def append_lines(file: Path, lines: Sequence[LogLine]) -> None:
    """Append lines in one write, which is on the disk when this returns."""
    if lines:
        append_line(file, "\n".join(canonical_json(line.row()) for line in lines))


def read_log(file: Path, kind: type[Line]) -> list[Line]:
    """Return all lines of a log, in order; none where there is no file.

    Raises:
        DataError: a line breaks the format; it names the file, the line and the key.
    """
    lines = []
    for place, line in read_declared(file, kind) if file.is_file() else ():
        problem = line.problem()
        if problem is not None:
            raise place.error(problem[1], problem[0])
        lines.append(line)
    return lines
