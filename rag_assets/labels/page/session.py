"""What the labelling page asks and is told: the next item, and what goes into the log.

The log is the only memory, and other processes may write to it. What a request writes carries the
time at which the key was pressed; the same person and time again is the same request, sent again
because no answer came, and writes nothing. People label one after the other: of two answers to one
item the last one counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from rag_assets.errors import UsageError
from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.units import text_digest
from rag_assets.labels.logs import (
    PERSON,
    SKIPPED,
    LoggedJudgment,
    LogLine,
    Name,
    QuestionMark,
    append_lines,
    left_out,
    lock_file,
    marks_file,
    read_marks,
)
from rag_assets.labels.pool import Flags, PooledUnit
from rag_assets.labels.sampling.label_sample import LabelSample, SampledPool
from rag_assets.labels.sampling.sample_stage import (
    ITEMS,
    PRICE,
    QUESTIONS,
    part_notes,
    sample_status,
)
from rag_assets.schemas import column_values
from rag_assets.sources.fields import Position, Text, shown
from rag_assets.store.locks import locked

WINDOW = 20_000
"""Characters of a text that are sent at once; a browser is slow with a line of a million."""

_HEADING = re.compile(r"^ {0,3}#{1,6} +(.{1,200})", re.MULTILINE)


class Passages:
    """The documents and questions of an experiment, to be read piece by piece."""

    def __init__(self, documents: pa.Table, queries: pa.Table) -> None:
        self._titles, self._texts = documents.column("title"), documents.column("text")
        self._ids = documents.column("document_id").to_pylist()
        self._rows = {name: row for row, name in enumerate(self._ids)}
        self._lengths = pc.utf8_length(self._texts).to_pylist()
        self._questions: dict[str, str] = dict(column_values(queries, "query_id", "text"))

    def question(self, query_id: str) -> str:
        """Return the text of a question.

        Raises:
            UsageError: there is none with this id.
        """
        if query_id not in self._questions:
            raise UsageError(f"there is no question {shown(query_id)}")
        return self._questions[query_id]

    def holds(self, item: PooledUnit) -> bool:
        """Return whether the question and a part of the span are still there."""
        length = self._lengths[self._rows[item.document_id]] if item[1] in self._rows else 0
        return item.query_id in self._questions and item.start < min(item.end, length)

    def digest(self, item: PooledUnit) -> str:
        """Return what stands in the log for the text of an item that is there."""
        text = self._texts[self._rows[item.document_id]].as_py()
        return text_digest(text[item.start : item.end])

    def task(self, item: PooledUnit) -> dict[str, Any]:
        """Return a question, its passage, and where that stands, as a page shows them."""
        row = self._rows[item.document_id]
        text = self._texts[row].as_py()
        headings = _HEADING.findall(text[max(0, item.start - WINDOW) : item.start])
        return {
            "query_id": item.query_id,
            "question": self.question(item.query_id)[:WINDOW],
            "document_id": item.document_id,
            "title": self._titles[row].as_py()[:1000],
            "heading": headings[-1] if headings else "",
            "line": text.count("\n", 0, item.start) + 1,
            "length": len(text),
            "start": item.start,
            "end": item.end,
            "text": self.text(*item[1:]),
        }

    def text(self, document_id: str, start: int, end: int) -> dict[str, Any]:
        """Return at most :data:`WINDOW` characters of a span.

        Raises:
            UsageError: there is no such document.
        """
        if document_id not in self._rows:
            raise UsageError(f"there is no document {shown(document_id)}")
        text = self._texts[self._rows[document_id]].as_py()[start : min(end, start + WINDOW)]
        return {"start": start, "end": start + len(text), "text": text}


class EmptyBody(LogLine, frozen=True, forbid_unknown_fields=True):
    """A request that says nothing; answers and marks are sent as the lines of their logs."""


class UndoBody(LogLine, frozen=True, forbid_unknown_fields=True):
    """Whose last judgment is taken back, and when the key was pressed."""

    by: Text
    at: Text


class TextBody(LogLine, frozen=True, forbid_unknown_fields=True):
    """Which part of a document is wanted."""

    document_id: Name
    start: Position
    end: Position


Reply: TypeAlias = dict[str, Any]

Actions: TypeAlias = dict[str, tuple[type[LogLine], Callable[[Any], Any]]]
"""Name of a request -> its body, and what answers it."""


class LabelSession:
    """The state of one server; items are known by their numbers.

    Args:
        sampled: what is asked.
        passages: the texts.
        metric: by which it is told how things stand.
        level: of what is told.
    """

    def __init__(
        self, sampled: SampledPool, passages: Passages, metric: Metric, level: float = 0.95
    ) -> None:
        self.sampled, self.passages = sampled, passages
        self.pool, self.design, self.log = sampled[:3]
        self._metric, self._level = metric, level
        self._marks_file, self._lock = marks_file(self.log), Lock()
        self._undone: set[tuple[str | None, str | None]] = set()
        """By whom and when: skipped items that are shown again, and requests that asked for it."""
        self._again: PooledUnit | None = None
        self._size = -1
        self._order = self.design.order().tolist()
        self._number = {item: number for number, item in enumerate(self.pool.items)}
        self._gone = np.array([not passages.holds(item) for item in self.pool.items], np.bool_)
        self._gone |= ~self.pool.counted
        self._follow()

    def actions(self, user: str) -> Actions:
        """Return what the page may ask for; ``user`` is who labels, unless it says another name."""
        start = {"by": user, "metric": str(self._metric)}
        return {
            "start": (EmptyBody, lambda _: start),
            "next": (EmptyBody, lambda _: self.next_task()),
            "answer": (LoggedJudgment, self.answer),
            "undo": (UndoBody, lambda body: self.undo(body.by, body.at)),
            "mark": (QuestionMark, self.mark),
            "text": (TextBody, lambda body: self.passages.text(*msgspec.structs.astuple(body))),
            "standing": (EmptyBody, lambda _: self.standing()),
        }

    def next_task(self) -> Reply:
        """Return what is to be read, and how far people are."""
        with self._lock:
            self._follow()
            return self._task()

    def answer(self, line: LoggedJudgment) -> Reply:
        """Write an answer; it is on the disk when the next task is returned.

        Raises:
            UsageError: the item was not asked.
            StoreError: the log cannot be written.
        """

        def write() -> None:
            number = self._number.get(line.item)
            if number is None or not self.passages.holds(line.item):
                raise UsageError("this passage is not in the sample")
            seconds = round(line.seconds, 1) if line.seconds is not None else None
            touched = self._sample.touched & ~self._sample.certain
            touched[number] = True  # it is the last one asked
            chance = float(self.design.drawn_probabilities(touched)[number])
            read = replace(line, source=PERSON, digest=self.passages.digest(line.item))
            self._write(replace(read, probability=chance, seconds=seconds))

        return self._once(line.by, line.at, write)

    def undo(self, by: str, at: str) -> Reply:
        """Take back what a person did last, and show that item again.

        Raises:
            UsageError: there is nothing to take back.
            StoreError: the log cannot be written.
        """

        def write() -> Reply:
            past = self._past(by)
            if not past:
                raise UsageError("there is nothing to undo")
            last = past[-1]
            if last.status == SKIPPED or self._last[last.item] != last:
                self._undone |= {(by, last.at), (by, at)}
            else:
                back = {"grade": None, "status": SKIPPED, "seconds": None, "evidence": ()}
                self._write(replace(last, at=at, **back))
            self._again = last.item
            was = {"status": last.status, "grade": last.grade, "evidence": last.evidence}
            return {"undone": {**last.item._asdict(), **was}}

        return self._once(by, at, write)

    def mark(self, mark: QuestionMark) -> None:
        """Write what somebody says of a question."""
        for query_id in filter(None, (mark.query_id, mark.of)):
            self.passages.question(query_id)
        with self._lock:
            if self._marks.get(mark.query_id) != mark:
                append_lines(self._marks_file, [mark])
                self._marks[mark.query_id] = mark

    def sample(self) -> tuple[LabelSample, list[LoggedJudgment]]:
        """Return the pool with all labels so far, and the lines that they came from."""
        with self._lock:
            self._follow()
            return self._sample, self._lines

    def standing(self) -> Reply:
        """Return what the labels so far say of the retrievers."""
        sample, lines = self.sample()
        now = sample_status(sample, self._metric, lines, self.sampled.clusters, self._level)
        return {
            **now,
            "metric": str(self._metric),
            "level": self._level,
            "n_labels": int((sample.judged | (sample.certain & sample.pool.counted)).sum()),
            "targets": {"items": ITEMS, "questions": QUESTIONS},
            "price": "; ".join([*part_notes(self.pool, lines), PRICE]),
        }

    def _once(self, by: str | None, at: str | None, write: Callable[[], Reply | None]) -> Reply:
        """Do what a person asked for at a time, unless it was done; return the next task.

        What ``write`` returns stands beside the task. The log is locked meanwhile.

        Raises:
            UsageError: it is not said who asks, or when.
        """
        if not by or not at:
            raise UsageError("a request must name its user and time")
        with self._lock, locked(lock_file(self.log)):
            self._follow()
            is_written = any((line.by, line.at) == (by, at) for line in self._lines)
            more = None if is_written or (by, at) in self._undone else write()
            return {**self._task(), **(more or {})}

    def _follow(self) -> None:
        """Read the log again where somebody, also another process, wrote to it."""
        size = self.log.stat().st_size if self.log.is_file() else 0
        if size == self._size:
            return
        self._lines = self.sampled.lines()
        self._last = {line.item: line for line in self._lines if not line.is_hint}
        self._sample = self.sampled.sample(self._lines)
        self._marks = read_marks(self._marks_file)
        self._size = size

    def _write(self, line: LoggedJudgment) -> None:
        append_lines(self.log, [line])
        self._again = None
        self._follow()

    def _past(self, by: str) -> list[LoggedJudgment]:
        """Return what a person said and did not take back, in the order of the items' last lines.

        An answer is taken back by a line that skips its item.
        """
        past: dict[PooledUnit, LoggedJudgment] = {}
        for line in self._lines:
            if line.by == by and line.was_drawn and (by, line.at) not in self._undone:
                before = past.pop(line.item, None)
                if before is None or before.status == SKIPPED or line.status != SKIPPED:
                    past[line.item] = line
        return list(past.values())

    def _task(self) -> Reply:
        waiting = self._waiting()
        item = self._next_item(waiting)
        sample = self._sample
        progress = {
            "answered": int((sample.done & ~sample.certain).sum()),
            "left": int(waiting.sum()),
            "gone": int(self._gone.sum()),
            "questions": len(self.pool.question_ids),
        }
        if item is None:
            return {"task": None, "progress": progress}
        mark = self._marks.get(item.query_id)
        task = {**self.passages.task(item), "mark": mark.mark if mark is not None else None}
        return {"task": task, "progress": progress}

    def _next_item(self, waiting: Flags) -> PooledUnit | None:
        """Return what was taken back, or the first item of the order, those that were skipped last.

        Of several that were skipped, the one that was skipped first.
        """
        again = self._number.get(self._again) if self._again is not None else None
        if again is not None and waiting[again]:
            return self._again
        turns = {line.item: turn for turn, line in enumerate(self._lines) if line.was_drawn}
        items = (self.pool.items[number] for number in self._order if waiting[number])
        return min(items, key=lambda item: turns.get(item, -1), default=None)

    def _waiting(self) -> Flags:
        """Return which items are to be asked: not those of questions that people leave out."""
        out = set(left_out(self._marks))
        is_left_out = np.array([item.query_id in out for item in self.pool.items], np.bool_)
        return np.asarray(~(self._sample.done | self._gone | is_left_out))
