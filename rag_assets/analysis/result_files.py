"""Values of questions in result files of other tools, and the paired difference of two such files.

A higher value counts as a better one, unless the metric has a name of ours and counts mistakes.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.analysis.comparisons import difference_columns, oriented, verdict
from rag_assets.analysis.evaluation_pairs import with_direction
from rag_assets.errors import DataError, UsageError, allowed_names
from rag_assets.input_files import read_bytes, suffix
from rag_assets.plain_text import plain
from rag_assets.sheets.sheet import TEXT, Column, Sheet
from rag_assets.sources.fields import Place, Row, checked_id
from rag_assets.sources.row_files import RowFile, parse_json, read_csv
from rag_assets.statistics.comparisons import comparisons
from rag_assets.statistics.units import Resampling

Values = dict[str, dict[str, float]]
"""Metric -> question -> its value."""

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's letters: correct, partial, incorrect, no answer."""


def _numbers(row: Row) -> Iterator[tuple[str, float]]:
    for name, value in row.items():
        if isinstance(value, int | float) and isfinite(value):
            yield name, float(value)


def _of_inspect(row: Row) -> Iterator[tuple[str, float]]:
    for scorer, score in (row["scores"] or {}).items():
        value = score.get("value")
        if isinstance(value, dict):  # a scorer with several values
            graded = {f"{scorer}/{name}": _GRADES.get(v, v) for name, v in value.items()}
        else:
            graded = {scorer: _GRADES.get(value, value)}
        yield from _numbers(graded)


def _of_lm_eval(row: Row) -> Iterator[tuple[str, float]]:
    """Yield numbers under the names of the results file, with filter: ``exact_match,strict``."""
    filter_name = row.get("filter", "none")
    names = row.get("metrics") or [name for name in row if name != "doc_id"]
    for name, value in _numbers({name: row[name] for name in names if name in row}):
        yield (name if filter_name == "none" else f"{name},{filter_name}"), value


class _Format(NamedTuple):
    """Rows of a tool: the key of the question, others that must be there, and their values."""

    tool: str
    question: str
    needed: tuple[str, ...]
    values: Callable[[Row], Iterator[tuple[str, float]]]


_FORMATS = (
    _Format("an Inspect log", "id", ("scores",), _of_inspect),
    _Format("samples_*.jsonl of lm-evaluation-harness", "doc_id", ("target",), _of_lm_eval),
    _Format(
        "rows, or an object, of questions with numbers (as `score --per-query` prints them)",
        "query_id",
        (),
        lambda row: _numbers({k: v for k, v in row.items() if k != "query_id"}),
    ),
)
_MEANS = {
    "results": "lm-evaluation-harness writes values of questions with --log_samples",
    "task_name": "run mteb with a prediction folder, and `rag-assets score --run "
    "predictions.json --per-query --format json`",
}
"""Key of a file that holds means alone -> what to do."""


def read_values(path: Path) -> Values:
    """Return the values of all questions; several of one (epochs) are averaged.

    Raises:
        DataError: the file is of no such format, or holds no values.
    """
    values: dict[str, dict[str, list[float]]] = {}
    for place, row in _rows(path):
        kind = next((f for f in _FORMATS if {f.question, *f.needed} <= row.keys()), None)
        if kind is None:
            keys, allowed = ", ".join(list(row)[:8]), "; ".join(f.tool for f in _FORMATS)
            raise place.error(f"row with {keys or 'nothing'}; must be of: {allowed}")
        question = checked_id(row[kind.question], place, kind.question)
        try:
            for metric, value in kind.values(row):
                values.setdefault(metric, {}).setdefault(question, []).append(value)
        except (AttributeError, TypeError) as error:
            raise place.error(f"is no row of {kind.tool} ({error})") from error
    if not values:
        raise DataError("holds no value of a question", file=path)
    return {
        metric: {question: fmean(several) for question, several in of_metric.items()}
        for metric, of_metric in values.items()
    }


def _rows(path: Path) -> Iterator[tuple[Place, Row]]:
    is_log = suffix(path) == ".eval"
    if not is_log and suffix(path) != ".json":
        yield from _csv_rows(path) if suffix(path) == ".csv" else RowFile(path).rows()
        return
    content = _logged(path) if is_log else parse_json(read_bytes(path), Place(path))
    if isinstance(content, dict) and isinstance(content.get("samples"), list):
        content = content["samples"]
    elif isinstance(content, dict):
        for key, advice in _MEANS.items():
            if key in content:
                raise DataError(f"holds means, no values of questions; {advice}", file=path)
        of_questions = [(k, v) for k, v in content.items() if isinstance(v, dict)]
        content = [{"query_id": question, **row} for question, row in of_questions]
    for number, row in enumerate(content if isinstance(content, list) else [content]):
        place = Place(path, path=f"[{number}]")
        if not isinstance(row, dict):
            raise place.wrong(row, "an object")
        yield place, row


def _csv_rows(path: Path) -> Iterator[tuple[Place, Row]]:
    """Yield rows with numbers; an empty cell is no value, a column without any number is text."""
    rows = [(place, {k: plain(v) for k, v in row.items() if v}) for place, row in read_csv(path)]
    numeric = {k for _, row in rows for k, cell in row.items() if _NUMBER.fullmatch(cell)}
    numeric -= {kind.question for kind in _FORMATS}
    for place, row in rows:
        for key in row:
            if key in numeric and not _NUMBER.fullmatch(row[key]):
                raise place.wrong(row[key], "a number, or empty", key)
        yield place, {k: float(v) if k in numeric else v for k, v in row.items()}


def _logged(path: Path) -> list[Any]:
    """Return the samples of Inspect's own log, a ZIP archive with a file for each."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.startswith("samples/")]
            return [parse_json(archive.read(name), Place(path, path=name)) for name in names]
    except (OSError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"cannot be read as a log of Inspect ({error})", file=path) from error


def compare_files(a: Path, b: Path, metric: str | None = None) -> tuple[Row, Sheet]:
    """Compare two files on the questions that both have; the difference is ``b`` minus ``a``.

    Args:
        a: a file of :func:`read_values`.
        b: likewise.
        metric: the first that both have when absent.

    Raises:
        DataError: a file cannot be read.
        UsageError: they have no metric or no question in common, or not this metric.
    """
    of_a, of_b = read_values(a), read_values(b)
    if not (shared := [name for name in of_a if name in of_b]):
        has = " and ".join(f"{file} has {', '.join(of)}" for file, of in ((a, of_a), (b, of_b)))
        raise UsageError(f"no metric is in both files: {has}")
    if metric is not None and metric not in shared:
        raise UsageError(f"no metric {allowed_names(metric, shared)}")
    name = metric or shared[0]
    values = {str(a): of_a[name], str(b): of_b[name]}
    if not (questions := sorted(of_a[name].keys() & of_b[name].keys())):
        raise UsageError(f"{a} and {b} have no question with a value of {name} in common")
    facts = pa.table({"query_id": questions, "n_relevant": [1] * len(questions)})
    cells = {
        file: facts.append_column(name, pa.array([of[q] for q in questions], pa.float64()))
        for file, of in values.items()
    }
    counting = [{"query_id": q, "weight": 1.0, "split": "all", "cluster": q} for q in questions]
    pairs = comparisons(cells, counting, (name, 0), Resampling(), [(str(a), str(b))])
    row = with_direction(pairs.to_pylist()[0], name)
    notes = [verdict(row, 1)]
    for file, of in values.items():
        if alone := len(of) - len(questions):
            notes.append(f"questions of {file} that the other file lacks: {alone}")
    others = [other for other in shared if other != name]
    notes += [f"also in both: --metric {' or '.join(others)}"] if others and not metric else []
    columns = (Column("pair", "files", TEXT), *difference_columns(Resampling().confidence))
    return row, Sheet(name, columns, [oriented(row, str(b))], notes=notes)
