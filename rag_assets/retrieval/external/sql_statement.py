"""SQL with the parameters ``:query``, ``:k`` and ``:vector``, and its rows as hits.

It is one statement, which only reads. It is cut into texts, comments and code as Postgres does it
(documentation of Postgres, section 4.1, Lexical Structure), so that a parameter is none within a
text, and no second statement hides behind what looks like one. What two readers could understand in
two ways is refused. The columns of its rows are named as the fields of a hit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from pydantic import AfterValidator, Field

from rag_assets.retrieval.external.answer_paths import FIELDS, Unusable, hit_of
from rag_assets.retrieval.external.base import Hit

PARAMETERS = ("query", "k", "vector")

# Every character above ASCII is one of a name.
_HIGH = "\x80-\U0010ffff"
_TOKEN = re.compile(
    rf"""
    (?P<escapes> (?<![\w${_HIGH}])[eE]' )
  | (?P<text> '(?:[^']|'')*' | "(?:[^"]|"")*"
      | (?<![\w${_HIGH}])\$(?P<tag>(?:[A-Za-z_{_HIGH}][A-Za-z0-9_{_HIGH}]*)?)\$.*?\$(?P=tag)\$ )
  | (?P<comment> --[^\r\n]* | /\*.*?\*/ )
  | (?<![:\w\])'"]):(?P<parameter>{"|".join(PARAMETERS)})\b
  | (?P<end> ; )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_READS = re.compile(r"\s*(\(\s*)*(select|with|values|table|from)\b", re.IGNORECASE)


class Statement:
    """A statement in parts.

    Attributes:
        parameters: the names of those that it has.
    """

    def __init__(self, sql: str) -> None:
        """Cut it.

        Raises:
            ValueError: it is not one statement that reads, or holds what is refused.
        """
        self._parts: list[tuple[str, str | None]] = []
        code, at = "", 0
        for token in _TOKEN.finditer(sql):
            code += sql[at : token.start()]
            self._parts.append((sql[at : token.start()], None))
            at = token.end()
            if token["escapes"]:
                raise ValueError("has an escape string, E'...'; write '...', with '' for a quote")
            if token["comment"]:
                if "/*" in token["comment"][2:]:
                    raise ValueError("has a comment within a comment")
                self._parts.append((" ", None))
                code += " "
            elif token["end"]:
                if _without_comments(sql[at:]).strip():
                    raise ValueError("must be one statement; there is more text after its ';'")
                break
            else:
                self._parts.append((token["text"] or "", token["parameter"]))
                code += "x"
        else:
            code += sql[at:]
            self._parts.append((sql[at:], None))
        if not _READS.match(code):
            raise ValueError("must be a query that only reads: SELECT, WITH or VALUES")
        self.parameters = frozenset(name for _, name in self._parts if name)

    def written(self, parameter: Callable[[str], str], text: Callable[[str], str] = str) -> str:
        """Return it for a database.

        Args:
            parameter: how a parameter of some name is written.
            text: how everything else is.
        """
        return "".join(parameter(name) if name else text(part) for part, name in self._parts)


def _without_comments(sql: str) -> str:
    return _TOKEN.sub(lambda token: " " if token["comment"] else token[0], sql)


def _checked_sql(sql: str) -> str:
    Statement(sql)
    return sql


Sql = Annotated[str, AfterValidator(_checked_sql)]
"""One statement that reads."""


Setting = Annotated[bool, Field(strict=True)] | Annotated[int, Field(strict=True)] | float | str
"""Value of a setting of a database."""

FORMS = "`id`; `text`; or `document_id`, `start` and `end`"


class Rows(NamedTuple):
    """What a query gives.

    Attributes:
        columns: their names.
        rows: one value a column.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def hits_in(answer: Rows, k: int) -> list[Hit]:
    """Return the first ``k`` rows as hits.

    Raises:
        Unusable: the columns are not those of a hit, or a value is none for its column.
    """
    _require_hits(answer.columns)
    names = {name: name for name in answer.columns}
    return [
        hit_of(dict(zip(answer.columns, map(_plain, row), strict=True)), names, rank)
        for rank, row in enumerate(answer.rows[:k], 1)
    ]


def _require_hits(columns: Sequence[str]) -> None:
    there = set(columns)
    unknown = [name for name in columns if name not in FIELDS]
    if unknown or len(there) < len(columns):
        twice = [name for name in columns if list(columns).count(name) > 1]
        problem = f"'{unknown[0]}', which no hit has" if unknown else f"'{twice[0]}' twice"
        raise Unusable(f"the query returns the column {problem}; allowed: {', '.join(FIELDS)}")
    is_span = {"document_id", "start", "end"} <= there and "text" not in there
    if ["id" in there, "text" in there, is_span].count(True) != 1:
        named = ", ".join(columns)
        raise Unusable(f"the query returns the columns {named}; a hit is one of three: {FORMS}")


def _plain(value: object) -> object:
    """Return a value of a database as JSON would have it."""
    if isinstance(value, Decimal):
        whole = value.is_finite() and value == value.to_integral_value()
        return int(value) if whole else float(value)
    return str(value) if isinstance(value, UUID) else value


def _checked_settings(settings: dict[str, Setting]) -> dict[str, Setting]:
    for name in settings:
        if not all(part.isidentifier() and part.isascii() for part in name.split(".")):
            raise ValueError(f"'{name}' is not the name of a setting")
    return settings


Settings = Annotated[dict[str, Setting], AfterValidator(_checked_settings)]
"""Settings of a database by their names, such as ``hnsw.ef_search``."""
