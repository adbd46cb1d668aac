"""Folders of rows, and JSON that means one thing."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError, UsageError
from rag_assets.experiment.load import load_experiment
from rag_assets.sources import labelled_folder, open_dataset
from rag_assets.sources.dataset import Problems
from rag_assets.sources.document_files import read_markdown
from rag_assets.sources.fields import Place, metadata_json
from rag_assets.sources.formats import unread_files, with_columns
from rag_assets.sources.row_files import parse_json
from rag_assets.sources.tables import add_documents
from rag_assets.store.blocks import BlockedTable, KnownBlocks
from rag_assets.store.canonical import canonical_json
from tests.sources.files import Files, ReadAll, Write, json_lines, parquet

LABELS = {
    "queries.jsonl": '{"query_id": "q1", "text": "t"}\n',
    "judgments.jsonl": '{"query_id": "q1", "doc_id": "d1", "quote": "fee"}\n',
}
MAPPED = {"document_id": "key", "title": "name", "text": "body"}


def rows(dataset: Any) -> list[tuple[str, ...]]:
    return [tuple(row.values()) for row in dataset.read_documents().table.to_pylist()]


@pytest.mark.parametrize("name", ["documents.jsonl", "corpus.jsonl"])
def test_jsonl_folder(write: Write, read_all: ReadAll, name: str) -> None:
    lines = '\ufeff{"_id": "d1", "text": "One fee", "year": 2001}\r\n\n{"_id": 2, "text": ""}\n'
    dataset = open_dataset(write({**LABELS, name: lines, "notes/a.md": "x"}))
    assert (dataset.format, dataset.default_judge) == ("jsonl", "evidence")
    documents, _, qrels = read_all(dataset)
    assert rows(dataset) == [("d1", "", "One fee", '{"year":2001}'), ("2", "", "", "{}")]
    assert documents.notes == ["1 empty document: 2"]
    assert unread_files(dataset, []) == ["1 file beside the documents is not read: notes/a.md"]
    assert unread_files(dataset, [dataset.root / "notes/a.md"]) == []
    assert qrels.table.column("start").to_pylist() == [4]
    assert [file.name for file in dataset.document_files()] == [name]


@pytest.mark.parametrize("name", ["documents.jsonl", "corpus.jsonl"])
def test_lines_are_the_documents_of_the_file_in_blocks(
    write: Write, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a BEIR folder, whose ids may be under `_id` and `id`."""
    monkeypatch.setattr("rag_assets.store.blocks.TARGET", 200)
    ids = ({"_id": f"d{n}"} if n % 3 or name[0] == "d" else {"id": f"d{n}"} for n in range(200))
    rows = [
        {**row, "title": "T", "text": "One fee. " * (n % 7), "n": n} for n, row in enumerate(ids)
    ]
    lines = json_lines(rows).splitlines()
    qrels = {"qrels/test.tsv": "q1\td1\t1\n", "queries.jsonl": '{"_id": "q1", "text": "t"}\n'}
    labels = LABELS if name[0] == "d" else qrels
    dataset = open_dataset(write({**labels, name: "\ufeff" + "\r\n\n".join(lines)}))
    assert dataset.format == ("jsonl" if name[0] == "d" else "beir")
    source = dataset.document_lines()
    assert source is not None
    add_documents(built := BlockedTable(KnownBlocks()), *source)
    assert len(built.blocks) > 10
    assert built.table().equals(dataset.read_documents().table)
    (dataset.document_files()[0]).write_text("\n".join([*lines, "{"]), encoding="utf-8")
    with pytest.raises(DataError, match="malformed JSON"):
        add_documents(BlockedTable(KnownBlocks()), *source)


def test_csv_folder(write: Write) -> None:
    long = "x" * 300_000
    text = f'id,title,text,year\nd1,"A ""b""","One\nfee, ",2001\n\nd2,,{long},\n'
    dataset = open_dataset(write({**LABELS, "documents.csv": text}))
    assert dataset.format == "csv"
    assert rows(dataset) == [
        ("d1", 'A "b"', "One\nfee, ", '{"year":"2001"}'),
        ("d2", "", long, '{"year":""}'),
    ]


def test_parquet_folder(write: Write) -> None:
    columns = {
        "id": pa.array([1, 2]),
        "text": pa.array(["One fee", "x"], pa.large_string()),
        "tags": [["a"], None],
        "day": [datetime.date(2024, 1, 5), None],
        "at": pa.array([1_700_000_000_000_000_001, None], pa.timestamp("ns")),
        "price": [decimal.Decimal("1.50"), None],
        "score": [float("nan"), 0.5],
        "raw": [b"x", b"y"],
    }
    dataset = open_dataset(write({**LABELS, "documents.parquet": parquet(columns)}))
    assert dataset.format == "parquet"
    documents = dataset.read_documents()
    assert documents.notes == [
        "1 column of bytes is left out: 'raw'",
        "1 value is NaN or infinite and became null: column 'score'",
    ]
    assert documents.table.column("document_id").to_pylist() == ["1", "2"]
    assert json.loads(documents.table.column("metadata")[0].as_py()) == {
        "at": "2023-11-14 22:13:20.000000001",
        "day": "2024-01-05",
        "price": "1.50",
        "score": None,
        "tags": ["a"],
    }


def test_columns_of_an_experiment(write: Write) -> None:
    yaml = (
        "dataset: {format: csv, path: ., columns: "
        "{document_id: key, title: name, text: body, query_id: n, query: question}}\n"
    )
    files = {
        "experiment.yaml": yaml,
        "documents.csv": "key,name,body,text\nd1,T,One fee,other\n",
        "queries.csv": "n,question\nq1,why?\n",
        "judgments.csv": "query_id,doc_id\nq1,d1\n",
    }
    folder = write(files)
    dataset = load_experiment(folder).dataset
    assert rows(dataset) == [("d1", "T", "One fee", '{"text":"other"}')]
    assert dataset.read_queries().table.column("text").to_pylist() == ["why?"]
    (folder / "experiment.yaml").write_text(yaml.replace("title:", "titel:"))
    with pytest.raises(UsageError, match=r"experiment.yaml:1: `dataset.columns`: unknown field"):
        load_experiment(folder)


def test_columns_that_are_not_there(write: Write) -> None:
    dataset = open_dataset(write({**LABELS, "documents.csv": "id,title,text\nd1,T,x\n"}))
    with pytest.raises(DataError, match=r"no 'key' for document_id; found: .*correct `columns`"):
        with_columns(dataset, MAPPED).read_documents()
    with pytest.raises(UsageError, match="format markdown has fixed names; columns are for jsonl"):
        with_columns(open_dataset(write({"a.md": "x"}), "markdown"), MAPPED)


def test_collecting_leaves_out_and_names_every_bad_row(write: Write) -> None:
    lines = '{"id": 1, "text": "a"}\n{"id": 1, "text": "b"}\n{bad\n{"id": 2}\n{"id": 3, "text": ""}'
    dataset = open_dataset(write({**LABELS, "documents.jsonl": lines}))
    problems = Problems(collect=True)
    assert dataset.read_documents(problems).table.column("document_id").to_pylist() == ["1", "3"]
    assert {str(p).split(":")[1] for p in problems.collected or ()} == {"2", "3", "4"}


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=12
)
objects = st.dictionaries(texts, values, max_size=6)
PIECES = [
    *("{", "}", "[", "]", ":", ",", '"', '"a"', '"b"', '":"', '"\\u003a"', '"\\u003A"', "\\"),
    *('"\\ud800"', '"\\ud83d\\ude00"', '"\\n"', "1", "-0", "1.5", "1e999", "01", "NaN", "null"),
    *("9" * 30, "1e-400", "true", " ", "\t", "\x00", "\x0b", "\u2028", '"a":1,', '{"a":1,"a":2}'),
]
PLACE = Place(Path("a.jsonl"), 7)


def parsed(text: str) -> Any:
    return parse_json(text.encode(), PLACE)


@settings(max_examples=50)
@given(objects, st.booleans())
def test_a_value_that_is_written_is_read(value: dict[str, Any], ascii_only: bool) -> None:
    assert parsed(json.dumps(value, ensure_ascii=ascii_only)) == value


@settings(max_examples=400)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.booleans())
def test_what_is_accepted_has_the_value_that_another_parser_gives(text: str, inside: bool) -> None:
    text = f'{{"a": {text}}}' if inside else text
    try:
        value = parsed(text)
    except DataError:
        return
    assert json.dumps(value) == json.dumps(json.loads(text))


@settings(max_examples=50)
@given(objects)
def test_metadata_is_canonical(fields: dict[str, Any]) -> None:
    fields.pop("metadata", None)
    assert metadata_json(fields, frozenset()) == canonical_json(fields)


BROKEN = Path(__file__).parent / "broken"
CASES = [
    line.split("\t", 2)
    for line in (BROKEN / "cases.tsv").read_text(encoding="utf-8").splitlines()[1:]
]


@pytest.mark.parametrize(("case", "form", "expected"), CASES)
def test_the_error_of_a_broken_folder(
    read_all: ReadAll, case: str, form: str, expected: str
) -> None:
    if case.startswith("pdf_"):
        pytest.importorskip("pypdfium2")
    if case.startswith("html_"):
        pytest.importorskip("selectolax")
    folder = BROKEN / case
    with pytest.raises(DataError) as caught:
        read_all(open_dataset(folder, form))
    message = str(caught.value).replace(str(folder), ".", 1)
    assert "\n" not in message
    if expected.endswith("..."):
        assert message.startswith(expected.removesuffix("..."))
        assert len(message) > len(expected) - 3
    else:
        assert message == expected


def test_every_folder_is_in_the_table() -> None:
    names = [case for case, _, _ in CASES]
    assert len(names) == len(set(names)) >= 60
    assert sorted(path.name for path in BROKEN.iterdir() if path.is_dir()) == sorted(names)


TEXT = "A dog costs 40 kr.\n\nCats travel free.\n"
FILES: Files = {
    "README.md": "about",
    "fares.md": f"# Fares #\n\n{TEXT}",
    "guides/README.md": "Read me.",
    "guides/b.txt": b"\xef\xbb\xbfplain\r\ntext\r\n",
    "guides/a.markdown": (
        "---\ntitle: 'Alpha'\ndate: 2024-01-05\nn: 3\nno: [yes, true]\n---\n# H\nx"
    ),
    ".hidden/c.md": "hidden",
    "experiment.yaml": "name: x",
    "queries.jsonl": '{"query_id": 1, "text": "dogs?", "tags": ["pets"], "who": "clerk"}\n'
    '{"query_id": "q2", "text": "cats?"}\n',
    "judgments.jsonl": '{"query_id": "1", "doc_id": "fares.md", "quote": "40 kr", "relevance": 2}\n'
    '{"query_id": 1, "doc_id": "guides/b.txt", "evidence_id": "e"}\n'
    '{"query_id": 1, "doc_id": "fares.md", "quote": "Cats", "evidence_id": "e"}\n'
    '{"query_id": "q2", "doc_id": "fares.md"}\n',
}


IDS = ["fares.md", "guides/README.md", "guides/a.markdown", "guides/b.txt"]


def test_tables_of_a_folder(write: Write, read_all: ReadAll) -> None:
    dataset = open_dataset(write(FILES))
    assert (dataset.format, dataset.default_judge) == ("markdown", "evidence")
    assert dataset.default_chunking == "recursive"
    documents, queries, qrels = read_all(dataset)
    assert documents.table.to_pydict() == {
        "document_id": IDS,
        "title": ["Fares", "", "Alpha", ""],
        "text": [TEXT, "Read me.", "# H\nx", "plain\ntext\n"],
        "metadata": ["{}", "{}", '{"date":"2024-01-05","n":3,"no":["yes",true]}', "{}"],
    }
    assert documents.notes == []
    assert unread_files(dataset, []) == ["1 file at the top is not a document: README.md"]
    assert queries.table.to_pydict() == {
        "query_id": ["1", "q2"],
        "text": ["dogs?", "cats?"],
        "tags": [["pets"], []],
        "metadata": ['{"who":"clerk"}', "{}"],
    }
    assert qrels.table.to_pydict() == {
        "query_id": ["1", "1", "1", "q2"],
        "evidence_id": ["fares.md#12-17", "e", "e", "fares.md"],
        "document_id": ["fares.md", "guides/b.txt", "fares.md", "fares.md"],
        "start": [12, None, 20, None],
        "end": [17, None, 24, None],
        "grade": [2, 1, 1, 1],
    }
    assert TEXT[12:17] == "40 kr"


def test_without_quotes_documents_are_judged(write: Write) -> None:
    judgments = '{"query_id": 1, "doc_id": "fares.md", "quote": null}\n'
    assert open_dataset(write({**FILES, "judgments.jsonl": judgments})).default_judge == "document"


def test_files_for_hashing(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = open_dataset(write(FILES))
    # What looks like questions is sought only where there are none: a folder may be large.
    monkeypatch.setattr(labelled_folder, "look_alikes", lambda _: pytest.fail("it was listed"))
    assert [f.relative_to(dataset.root).as_posix() for f in dataset.document_files()] == IDS
    assert [f.name for f in dataset.query_files()] == ["queries.jsonl"]
    assert [f.name for f in dataset.qrels_files()] == ["judgments.jsonl"]


def test_a_store_among_the_documents_holds_no_document(write: Write) -> None:
    folder = write(FILES)
    before = open_dataset(folder).document_files()
    for name in ("_leases", "objects", "handbook"):
        (folder / "store" / name).mkdir(parents=True)
    (folder / "store" / "handbook" / "report.html").write_text("<p>Results</p>")
    assert open_dataset(folder).document_files() == before


def test_links_stay_inside(write: Write, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.md").write_text("secret")
    folder = write(FILES)
    (folder / "out.md").symlink_to(outside / "secret.md")
    (folder / "broken.md").symlink_to(folder / "nowhere.md")
    (folder / "inside.md").symlink_to(folder / "fares.md")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    dataset = open_dataset(folder)
    assert dataset.read_documents().table.column("document_id").to_pylist() == [*IDS, "inside.md"]
    assert unread_files(dataset, [])[1:] == [
        "3 links that lead to no file inside are not followed: broken.md, out.md, loop"
    ]


@pytest.mark.parametrize(
    ("content", "title", "text"),
    [
        ("\n\n# A\n\n\n  indented\n", "A", "  indented\n"),
        ("## A\ntext", "", "## A\ntext"),
        ("text\n# A\n", "", "text\n# A\n"),
        ("# C# notes #x\ny", "C# notes #x", "y"),
        ("---\n---\n# A\nb", "A", "b"),
        ("---\nno end\n", "", "---\nno end\n"),
        ("---\njust text\n---\nrest", "", "---\njust text\n---\nrest"),
        ("---\ntitle:\n---\n# A\nb", "A", "b"),
        ("a\r\nb\rc", "", "a\nb\nc"),
    ],
)
def test_title_and_text(tmp_path: Path, content: str, title: str, text: str) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(content.encode())
    document = read_markdown(file)
    assert (document.title, document.text) == (title, text)


@given(
    text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=40),
    cut=st.tuples(st.integers(0, 40), st.integers(1, 40)),
)
def test_a_quote_cut_from_the_text_is_found_where_it_was(
    tmp_path_factory: pytest.TempPathFactory, text: str, cut: tuple[int, int]
) -> None:
    folder = tmp_path_factory.mktemp("quotes")
    (folder / "a.md").write_text(f"# T\n.{text}", encoding="utf-8", newline="")
    (folder / "queries.jsonl").write_text('{"query_id": "q", "text": "t"}')
    dataset = open_dataset(folder)
    documents = dataset.read_documents().table
    body = documents.column("text")[0].as_py()
    start, end = min(cut[0], len(body) - 1), cut[0] + cut[1]
    quote = body[start:end]
    if not quote.strip() or body.find(quote) != body.rfind(quote) or body.count(quote) > 1:
        return
    judgment = {"query_id": "q", "doc_id": "a.md", "quote": quote}
    (folder / "judgments.jsonl").write_text(json.dumps(judgment))
    row = dataset.read_qrels(documents, dataset.read_queries().table).table.to_pylist()[0]
    assert (row["start"], body[row["start"] : row["end"]]) == (start, quote)
