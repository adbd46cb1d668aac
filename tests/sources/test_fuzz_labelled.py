from __future__ import annotations

import io
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import RagAssetsError
from rag_assets.sources import open_dataset
from rag_assets.sources.problems import FIRST, Problems


def parquet(**columns: object) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, compression="none", use_dictionary=False)
    return stream.getvalue()


TREC = {
    "topics.t": b"q\tt\n",
    "qrels": b"q 0 d 1\n",
    "corpus.t": b"<DOC><DOCNO>d</DOCNO><TEXT>t</TEXT></DOC>\n",
}
TREC_GZIP = {"topics.t.gz": b"", "qrels": b"q 0 d 1\n", "corpus.jsonl": b'{"id":"d","text":"t"}\n'}
SQUAD = {
    "a.json": b'{"data":[{"title":"T","paragraphs":[{"context":"c","qas":[{"id":"q",'
    b'"question":"?","answers":[{"text":"c","answer_start":0}]}]}]}]}'
}
AUTORAG = {
    "corpus.parquet": parquet(doc_id=["d"], contents=["t"], metadata=[{"a": 1}]),
    "qa.parquet": parquet(qid=["q"], query=["t"], retrieval_gt=[[["d"]]]),
}
PIECES = [
    b"<top>", b"</top>", b"<num>", b"<title>", b"<desc>", b"<DOC>", b"</DOC>",
    b"<DOCNO>", b"</DOCNO>", b"<TEXT>", b"</TEXT>", b"<!--", b"-->", b"&#xD800;", b"&#0;",
    b"&amp", b"<", b">", b"\n", b"\r",
    b"\t", b" ", b"q", b"d", b"0", b"1", b"-", b"1e9", b"9" * 5000, b"\xff", b"\x00", b"\x85",
    b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"#", b'{"data":', b'[{"title":"T"', b',"paragraphs":',
    b'"c"',
    b'[{"context":', b',"qas":', b'[{"id":"q"', b'"answers":', b"}", b"]", b",", b"null", b"true",
    b'"answer_start":', b'"text":', b"-1", b"1e999", b'"\\ud800"', b"\x1f\x8b\x08", b"PAR1",
]  # fmt: skip
some_bytes = st.one_of(
    st.binary(max_size=60), st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join)
)
CASES = [
    (form, files, name)
    for form, files in (("trec", TREC), ("trec", TREC_GZIP), ("squad", SQUAD), ("autorag", AUTORAG))
    for name in files
]


def read_everything(path: Path, form: str, problems: Problems = FIRST) -> None:
    dataset = open_dataset(path, form)
    documents, queries = dataset.read_documents(problems), dataset.read_queries(problems)
    qrels = dataset.read_qrels(documents.table, queries.table, problems)
    assert qrels.table.num_rows > 0 or problems.collected


@pytest.mark.parametrize(
    ("form", "files"), [("trec", TREC), ("squad", SQUAD), ("autorag", AUTORAG)]
)
def test_untouched_files_are_valid(tmp_path: Path, form: str, files: dict[str, bytes]) -> None:
    lay_out(tmp_path, files)
    read_everything(tmp_path / "a.json" if form == "squad" else tmp_path, form)


@pytest.mark.parametrize(("form", "files", "name"), CASES)
@settings(deadline=None, max_examples=100)
@given(content=some_bytes, where=st.floats(0, 1), keep=st.booleans(), collect=st.booleans())
def test_any_bytes_are_read_or_refused_with_one_line(
    tmp_path_factory: pytest.TempPathFactory,
    form: str,
    files: dict[str, bytes],
    name: str,
    content: bytes,
    where: float,
    keep: bool,
    collect: bool,
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    position = int(where * len(files[name]))
    after = files[name][position + (0 if keep else len(content)) :]
    lay_out(folder, {**files, name: files[name][:position] + content + after})
    messages: list[str] = []
    try:
        problems = Problems(collect=collect)
        with problems:
            read_everything(folder / "a.json" if form == "squad" else folder, form, problems)
        messages = [str(problem) for problem in problems.collected or ()]
    except RagAssetsError as error:
        messages.append(str(error))
    finally:
        shutil.rmtree(folder)
    for message in messages:
        message.encode()
        assert len(message.splitlines()) == 1


def lay_out(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)
