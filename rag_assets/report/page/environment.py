"""The templates of the report: a variable that is not there is an error, never an empty text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from rag_assets.report.page.glossary import meaning

PACKAGE = "rag_assets.report.page"


class _Templates(Environment):
    """In a mapping ``row.items`` is the key, as ``row.name`` is; its methods come second."""

    def getattr(self, obj: object, attribute: str) -> object:
        """Return a key of a mapping, or an attribute."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)


@cache
def templates() -> Environment:
    """Return the templates; each is compiled once a process, which takes longer than to fill it."""
    made = _Templates(
        loader=PackageLoader(PACKAGE, "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters["code"] = _code
    made.filters["meaning"] = meaning
    return made


def _code(text: str) -> Markup:
    """Return an escaped text in which what stands between two backticks is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one backtick is alone
        parts[-2:] = ["`".join(parts[-2:])]
    shown = [
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    ]
    return Markup("").join(shown)
