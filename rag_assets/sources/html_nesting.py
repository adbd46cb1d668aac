"""Refuses a page whose nesting would cost a parser of HTML more than its size, before it is parsed.

As the standard has it (https://html.spec.whatwg.org/multipage/parsing.html), a parser looks at the
elements that are open for each tag, and opens formatting elements that nobody closed again in each
block. So a page of 1 MB may take a minute, and one of 50 kB gigabytes.
"""

from __future__ import annotations

import re
from collections import Counter

MAX_LOOKS = 100_000_000
"""Open elements that are looked at for all tags together: 0.3 s."""

MAX_REOPENED = 300_000
"""Formatting elements that are opened again for all blocks together: 100 MB."""

MIN_TAGS = 500
"""A page with fewer of them cannot cost much."""

MAX_ALIKE = 3
"""Of equal formatting elements a parser opens only so many again."""

_TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(script|style|textarea|title|xmp|iframe|noembed|noframes)\b.*?(?:</\1|\Z)"
    r"|<(/?)([a-z][^\s/>]*)"
    r"((?:[\s/]+|[^\s/>][^\s/>=]*+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s\"'>][^\s>]*)?)?)*+)(?:>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_FORMATTING = frozenset(
    {"b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u"}
)
_NEVER_OPEN = frozenset(
    {
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"),
        *("source", "track", "wbr"),
    }
)
_CLOSED_BY_OTHERS = _NEVER_OPEN | {
    *("a", "body", "dd", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "head", "html", "li", "nobr"),
    *("optgroup", "option", "p", "rb", "rp", "rt", "rtc", "tbody", "td", "tfoot", "th", "thead"),
    "tr",
}


def nests_too_much(page: str) -> bool:
    """Return whether a page would cost a parser too much, by its tags; comments hold none."""
    if page.count("<") < MIN_TAGS:
        return False
    depth = looks = reopened = n_formatting = 0
    opened: dict[str, list[str]] = {name: [] for name in _FORMATTING}
    alike: Counter[tuple[str, str]] = Counter()
    for _, closes, name, attributes in (found.groups() for found in _TOKEN.finditer(page)):
        tag = (name or "").lower()
        if tag in _FORMATTING and not closes:
            opened[tag].append(attributes)
            alike[tag, attributes] += 1
            n_formatting += alike[tag, attributes] <= MAX_ALIKE
        elif tag in _FORMATTING and opened[tag]:
            last = opened[tag].pop()
            alike[tag, last] -= 1
            n_formatting -= alike[tag, last] < MAX_ALIKE
        elif tag and not closes:
            reopened += n_formatting
        if tag and tag not in _CLOSED_BY_OTHERS:
            depth = max(0, depth - 1) if closes else depth + 1
        looks += depth
        if looks > MAX_LOOKS or reopened > MAX_REOPENED:
            return True
    return False
