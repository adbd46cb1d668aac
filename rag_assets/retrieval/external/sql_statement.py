"""SQL with the parameters ``:query``, ``:k`` and ``:vector``: one statement, which only reads.

It is cut into texts, comments and code as Postgres does it (documentation of Postgres, section 4.1,
Lexical Structure), so that a parameter is none within a text, and no second statement hides behind
what looks like one. What two readers could understand in two ways is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator

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


def _checked(sql: str) -> str:
    Statement(sql)
    return sql


Sql = Annotated[str, AfterValidator(_checked)]
"""One statement that reads."""
