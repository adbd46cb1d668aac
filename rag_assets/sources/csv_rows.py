"""CSV with a header (RFC 4180) as a stream of rows, with the line on which each starts."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rag_assets.sources.fields import Place, shown
from rag_assets.sources.lines import decoded, read_raw_lines
from rag_assets.sources.problems import tolerated

CELL_LIMIT = 64_000_000
"""Most characters of a cell; a quote that is never closed ends here, not in all of the memory."""


def read_csv(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line number from 1, cell of each column) for every row below the header.

    Cells are separated by commas and kept to the character; blank lines are no rows.

    Raises:
        DataError: the file cannot be read, is not UTF-8, has no usable header, or a row has
            another number of cells or a quote that is not closed.
    """
    csv.field_size_limit(CELL_LIMIT)
    header: list[str] | None = None
    for line, cells in _records(path):
        if header is None:
            header = _checked(cells, Place(path, line))
        elif len(cells) == len(header):
            yield line, dict(zip(header, cells, strict=True))
        else:
            problem = f"found {len(cells)} cells; the header has {len(header)}"
            with tolerated():
                raise Place(path, line).error(problem)
    if header is None:
        raise Place(path).error("is empty; a header with the names of the columns is needed")


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(_text_lines(path), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise Place(path, line).error(f"malformed CSV ({error})") from error
        if cells:
            yield line, cells


def _text_lines(path: Path) -> Iterator[str]:
    for number, raw in read_raw_lines(path, blank=True):
        yield decoded(raw, path, number)


def _checked(header: list[str], place: Place) -> list[str]:
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        raise place.error(f"header {shown(header[0])}: cells must be separated by commas")
    for name, count in Counter(header).items():
        if count > 1:
            raise place.error(f"column {shown(name)} occurs twice in the header")
    return header
