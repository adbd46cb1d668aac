"""The pool, its order and the sheet."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError
from rag_assets.labels.experiment_pool import EVIDENCE, SHEET, read_sheet, sheet_text
from rag_assets.labels.pool import MAX_UNION_CHARACTERS, PooledUnit, in_blind_order, merged
from rag_assets.plain_text import CELL_LIMIT
from tests.labels.health import tables
from tests.labels.health.tables import queries
from tests.made_tables import sheet_rows, write_sheet

TEXT = '- one\n\ntwo, "three"\n'


QUERIES = queries({"q1": "what?", "q2": "what?"})


def documents(text: str = TEXT) -> pa.Table:
    return tables.documents({"d": text}, title="=title")


def filled(tmp_path: Path, units: list[PooledUnit], *changes: dict[str, str]) -> Path:
    """Write a sheet and fill in cells of its rows, as a spreadsheet program does."""
    blank = tmp_path / "blank.csv"
    blank.write_text(sheet_text(units, documents(), QUERIES), encoding="utf-8", newline="")
    sheet = tmp_path / "sheet.csv"
    pairs = zip(sheet_rows(blank), changes, strict=True)
    write_sheet(sheet, [{**row, **change} for row, change in pairs])
    return sheet


@pytest.mark.parametrize(
    ("start", "end", "shares"), [(10, 12, False), (8, 12, True), (9, 12, False), (0, 100, True)]
)
def test_spans_share_half_of_the_shorter_one(start: int, end: int, shares: bool) -> None:
    one, other = PooledUnit("q", "d", 0, 10), PooledUnit("q", "d", start, end)
    assert one.shares_half(other) == other.shares_half(one) == shares


def test_the_order_is_blind_and_repeatable() -> None:
    units = [PooledUnit(q, "d", n, n + 1) for q in ("q2", "q1") for n in range(50)]
    one = in_blind_order(units, ["q1", "q2"])
    assert [unit.query_id for unit in one] == ["q1"] * 50 + ["q2"] * 50
    assert one == in_blind_order(reversed(units), ["q1", "q2"])
    assert sorted(one) == sorted(units)
    assert [u.start for u in one[:50]] != [u.start for u in one[50:]]  # not the same shuffle twice
    assert [u.start for u in one[:50]] != sorted(u.start for u in one[:50])
    assert in_blind_order(units, ["q1", "q2"], seed=1) != one


def test_the_sheet_holds_the_span_and_no_formula() -> None:
    text = sheet_text([PooledUnit("q1", "d", 0, 5)], documents(), QUERIES)
    cells = ["q1", "what?", "d", "0", "5", "'=title", "'- one", "", ""]
    assert sheet_rows(text) == [dict(zip(SHEET.columns, cells, strict=True))]


@settings(deadline=None)
@given(st.text(alphabet="'=+-@ a\n\r,\"", max_size=12).filter(bool))
def test_every_text_comes_back(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "s.csv"
        corpus = documents(text)
        blank = sheet_text([PooledUnit("q1", "d", 0, len(text))], corpus, QUERIES)
        file.write_text(blank.removesuffix("\r\n") + "1.0\r\n", encoding="utf-8", newline="")
        graded, _ = read_sheet(file, corpus, QUERIES)
        assert [(row.item, row.grade) for row, _ in graded] == [
            (PooledUnit("q1", "d", 0, len(text)), 1)
        ]


OTHER = "of 'd'; the document changed, or the sheet was edited"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"grade": "1.5"}, "`grade`: is '1.5'; must be an integer from 0 on"),
        ({"grade": "yes"}, "`grade`: is 'yes'; must be an integer from 0 on"),
        ({"grade": "1", "query_id": "q3"}, "`query_id`: unknown query 'q3'"),
        ({"grade": "1", "document_id": "e"}, "`document_id`: unknown document 'e'"),
        (
            {"grade": "1", "end": "99"},
            f"`text`: '- one' is not the text at characters 0-99 {OTHER}",
        ),
        ({"grade": "1", "start": "x"}, "`start`: is 'x'; must be an integer from 0 on"),
        (
            {"grade": "1", "evidence": "two"},
            "`evidence`: 'two' is not in the text; copy a part of the text that occurs only once",
        ),
        ({"grade": "0", "evidence": "on"}, "`evidence`: needs a grade of 1 or more, not 0"),
        ({"evidence": "on"}, "`grade`: is ''; must be an integer from 0 on"),
        (
            {"grade": "1", "text": "- One"},
            f"`text`: '- One' is not the text at characters 0-5 {OTHER}",
        ),
    ],
)
def test_a_bad_row_is_refused(tmp_path: Path, change: dict[str, str], problem: str) -> None:
    units = [PooledUnit("q1", "d", 0, 5), PooledUnit("q2", "d", 7, 19)]
    sheet = filled(tmp_path, units, change, {"grade": "1"})
    with pytest.raises(DataError) as caught:
        read_sheet(sheet, documents(), QUERIES)
    assert str(caught.value) == f"{sheet}:2: {problem}; nothing was imported"


def spans(found: set[PooledUnit]) -> list[tuple[int, int]]:
    return sorted((unit.start, unit.end) for unit in found)


UNIONS = {
    "one inside another": ([(0, 100), (20, 40), (0, 10), (90, 100)], [(0, 100)]),
    "windows": ([(0, 20), (15, 35), (30, 50)], [(0, 50)]),
    "neighbours": ([(0, 20), (20, 40)], [(0, 20), (20, 40)]),
    "a chain is not the whole document": (
        [(0, 20_000), (15_000, 35_000), (16_000, 30_000), (34_000, 40_000)],
        [(0, 20_000), (15_000, 40_000)],
    ),
    "a long one keeps what is inside": ([(0, 90_000), (5, 60_000)], [(0, 90_000)]),
    "empty ones": ([(5, 5), (5, 5), (7, 9)], [(5, 5), (7, 9)]),
}


@pytest.mark.parametrize(("found", "expected"), UNIONS.values(), ids=UNIONS.keys())
def test_overlapping_units_are_one(
    found: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    assert spans(merged(PooledUnit("q1", "d", *span) for span in found)) == expected
    apart = {PooledUnit(q, d, *found[0]) for q in ("q1", "q2") for d in ("d", "e")}
    assert merged(apart) == apart


@given(st.lists(st.tuples(st.integers(0, 90_000), st.integers(1, 40_000)), max_size=30))
def test_no_unit_lies_inside_another(found: list[tuple[int, int]]) -> None:
    units = {PooledUnit("q1", "d", start, start + size) for start, size in found}
    rows = spans(merged(units))
    longest = max([MAX_UNION_CHARACTERS, *(size for _, size in found)])
    for number, (start, end) in enumerate(rows):
        assert end - start <= longest
        assert not any(a <= start and end <= b for a, b in rows[:number] + rows[number + 1 :])
    for unit in units:
        assert any(a <= unit.start and unit.end <= b for a, b in rows)


LONG = {
    "Latin": "a word " * 6000,
    "beside the basic plane": "\U0001f600 " * 20_000,
    "other line ends": "a\r\n" * 20_000,
    "a formula": "=" + "1+" * 20_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_no_cell_is_longer_than_a_spreadsheet_takes(
    tmp_path: Path, text: str, newline: str
) -> None:
    corpus = documents(text)
    asked = queries({"q1": "why " * 9000})
    unit = PooledUnit("q1", "d", 0, len(text))
    file = tmp_path / "s.csv"
    file.write_text(sheet_text([unit], corpus, asked), encoding="utf-8", newline="")
    (row,) = sheet_rows(file)
    assert all(len(cell.encode("utf-16-le")) // 2 <= CELL_LIMIT for cell in row.values())
    assert f"-{len(text)} of the document]" in row["text"]
    row["grade"] = "1"
    # as it was written, as an older sheet had it, and as a program cuts that
    for shown in (row["text"].replace("\r\n", "\n").replace("\n", newline), text, text[:32_767]):
        write_sheet(file, [row | {"text": shown}])
        assert [line.item for line, _ in read_sheet(file, corpus, asked)[0]] == [unit]
    row["text"] = row["text"].replace(row["text"][9_000], "x", 1)
    write_sheet(file, [row])
    with pytest.raises(DataError, match="is not the text at characters"):
        read_sheet(file, corpus, asked)


def test_a_copied_part_is_the_evidence_and_the_rest_was_seen(tmp_path: Path) -> None:
    unit, other = PooledUnit("q1", "d", 0, 19), PooledUnit("q2", "d", 7, 19)
    evidence = {"grade": " 2 ", "evidence": "one\n\ntwo"}
    sheet = filled(tmp_path, [unit, other], evidence, {"grade": ""})
    ((row, place),), n_empty = read_sheet(sheet, documents(), QUERIES)
    assert (row.item, place.line, n_empty) == (unit, 2, 1)
    assert [(each.unit, each.grade) for each in row.judgments()] == [
        (PooledUnit("q1", "d", 2, 10), 2),
        (unit, 0),
    ]
    whole = filled(tmp_path, [unit], {"grade": "2", "evidence": TEXT[:19]})
    ((row, _),) = read_sheet(whole, documents(), QUERIES)[0]
    assert [(each.unit, each.grade) for each in row.judgments()] == [(unit, 2)]


def test_a_sheet_of_an_older_version_is_read(tmp_path: Path) -> None:
    sheet = tmp_path / "s.csv"
    cells = ["q1", "what?", "d", "0", "5", "'=title", "'- one", "2"]
    sheet.write_text(
        f"{','.join([name for name in SHEET.columns if name != EVIDENCE])}\n{','.join(cells)}\n",
        encoding="utf-8",
    )
    ((row, _),) = read_sheet(sheet, documents(), QUERIES)[0]
    assert [(each.unit, each.grade) for each in row.judgments()] == [
        (PooledUnit("q1", "d", 0, 5), 2)
    ]
