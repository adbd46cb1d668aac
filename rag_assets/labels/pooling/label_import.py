"""From judged units to the labels of a dataset: all of them are added, or none.

A pool of several chunkings holds overlapping spans of one passage. If each relevant one became an
evidence of its own, R would count the passage as often as there are chunkings; and a long relevant
span would make every chunk inside it relevant. A unit satisfies an evidence when it holds half of
it, so the shortest relevant span of a passage is enough: longer ones satisfy it.

A pool of which every drawn passage was graded is no sample any more: its grades are complete
labels. Nobody has to be asked about a passage a second time, whatever asks: what people said of
passages that were drawn, or that they searched for, counts for every sheet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.errors import DataError, UsageError
from rag_assets.labels.pooling.feedback import earlier_feedback
from rag_assets.labels.pooling.pool import (
    PLACE,
    Judgment,
    Key,
    PooledUnit,
    SamePassages,
    texts_of,
)
from rag_assets.labels.question_marks import left_out, marks_file, read_marks
from rag_assets.labels.sampling.design import read_design
from rag_assets.labels.sampling.judgment_log import (
    JUDGED,
    SEARCH,
    SKIPPED,
    LoggedJudgment,
    design_file,
)
from rag_assets.labels.sampling.judgment_log import read_judgments as read_log
from rag_assets.schemas import QRELS
from rag_assets.sources.dataset import Dataset, Problems
from rag_assets.sources.fields import shown
from rag_assets.sources.judgments import read_judgments
from rag_assets.store.atomic import atomic_file

FORMATS = ("markdown", "jsonl", "csv", "parquet")
"""Formats whose judgments lie in ``judgments.jsonl``; to others nothing is added."""

JsonRow = dict[str, Any]
Labels = list[tuple[Key, Judgment]]


class Added(NamedTuple):
    """What became of judgments: added to ``file``, there already, or covered by a shorter span.

    Of earlier feedback: how many labels got another grade or other votes, and how many are gone.
    """

    file: Path
    n_added: int
    n_known: int
    n_covered: int
    n_changed: int = 0
    n_withdrawn: int = 0


def add_judgments(
    dataset: Dataset,
    judgments: Iterable[Judgment],
    documents: pa.Table,
    queries: pa.Table,
    *,
    judge: str,
    on_conflict: Callable[[DataError], object],
    renewed: Collection[PooledUnit] = (),
    keeps_unknown: bool = False,
) -> Added:
    """Add judgments to the dataset's label file; one that is there with the same grade is known.

    Spans are added, or whole documents where ``judge``, the unit that the experiment judges, is
    ``document``. Of relevant spans that share half of the shorter one only the shortest is added:
    the others satisfy it. Where the labels have another grade already theirs stays, and
    ``on_conflict`` is called. On the units ``renewed`` the judgments say all that feedback says;
    labels of theirs that came from earlier feedback are replaced, or taken back. Judgments of
    documents that are not in the corpus may be kept.

    Raises:
        UsageError: judgments cannot be added to this format.
        DataError: the result would not be valid; nothing is written.
        StoreError: the file cannot be written.
    """
    file = label_file(dataset)
    whole = judge == "document"
    labels = by_key(judgments, whole)
    named = {_key(unit, whole) for unit in renewed}
    outdated = earlier_feedback(file, documents, named) if named and dataset.has_qrels else {}
    for key, label in labels.items():
        if key in outdated and outdated[key][1:] == label[1:3]:
            del outdated[key]  # it says the same, votes and all
    problems = Problems(keeps_unknown=keeps_unknown)
    read = dataset.read_qrels(documents, queries, problems) if dataset.has_qrels else None
    old = [
        row
        for row in (read.table.to_pylist() if read is not None else ())
        if _key_of(row) not in outdated
    ]
    grades = {_key_of(row): row["grade"] for row in old}
    for key, judgment in labels.items():
        if grades.get(key, judgment.grade) != judgment.grade:
            on_conflict(_conflict(judgment, grades[key]))
    new = [(key, judgment) for key, judgment in labels.items() if key not in grades]
    chosen = without_covered(new, old)
    if chosen or outdated:
        texts = texts_of(documents)
        rows = {key: _row(key, judgment, texts) for key, judgment in chosen}
        added = [row for key, row in rows.items() if key not in outdated]
        replaced = {label.line: rows.get(key) for key, label in outdated.items()}
        check = partial(read_judgments, documents=documents, queries=queries, problems=problems)
        _write(file, added, replaced, check)
    n_changed = sum(key in outdated for key, _ in chosen)
    return Added(
        file,
        n_added=len(chosen) - n_changed,
        n_known=len(labels) - len(new),
        n_covered=len(new) - len(chosen),
        n_changed=n_changed,
        n_withdrawn=len(outdated) - n_changed,
    )


def _key(unit: PooledUnit, whole: bool) -> Key:
    return (*unit[:2], None, None) if whole else unit


def _key_of(row: Mapping[str, Any]) -> Key:
    return (row["query_id"], row["document_id"], row["start"], row["end"])


def by_key(judgments: Iterable[Judgment], whole: bool) -> dict[Key, Judgment]:
    """Return one judgment a key: the one with the highest grade, the first of several."""
    by_key: dict[Key, Judgment] = {}
    for judgment in judgments:
        key = _key(judgment.unit, whole)
        if key not in by_key or judgment.grade > by_key[key].grade:
            by_key[key] = judgment
    return by_key


def _conflict(judgment: Judgment, grade: int) -> DataError:
    unit = judgment.unit
    return DataError(
        f"line {judgment.line}: query {shown(unit.query_id)} and document "
        f"{shown(unit.document_id)}, characters {unit.start}-{unit.end}: grade {judgment.grade}, "
        f"but the labels have {grade}"
    )


def _row(key: Key, judgment: Judgment, texts: Mapping[str, str]) -> JsonRow:
    """Return a line of ``judgments.jsonl``; ``start`` stands where its quote is not unique."""
    row: JsonRow = {"query_id": key[0], "doc_id": key[1], "relevance": judgment.grade}
    row["source"] = judgment.source
    if key[2] is None:
        return row
    _, _, start, end = judgment.unit
    text = texts[key[1]]
    quote = text[start:end]
    if not quote.strip():
        where = f"line {judgment.line}: characters {start}-{end} of {shown(key[1])}"
        raise DataError(f"{where} are blank, cannot be quoted")
    is_unique = text.find(quote) == start and text.find(quote, start + 1) < 0
    return {**row, "quote": quote} if is_unique else {**row, "quote": quote, "start": start}


def without_covered(new: Labels, old: Iterable[Mapping[str, Any]] = ()) -> Labels:
    """Leave out relevant spans of which an older or a shorter relevant span shares half.

    Of equally long ones that stays which begins first; what the labels hold already stays.
    """
    spans: dict[tuple[str, str], list[PooledUnit]] = {}
    for row in old:
        if row["grade"] > 0 and row["start"] is not None:
            span = PooledUnit(*(row[name] for name in PLACE))
            spans.setdefault(span[:2], []).append(span)
    covered: set[Key] = set()
    relevant = {
        PooledUnit(query_id, document_id, start, end)
        for (query_id, document_id, start, end), label in new
        if label.grade > 0 and start is not None and end is not None
    }
    for span in sorted(relevant, key=lambda span: (span.length, span)):
        others = spans.setdefault(span[:2], [])
        if any(span.shares_half(other) for other in others):
            covered.add(span)
        else:
            others.append(span)
    return [(key, label) for key, label in new if label.grade <= 0 or key not in covered]


def label_file(dataset: Dataset) -> Path:
    """Return the file to which judgments are added; it need not exist.

    Raises:
        UsageError: judgments cannot be added to this format.
    """
    if dataset.format not in FORMATS:
        raise UsageError(
            f"judgments cannot be added to a dataset of format {dataset.format}; allowed: "
            f"{', '.join(FORMATS)}; `rag-assets convert PATH --to jsonl --out FOLDER` converts it"
        )
    if dataset.has_qrels and dataset.qrels_files()[0].suffix != ".jsonl":
        raise UsageError(
            f"{dataset.qrels_files()[0]}: judgments are added to judgments.jsonl only; "
            "convert the file first"
        )
    return dataset.root / "judgments.jsonl"


def _write(
    file: Path,
    rows: Iterable[JsonRow],
    replaced: Mapping[int, JsonRow | None],
    check: Callable[[Path], object],
) -> None:
    """Append lines to a ``judgments.jsonl``, and replace some by their number (None: it goes).

    ``check`` reads the finished file before it takes the old one's place; without any line left
    there is none.
    """
    target = file.resolve()
    old = target.read_bytes().split(b"\n") if target.is_file() else []
    lines: list[bytes] = []
    for number, raw in enumerate(old, start=1):
        row = replaced.get(number)
        if number not in replaced:
            lines.append(raw)
        elif row is not None:
            lines.append(_line(row))
    if lines and not lines[-1]:
        lines.pop()  # the line end of the last line
    lines += map(_line, rows)
    if replaced and not any(line.strip() for line in lines):
        target.unlink()
        return
    with atomic_file(target) as temporary:
        temporary.write_bytes(b"".join(line + b"\n" for line in lines))
        if target.is_file():
            temporary.chmod(target.stat().st_mode & 0o777)
        check(temporary)


def _line(row: JsonRow) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode()


def is_wholly_graded(log: Path) -> bool:
    """Return whether people answered every passage of the design, of questions that count."""
    if not (log.is_file() and design_file(log).is_file()):
        return False
    answers = [line for line in _answers(read_log(log)) if line.source != SEARCH]
    out = left_out(read_marks(marks_file(log)))
    items = {item for item in read_design(design_file(log)).items if item.query_id not in out}
    is_answered = items <= {line.item for line in answers}
    return bool(items) and is_answered and any(line.status == JUDGED for line in answers)


def _answers(lines: Iterable[LoggedJudgment]) -> list[LoggedJudgment]:
    """Return what people said last of each passage; one that was skipped is not answered."""
    last = {(line.item, line.source == SEARCH): line for line in lines if not line.is_hint}
    return [line for line in last.values() if line.status != SKIPPED]


def with_graded_pool(qrels: pa.Table, log: Path, documents: pa.Table, judge: str) -> pa.Table:
    """Return labels and the grades of a log; what the labels say already is not said again.

    Args:
        qrels: table of :data:`rag_assets.schemas.QRELS`.
        log: of people's judgments; those of a text that is no longer there are left out.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        judge: the unit that the experiment judges; whole documents unless it is ``evidence``.
    """
    ends = {name: len(text) for name, text in texts_of(documents).items()}
    answers = [x for x in _answers(read_log(log)) if x.end <= ends.get(x.document_id, -1)]
    old = qrels.to_pylist()
    there = set(map(_key_of, old))
    labels = by_key((label for line in answers for label in _labels(line)), judge != "evidence")
    new = [(key, label) for key, label in labels.items() if key not in there]
    rows: list[dict[str, object]] = [
        {
            **dict(zip(("query_id", "document_id", "start", "end"), key, strict=True)),
            "evidence_id": key[1] if key[2] is None else f"{key[1]}#{key[2]}-{key[3]}",
            "grade": label.grade,
        }
        for key, label in without_covered(new, old)
    ]
    return pa.concat_tables([qrels, QRELS.from_rows(rows)]).combine_chunks()


def _labels(line: LoggedJudgment) -> Iterator[Judgment]:
    """Yield the judgments of an answer; beside evidence the whole passage counts as seen."""
    if line.grade is not None:
        for start, end in line.evidence:
            yield Judgment(line.item._replace(start=start, end=end), line.grade, line.source, 0)
        yield Judgment(line.item, 0 if line.evidence else line.grade, line.source, 0)


def not_answered(units: Iterable[PooledUnit], lines: Sequence[LoggedJudgment]) -> set[PooledUnit]:
    """Return the units that are no passage of which people said something."""
    same = SamePassages([line.item for line in _answers(lines)])
    return {unit for unit in units if not same.numbers(unit)}
