"""Files of random bytes and of random structure: one clear error, never another."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError, RagAssetsError
from rag_assets.schemas import column_values
from rag_assets.sources import open_dataset
from rag_assets.sources.dataset import Problems
from rag_assets.sources.document_files import read_file
from rag_assets.sources.row_files import read_csv, read_objects
from tests.sources.files import EVERY_FORMAT

pytest.importorskip("selectolax", reason="HTML is read by an extra")
pytest.importorskip("pypdfium2")


PIECES = [
    b"{", b"}", b"[", b"]", b'"', b":", b",", b";", b"\n", b"\r", b"---\n", b"# ", b"\t", b" ",
    b"- ", b'"_id"', b'"text"', b'"query_id"', b'"doc_id"', b'"quote"', b'"metadata"', b'"q"',
    b'"d.md"', b"1", b"-", b"-1", b"1e999", b"NaN", b"null", b"true", b'"\\ud800"', b"\xff",
    b"\x00", b"q", b"d", b"0.5", b"&a ", b"*a", b"!!binary ", b"title", b'"relevant_docs"', b"? ",
    b"\xef\xbb\xbf", b"%YAML 1.1", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\x85", b"9" * 5000,
    b"[" * 3000, b'{"a":' * 200, b'"\\ud800',
    b"<", b">", b"<p>", b"</p>", b"<pre>", b"<meta charset=", b"utf-7", b"<svg>", b"<table><td>",
    b"&#0;", b"&#xD800;", b"&amp", b"<!--", b"-->", b"<![CDATA[", b"<br>", b"<frameset>",
    b"<title>", b"\xff\xfe", b" obj", b"stream", b"endobj", b"1 0 R", b"<<", b">>", b"%PDF-1.7",
    b"PAR1", b"id,text", b"query_id,text,tags\nq,t,", b'{"id":', b"a.html", b"b.pdf",
    b'{"data":', b'[{"title":"T"', b',"paragraphs":', b'[{"context":',
    b',"qas":', b'[{"id":"q"', b'"answers":', b'"answer_start":', b"\x1f\x8b\x08",
]  # fmt: skip
some_pieces = st.lists(st.sampled_from(PIECES), max_size=16).map(b"".join)
some_bytes = st.one_of(
    st.binary(max_size=60), some_pieces, some_pieces.map(lambda p: b"---\n" + p + b"\n---")
)
CASES = [(name, file) for name, layout in EVERY_FORMAT.items() for file in layout.files]


def read_everything(path: Path, form: str, problems: Problems) -> None:
    dataset = open_dataset(path, form)
    documents, queries = dataset.read_documents(problems), dataset.read_queries(problems)
    qrels = dataset.read_qrels(documents.table, queries.table, problems)
    assert dataset.default_judge in ("document", "evidence")
    assert qrels.table.num_rows > 0 or problems.collected


@pytest.mark.parametrize(("name", "file"), CASES)
@settings(deadline=None, max_examples=100)
@given(content=some_bytes, start=st.floats(0, 1), end=st.floats(0, 1), collect=st.booleans())
def test_any_bytes_are_read_or_refused_with_one_line(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    file: str,
    content: bytes,
    start: float,
    end: float,
    collect: bool,
) -> None:
    """A stretch of the file is replaced: nothing, a byte, or all of it."""
    layout, folder = EVERY_FORMAT[name], tmp_path_factory.mktemp("fuzz")
    whole = layout.files[file]
    first, last = sorted((int(start * len(whole)), int(end * len(whole))))
    path = layout.lay_out(folder, **{file: whole[:first] + content + whole[last:]})
    messages: list[str] = []
    problems = Problems(collect=collect)
    try:
        with problems:
            read_everything(path, layout.format, problems)
        messages = [str(problem) for problem in problems.collected or ()]
    except RagAssetsError as error:
        messages.append(str(error))
    finally:
        shutil.rmtree(folder)
    for message in messages:
        message.encode()
        assert len(message.splitlines()) == 1


@settings(max_examples=50)
@given(text=st.text(max_size=30))
def test_any_name_as_format_or_subset(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = EVERY_FORMAT["beir"].lay_out(tmp_path_factory.mktemp("names"))
    for arguments in ({"format": text}, {"subset": text}):
        try:
            open_dataset(folder, **arguments)
        except RagAssetsError:
            continue
        assert text in ("beir", "markdown", "test", "train")
    shutil.rmtree(folder)


ids = st.text("ab1 ,\"'\u00e9\u2028", min_size=1, max_size=4)
cells = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(ids, cells, min_size=1, max_size=6))
def test_no_row_is_lost(
    tmp_path_factory: pytest.TempPathFactory, documents: dict[str, str]
) -> None:
    """The same documents come back from CSV, Parquet and JSON lines, to the character."""
    folder = tmp_path_factory.mktemp("rows")
    with (folder / "documents.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([("id", "text"), *documents.items()])
    table = pa.table({"id": list(documents), "text": list(documents.values())})
    pq.write_table(table, folder / "documents.parquet")
    lines = [json.dumps({"id": key, "text": text}) for key, text in documents.items()]
    (folder / "documents.jsonl").write_text("\n".join(lines), encoding="utf-8")
    for form in ("csv", "parquet", "jsonl"):
        table = open_dataset(folder, form).read_documents().table
        assert dict(column_values(table, "document_id", "text")) == documents
    shutil.rmtree(folder)


N = 8_000
MOST_SECONDS = 2.5
"""Of a processor; what was quadratic took from 4 to 90 seconds, what is linear takes 0.5."""

HTML = {
    "nested blocks": "<div>" * N + "x" + "</div>" * N,
    "nested blocks that stay open": "<div>" * N + "x",
    "bold that stays open": "<p><b>" * N + "x",
    "links in links": "<a>x" * N,
    "fonts before paragraphs": "<font color=x>" * N + "<p>" * N + "x",
    "lists in lists": "<ul><li>" * N + "x",
    "tables in tables": "<table>" * N,
    "headings in headings": "<h1>" * N + "x",
    "the same attribute": f"<p {'a=1 ' * N}>x",
    "ends without a start": "</p>" * N + "x",
    "comments that stay open": "x" + "<!--" * N,
    "plain paragraphs": "<p>x</p>" * N,
}


@pytest.fixture
def soon() -> Iterator[None]:
    """Fail when a test takes longer than what is linear."""
    started = time.process_time()
    yield
    assert time.process_time() - started < MOST_SECONDS


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("page", HTML.values(), ids=HTML)
def test_html(tmp_path: Path, page: str) -> None:
    (tmp_path / "x.html").write_text(page, encoding="utf-8")
    text = read_file(tmp_path / "x.html").text
    assert text.strip("# ").startswith("x") or "x" not in page.replace("color=x", "")


OPEN = "x.html: has too many elements that stay open"
QUOTES = "<div title='</div>' id=\"'\"><!-- </div> --><script>'</div>'</script>"
COLUMNS = ",".join(f"c{n}" for n in range(4 * N))
KEYS = json.dumps({f"k{n}": n for n in range(4 * N)})[:-1]
REFUSED: dict[str, tuple[str, bytes, str]] = {
    "blocks": ("x.html", b"<div>" * 200_000, OPEN),
    "blocks, some of which are closed": ("x.html", b"<div><div></div>" * 60_000, OPEN),
    "behind quotes": ("x.html", QUOTES.encode() * 30_000, OPEN),
    "bold again in each paragraph": (
        *("x.html", "".join(f"<p><b id={n}>" for n in range(4_000)).encode()),
        OPEN,
    ),
    "a gzip bomb": ("x.jsonl.gz", gzip.compress(b"\n" * 20_000_000) * 30, "unpacks to more than"),
    "many columns": ("x.csv", f"{COLUMNS},c0\n".encode(), "column 'c0' occurs twice"),
}


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(("name", "content", "problem"), REFUSED.values(), ids=REFUSED)
def test_what_costs_more_than_its_size_is_not_parsed(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    readers = {".html": read_file, ".csv": read_csv, ".jsonl": read_objects, ".gz": read_objects}
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(DataError, match=problem):
        list(readers[file.suffix](file))  # type: ignore[operator]


@pytest.mark.usefixtures("soon")
def test_a_heading_of_blanks_and_a_row_of_many_keys(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(f"# x{' ' * 4 * N}y\n", encoding="utf-8")
    assert read_file(tmp_path / "a.md").title.startswith("x")
    (tmp_path / "a.jsonl").write_text(f'{KEYS}, "z": 1, "z": 1}}\n', encoding="utf-8")
    assert len(list(read_objects(tmp_path / "a.jsonl"))) == 1
