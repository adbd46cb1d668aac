"""Markdown without its marks, and the place of every character."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.report.page.readable_text import CELL, ITEM, Part, ReadableText, readable_title

MARKDOWN = """\
Intro.

## How to **book**

See [the *fares* page](fares.md "x") and ![a map](map.png) or <https://x.y/z>.
It is `snake_case`, **bold *it* x**, ***both***, _under_ and \\*not\\*.

| Vessel | Seats |
|--------|------:|
| Marta  |   120 |
| Ola    | 90    |

- one
  * two

> quoted **very
> long** thing

```python
# comment
x = **y
```

---

# End {#end}
[![alt](a.png)](b(1).html) ~~gone~~
"""

SHOWN = """\
Intro.

How to book

See the fares page and a map or https://x.y/z.
It is snake_case, bold it x, both, under and *not*.

Vessel · Seats
Marta · 120
Ola · 90

\u2022 one
  \u2022 two

quoted very
long thing

# comment
x = **y

End
alt gone"""


def places(part: Part, start: int) -> list[int]:
    """Return the place of each character in the source, as the page's script finds it."""
    gaps = dict(part.gaps)
    found = []
    for at in range(len(part.text) + 1):
        start += gaps.get(at, 0)
        found.append(start + at)
    return found


def test_marks_are_left_out() -> None:
    assert ReadableText.of(MARKDOWN).part(0, len(MARKDOWN)).text == SHOWN


@pytest.mark.parametrize(
    "text",
    [
        "2 * 3 * 4 and 5* rated, a snake_case_name, \\* [1] (2)",
        "a | b\n- c\n> d",
        "x < y > z & <b>bold</b>",
    ],
)
def test_what_may_be_no_mark_stays(text: str) -> None:
    assert ReadableText.of(text).part(0, len(text)) == Part(text, [])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# A\nprice* and 2*3*4 and f(*args, **kw)", "A\nprice* and 2*3*4 and f(*args, **kw)"),
        ("# A\n这是**粗体**文字", "A\n这是粗体文字"),
        ("# A\n`` a`b `` and `*c*`", "A\n a`b  and *c*"),
        ("# A\n|a|b\\|c||\n|:-|-:|-|\n", "A\na·b|c·"),
        ("# A\nTitle\n=====\n\n* * *\n\nrest", "A\nTitle\n\nrest"),
        ("# A\n~~~\n``` # B\n~~~\n**c**", "A\n``` # B\nc"),
        (
            '# A\n<div class="x">a<br/>b <!-- c --></div> `<b>` List<T> <T>',
            "A\nab  <b> List<T> <T>",
        ),
    ],
)
def test_odd_marks(text: str, shown: str) -> None:
    assert ReadableText.of(text).part(0, len(text)).text == shown


TEXTS = st.lists(
    st.sampled_from([*"ab \n*_`#|-[]()>~\\:{}!.", "**", "```", "](", "| - |", "\n# ", "\n\n", "é"]),
    max_size=60,
).map(lambda parts: "# a\n" + "".join(parts))


@given(TEXTS, st.data())
def test_every_character_keeps_its_place(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    readable = ReadableText.of(text)
    part = readable.part(start, end)
    found = places(part, start)
    assert found == sorted(set(found))
    assert found[-1] == end
    for character, place in zip(part.text, found, strict=False):
        assert character in (text[place], ITEM, CELL)
    marks = readable.marks
    assert all(a < b for a, b in marks)
    assert all(one[1] <= two[0] for one, two in pairwise(marks))


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("Settings { #settings }", "Settings"),
        ("The `Depends` of **all**", "The Depends of all"),
        ("", ""),
        ("C# and 2 * 3", "C# and 2 * 3"),
    ],
)
def test_a_title_is_read_too(title: str, shown: str) -> None:
    assert readable_title(title) == shown


def test_evidence_is_found_in_what_is_shown() -> None:
    start = MARKDOWN.index("the *fares*")
    part = ReadableText.of(MARKDOWN).part(MARKDOWN.index("## How"), len(MARKDOWN))
    found = places(part, MARKDOWN.index("## How"))
    shown = [c for c, at in zip(part.text, found, strict=False) if start <= at < start + 16]
    assert "".join(shown) == "the fares page"
