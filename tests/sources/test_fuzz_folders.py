from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import RagAssetsError
from rag_assets.sources import Dataset, open_dataset
from tests.sources.pdf_files import pdf_file

pytest.importorskip("selectolax")
pytest.importorskip("pypdfium2")


def parquet(table: pa.Table) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream, compression="none")
    return stream.getvalue()


LABELS = {"queries.csv": b"query_id,text\nq,t\n", "judgments.csv": b"query_id,doc_id\nq,d\n"}
FILES = {
    "jsonl": {**LABELS, "documents.jsonl": b'{"id": "d", "text": "t"}\n'},
    "csv": {**LABELS, "documents.csv": b"id,text\nd,t\n"},
    "parquet": {**LABELS, "documents.parquet": parquet(pa.table({"id": ["d"], "text": ["t"]}))},
    "markdown": {
        "queries.csv": b"query_id,text,tags\nq,t,\n",
        "judgments.csv": b"query_id,doc_id,quote,relevance,evidence_id\nq,a.html,One,2,e\n",
        "a.html": b"<title>T</title><p>One <b>two",
        "b.pdf": pdf_file(["One", "two"]),
    },
}
PIECES = [
    b"<", b">", b"<p>", b"</p>", b"<pre>", b"<meta charset=", b"utf-7", b"<svg>", b"<table><td>",
    b"&#0;", b"&#xD800;", b"<!--", b"<![CDATA[", b"<br>", b"<body>", b"<frameset>", b"<title>",
    b'"', b",", b"\n", b"\r", b";", b"{", b"}", b":", b"[", b"q", b"d", b"\x00", b"\xff",
    b"\xff\xfe",    b"\xef\xbb\xbf", b" obj", b"stream", b"endobj", b"1 0 R", b"<<",
    b">>", b"%PDF-1.7", b"9" * 400,
    b"PAR1", b"id,text", b"query_id,text,tags\nq,t,", b'{"id":', b"a.html", b"b.pdf",
    b"\xed\xa0\x80",
]  # fmt: skip
junk = st.one_of(
    st.binary(max_size=60), st.lists(st.sampled_from(PIECES), max_size=16).map(b"".join)
)


def read_everything(dataset: Dataset) -> int:
    documents, queries = dataset.read_documents(), dataset.read_queries()
    dataset.read_qrels(documents.table, queries.table)
    assert dataset.default_judge in ("document", "evidence")
    return int(documents.table.num_rows)


def lay_out(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)


CASES = [(form, name) for form, files in FILES.items() for name in files]


@pytest.mark.parametrize("form", FILES)
def test_untouched_files_are_valid(tmp_path: Path, form: str) -> None:
    lay_out(tmp_path, FILES[form])
    assert read_everything(open_dataset(tmp_path)) == (2 if form == "markdown" else 1)


@pytest.mark.parametrize(("form", "name"), CASES)
@settings(deadline=None, max_examples=80)
@given(content=junk, start=st.floats(0, 1), end=st.floats(0, 1))
def test_any_bytes_are_read_or_refused_with_one_line(
    tmp_path_factory: pytest.TempPathFactory,
    form: str,
    name: str,
    content: bytes,
    start: float,
    end: float,
) -> None:
    """A stretch of the file is replaced: nothing, a byte, or all of it."""
    folder = tmp_path_factory.mktemp("fuzz")
    whole = FILES[form][name]
    first, last = sorted((int(start * len(whole)), int(end * len(whole))))
    lay_out(folder, {**FILES[form], name: whole[:first] + content + whole[last:]})
    message = ""
    try:
        read_everything(open_dataset(folder, form))
    except RagAssetsError as error:
        message = str(error)
    finally:
        shutil.rmtree(folder)
    message.encode()
    assert len(message.splitlines()) <= 1


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
        columns = (table.column(name).to_pylist() for name in ("document_id", "text"))
        found = dict(zip(*columns, strict=True))
        assert found == documents
    shutil.rmtree(folder)
