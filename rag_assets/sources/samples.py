"""Files of samples, a question a row, as :mod:`rag_assets.sources.sample_layouts` declares them.

Passages that come with a question are the documents of a file alone; beside documents they are
looked up in these. In CSV a cell may hold a list or an object, and ``input.question`` or
``input_question`` stands below ``input``.
"""

from __future__ import annotations

import ast
import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from rag_assets.errors import DataError
from rag_assets.input_files import read_bytes, suffix
from rag_assets.sources.dataset import FIRST, Problems, Read
from rag_assets.sources.fields import (
    Place,
    Row,
    checked_id,
    identifier,
    items,
    joined_id,
    metadata_json,
    note,
    shown,
    string,
)
from rag_assets.sources.json_datasets import SingleFileDataset
from rag_assets.sources.row_files import PARQUET, RowFile, Rows, parse_json
from rag_assets.sources.sample_layouts import LAYOUTS, Layout, Passages, listed
from rag_assets.sources.tables import DocumentRows, QrelRows, QueryRows, UniqueIds
from rag_assets.store.canonical import fingerprint

YAML = frozenset({".yaml", ".yml"})
_BELOW = re.compile(r"(inputs?|outputs?|metadata)[._](.+)")
_EXPECTED = "__expected"
_ASSERTION = re.compile(r"(?:(?:equals|i?contains):\s*)?(?![a-z-]+(?:\([^)]*\))?:)(.+)", re.DOTALL)
_QUESTIONS = ("question", "query", "input", "user_input", "prompt", "text")
_ANSWERS = ("value", "answer", "output", "expected", "reference")


@dataclass(frozen=True)
class SampleDataset(SingleFileDataset):
    """A file of samples whose documents are the passages that come with the questions.

    A passage has its own id, its title or a digest of its text; another text under the same id has
    that digest behind it.
    """

    format: ClassVar[str] = "samples"
    layout: ClassVar[str] = (
        "a .csv, .json, .jsonl or .parquet file with passages, as of MuSiQue, HotpotQA, "
        "FinanceBench, MIRACL, Ragas or DeepEval"
    )

    columns: Mapping[str, Any] = field(default_factory=dict)

    @property
    def _row(self) -> Layout | None:
        """The layout that `columns` say."""
        names = self.columns
        ids, passages = (names.get("query_id", "id"),), (Passages(names.get("text", "text")),)
        return Layout("columns", names.get("query", "query"), "", passages, ids) if names else None

    @classmethod
    def recognises(cls, path: Path) -> bool:
        return has_passages(path)

    @classmethod
    def parts(cls, path: Path) -> Mapping[str, bool]:
        return {"question with passages": True} if cls.recognises(path) else {}

    def read_documents(self, problems: Problems = FIRST) -> Read:
        rows, ids, texts = DocumentRows(), set[str](), set[tuple[str, str]]()
        for place, sample in read_samples(self.file, problems, self._row):
            for passage in sample.passages:
                if (passage.name, passage.text) not in texts:
                    texts.add((passage.name, passage.text))
                    digest, name = fingerprint(passage.text)[:12], passage.name
                    name = f"{name}/{digest}" if name in ids else name or digest
                    ids |= {passage.name} - {""}
                    with problems:
                        rows.add(checked_id(name, place, "title"), passage.title, passage.text)
        return rows.read(Place(self.file), [])

    def read_queries(self, problems: Problems = FIRST) -> Read:
        return sample_queries(self.file, problems, self._row)

    def read_qrels(
        self, documents: pa.Table, queries: pa.Table, problems: Problems = FIRST
    ) -> Read:
        return sample_qrels(self.file, documents, queries, problems, self._row)


class Passage(NamedTuple):
    """A text that comes with a question; its ``name`` is its id, or its title, or empty."""

    name: str
    title: str
    text: str
    is_relevant: bool


class Sample(NamedTuple):
    """A row in our own words."""

    query_id: str
    text: str
    tags: list[str]
    metadata: str
    passages: list[Passage]


def sample_queries(file: Path, problems: Problems, layout: Layout | None = None) -> Read:
    """Return the questions of a file; their answers are metadata."""
    rows, ids = QueryRows(), UniqueIds("query")
    for place, sample in read_samples(file, problems, layout):
        with problems:
            ids.add(sample.query_id, place, "id")
            rows.add(*sample[:4])
    return rows.read(Place(file), [])


def sample_qrels(
    file: Path,
    documents: pa.Table,
    queries: pa.Table,
    problems: Problems,
    layout: Layout | None = None,
) -> Read:
    """Return where the relevant passages of a file stand in the documents.

    White space may differ. A passage that stands in several documents is one evidence, with
    alternatives; one that stands in none is left out, and a note counts such.
    """
    rows, left_out = QrelRows(documents, queries, problems), list[str]()
    ids, texts = documents["document_id"].to_pylist(), documents["text"].to_pylist()
    folded = pa.array([" ".join(text.split()) for text in texts], pa.string())
    same: dict[str, list[int]] = {}
    for row, text in enumerate(folded.to_pylist()):
        same.setdefault(text, []).append(row)
    for place, sample in read_samples(file, problems, layout):
        relevant = dict.fromkeys(" ".join(p.text.split()) for p in sample.passages if p.is_relevant)
        for number, text in enumerate(filter(None, relevant), 1):
            holders = pc.indices_nonzero(pc.match_substring(folded, text)).to_pylist
            pattern = re.compile(r"\s+".join(map(re.escape, text.split())))
            spans = [(row, pattern.search(texts[row])) for row in same.get(text) or holders()]
            left_out += [] if spans else [f"{sample.query_id} {shown(text, 30)}"]
            for row, match in spans:
                with problems:
                    rows.resolve(sample.query_id, ids[row], place, ("id", "passages"))
                    span = match and match.span()
                    rows.add(place, sample.query_id, ids[row], 1, str(number), span)
    one, many = "passage is in no document, left out", "passages are in no document, left out"
    return rows.read(Place(file), note(one, many, left_out))


def sample_layout(file: Path) -> Layout | None:
    """Return the layout of a file's first row."""
    row = _first_row(file)
    return next((layout for layout in LAYOUTS if row.keys() >= layout.needed), None)


def has_passages(file: Path) -> bool:
    """Return whether the first row of a file has what its layout has for passages."""
    layout, row = sample_layout(file), _first_row(file)
    return layout is not None and any(row.get(passages.key) for passages in layout.passages)


def _first_row(file: Path) -> Row:
    """Return the first row; it is empty where there is none that can be read."""
    with suppress(DataError):
        if suffix(file) in {".csv", ".json", ".jsonl", *YAML, PARQUET} and file.is_file():
            return next((row for _, row in _rows(file, FIRST)), {})
    return {}


def no_layout(file: Path) -> str | None:
    """Return what the first row lacks for a known layout, and which `columns` would read it."""
    row, layout = _first_row(file), sample_layout(file)
    if not row or (layout is not None and layout.passages):
        return None
    if layout is not None:
        return f"questions of {layout.tool} without passages; put the file beside its documents"
    near = max(LAYOUTS, key=lambda layout: len(row.keys() & layout.needed))
    lacks = ", ".join(sorted(near.needed - row.keys()))
    parts = {"query": "quest|query|prompt|input", "text": "conte|passag|text"}
    keys = {part: [k for k in row if re.search(words, k.lower())] for part, words in parts.items()}
    columns = ", ".join(f"{part}: {(*names, part.upper())[0]}" for part, names in keys.items())
    has = ", ".join(shown(key, 30) for key in list(row)[:8])
    advice = f"`dataset: {{format: samples, columns: {{{columns}}}}}` reads such rows"
    return f"rows with {has}; nearest: {near.tool}, where there is no {lacks}; {advice}"


def read_samples(
    file: Path, problems: Problems, given: Layout | None
) -> Iterator[tuple[Place, Sample]]:
    """Yield every row with its place.

    Raises:
        DataError: a row is not as its layout needs it.
    """
    layout = given or sample_layout(file)
    if layout is None:
        raise DataError(no_layout(file) or "holds no row that can be read", file=file)
    for number, (place, row) in enumerate(_rows(file, problems), 1):
        with problems:
            try:
                prepared = layout.prepare(row)
            except (TypeError, ValueError, LookupError) as error:
                raise place.error(f"is no row of {layout.tool} ({error})") from error
            yield place, _sample(layout, prepared, place, number)


def _sample(layout: Layout, row: Row, place: Place, number: int) -> Sample:
    text = _text(row.get(layout.question), _QUESTIONS)
    if text is None:
        allowed = f"a text, or an object with one text or one of {', '.join(_QUESTIONS)}"
        raise place.wrong(row.get(layout.question), allowed, layout.question)
    answers = [a for each in listed(row.get(layout.answer)) if (a := _text(each, _ANSWERS))]
    used = {layout.question, layout.answer, *layout.ids, *(p.key for p in layout.passages)}
    metadata = {key: value for key, value in row.items() if key not in used}
    metadata |= {"answers": answers} if answers else {}
    key = next((key for key in layout.ids if row.get(key) is not None), None)
    query_id = f"q{number}" if key is None else identifier(row, key, place)
    tags = [tag for tag in (row.get(layout.tag),) if tag and isinstance(tag, str)]
    passages = [p for keys in layout.passages for p in _passages(keys, row, place)]
    return Sample(query_id, text, tags, metadata_json(metadata, frozenset()), passages)


def _passages(keys: Passages, row: Row, place: Place) -> Iterator[Passage]:
    for number, item in enumerate(listed(row.get(keys.key))):
        inside = place._replace(path=f"{place.inside(keys.key)}[{number}]")
        if not keys.text:
            yield Passage("", "", string({"text": item}, "text", inside), True)
            continue
        if not isinstance(item, dict):
            raise inside.wrong(item, "an object")
        title = string(item, keys.title, inside)
        relevant = item.get(keys.relevant) if isinstance(keys.relevant, str) else keys.relevant
        name = joined_id(item, keys.ids, inside) or title
        yield Passage(name, title, string(item, keys.text, inside), relevant is True)


def _text(value: Any, names: Sequence[str]) -> str | None:  # noqa: ANN401 (whatever JSON can hold)
    """Return a text, or that of an object under one of ``names``, or its only one."""
    if isinstance(value, list):  # messages: the last one of the user
        users = [each for each in value if isinstance(each, dict) and each.get("role") == "user"]
        value = users[-1].get("content") if users else None
    if isinstance(value, dict):
        texts = {key: text for key, text in value.items() if isinstance(text, str)}
        value = next((texts[name] for name in names if name in texts), None)
        return next(iter(texts.values())) if value is None and len(texts) == 1 else value
    return value if isinstance(value, str) else None


def _rows(file: Path, problems: Problems) -> Rows:
    if suffix(file) not in {".json", *YAML}:
        for place, row in RowFile(file, problems).rows():
            yield place, _unfolded(row) if suffix(file) == ".csv" else row
        return
    data = read_bytes(file).removeprefix(codecs.BOM_UTF8)
    rows = _of_yaml(data, file) if suffix(file) in YAML else parse_json(data, Place(file))
    for row, place in items({"": rows}, "", Place(file)):
        yield place, row


def _of_yaml(data: bytes, file: Path) -> object:
    """Return what YAML holds, every scalar a text; of a configuration of promptfoo its tests."""
    with suppress(yaml.YAMLError, ValueError, RecursionError):
        content = yaml.load(data, Loader=yaml.BaseLoader)  # what nests too deep stops here
        if not any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(data)):
            return content.get("tests") if isinstance(content, dict) else content
    raise Place(file).error(
        "cannot be read as YAML; it must be well-formed, without an alias (*name)"
    )


def _unfolded(row: Mapping[str, str]) -> Row:
    """Return a row of CSV as one of JSON: lists and objects in place of cells."""
    if any(key.startswith(_EXPECTED) for key in row):  # promptfoo
        matches = [_ASSERTION.match(row[key]) for key in row if key.startswith(_EXPECTED)]
        variables = {key: cell for key, cell in row.items() if not key.startswith("__")}
        return {"vars": variables, "assert": [match[1] for match in matches if match]}
    cells: dict[str, Any] = {}
    for key, cell in row.items():
        below = _BELOW.fullmatch(key)
        if below and isinstance(cells.setdefault(below[1], {}), dict):
            cells[below[1]][below[2]] = cell
        elif key and cell:  # pandas writes its index under no name
            cells[key] = _parsed(cell)
    return cells


def _parsed(cell: str) -> Any:  # noqa: ANN401 (whatever JSON can hold)
    """Return the list or object of a cell, as JSON or as Python writes it; else the text."""
    for parse in (msgspec.json.decode, ast.literal_eval) if cell[0] in "[{" else ():
        with suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            return parse(cell)
    return cell
