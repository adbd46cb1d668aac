from __future__ import annotations

from rag_assets.chunking import markdown
from rag_assets.chunking.chunker import Size
from rag_assets.chunking.markdown import headings, sections
from rag_assets.chunking.pieces import cut_documents, indexed_texts
from rag_assets.testing.chunkers import documents

GUIDE = """Before any heading.

# Guide

Welcome.

## Install

### Linux

```sh
# not a heading
pip install it
```

### *Mac* `OS` [link](x.md)

Drag it.

Use
---

Run it.
"""


def cut(text: str, capacity: int = 1_000, max_level: int = 6) -> list[tuple[str, tuple[str, ...]]]:
    [pieces] = markdown.cutter(Size(capacity), max_level=max_level)([text])
    return [(text[p.start : p.end], p.headings) for p in pieces]


def test_a_section_knows_the_headings_above_it() -> None:
    chunks = cut(GUIDE)
    assert [path for _, path in chunks] == [
        (),
        ("Guide",),
        ("Guide", "Install", "Linux"),
        ("Guide", "Install", "Mac OS link"),
        ("Guide", "Use"),
    ]
    assert chunks[2][0].startswith("## Install\n\n### Linux\n\n```sh\n# not a heading")


def test_deeper_headings_begin_no_section() -> None:
    assert [path for _, path in cut(GUIDE, max_level=1)] == [(), ("Guide",)]


def test_what_is_no_heading() -> None:
    text = (
        "~~~\n# fence\n~~~\n\n    # indented\n\n> # quote\n\n- # item\n\n"
        "<div>\n# html\n</div>\n\n#tag"
    )
    assert list(headings(text)) == []
    assert sections(text, 6)[0][:2] == (0, len(text))


def test_line_ends_of_all_kinds() -> None:
    text = "# A\r\n\r\nx\r\n# B\ry\n# C\n"
    assert [text[h.start : h.end] for h in headings(text)] == ["# A\r\n", "# B\r", "# C\n"]


def test_a_heading_without_words_is_not_in_the_path() -> None:
    assert [path for _, path in cut("# A\n\nx\n\n##\n\ny\n\n### C\n\nz")] == [
        ("A",),
        ("A",),
        ("A", "C"),
    ]


def test_a_heading_without_text_stays_when_no_subsection_follows() -> None:
    assert cut("# A\n\n# B\n\n## C\n") == [("# A", ("A",)), ("# B\n\n## C", ("B", "C"))]


def test_a_long_section_is_cut_further_and_a_table_that_fits_stays_whole() -> None:
    table = "| a | b |\n|---|---|\n| one | two |\n| three | four |"
    text = f"# T\n\n{'Words before the table. ' * 3}\n\n{table}\n\n{'Words after. ' * 6}"
    chunks = cut(text, capacity=90)
    assert any(table in chunk for chunk, _ in chunks)
    assert len(chunks) > 2
    assert all(len(chunk) <= 90 and path == ("T",) for chunk, path in chunks)


def test_fenced_code_that_fits_stays_whole() -> None:
    code = "```py\nx = 1\n\n# a comment\ny = 2\n```"
    text = f"# T\n\n{'Words before it. ' * 4}\n\n{code}\n\n{'Words after. ' * 5}"
    chunks = cut(text, capacity=80)
    assert len(chunks) > 2
    assert any(code in chunk for chunk, _ in chunks)


def test_what_is_indexed() -> None:
    table = documents("# Guide\n\nHello.\n\n## Use\n\nRun it.\n", title="Guide")
    chunks = cut_documents(table, markdown.cutter(Size(100), max_level=6))
    assert chunks.column("heading_path").to_pylist() == ["Guide", "Guide > Use"]
    assert indexed_texts(chunks, headings=True) == [
        "Guide\n# Guide\n\nHello.",
        "Guide\nUse\n## Use\n\nRun it.",
    ]
    assert indexed_texts(chunks) == ["Guide\n# Guide\n\nHello.", "Guide\n## Use\n\nRun it."]
