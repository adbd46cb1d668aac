"""What the labelling page asks and is told: the next item for each person, and the log.

An item is shown to one person at a time. What a request writes carries the time at which the key
was pressed; the same person and time again is the same request, sent again because no answer came,
and writes nothing. An answer to an item that somebody else answered meanwhile is refused, so that
no judgment is lost or counted twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from rag_assets.errors import UsageError
from rag_assets.labels.page.passages import WINDOW, Passages
from rag_assets.labels.pooling.pool import Judgment, PooledUnit
from rag_assets.labels.question_marks import (
    QuestionMark,
    append_mark,
    left_out,
    marks_file,
    read_marks,
)
from rag_assets.labels.sampling.design import Design
from rag_assets.labels.sampling.judgment_log import (
    JUDGED,
    SEARCH,
    SKIPPED,
    LoggedJudgment,
    append_judgment,
    lock_file,
    read_judgments,
)
from rag_assets.labels.sampling.label_pool import Flags, LabelPool
from rag_assets.labels.sampling.label_sample import LabelSample, label_sample
from rag_assets.store.locks import locked

HELD_SECONDS = 1800.0
"""After so long without an answer an item is shown to somebody else."""

_Key: TypeAlias = tuple[PooledUnit, bool]
"""An item or a span, and whether it was searched for; one of them may be both."""


class AnsweredMeanwhile(UsageError):
    """Somebody else answered the item while it was read."""


class Answer(NamedTuple):
    """What a person said of an item, and when it was said.

    ``n_lines`` is how many lines the log had of the item when it was shown.
    """

    item: PooledUnit
    status: str
    grade: int | None
    evidence: tuple[tuple[int, int], ...]
    by: str
    at: str
    seconds: float
    n_lines: int = 0


class LabelSession:
    """The state of one server; the log is its only memory.

    Args:
        pool: the items.
        design: of the same items.
        log: the file of judgments; marks of questions lie beside it.
        passages: the texts.
        earlier: labels of the dataset.
    """

    def __init__(
        self,
        pool: LabelPool,
        design: Design,
        log: Path,
        passages: Passages,
        earlier: Iterable[Judgment] = (),
    ) -> None:
        self.pool, self.design, self.log, self.passages = pool, design, log, passages
        self.earlier = tuple(earlier)
        self._marks_file = marks_file(log)
        self._lock = Lock()
        self._order = design.order()
        self._number = {item: number for number, item in enumerate(pool.items)}
        self._gone = np.array([not passages.holds(item) for item in pool.items], np.bool_)
        self._gone |= ~pool.counted
        self._held: dict[str, tuple[int, float]] = {}
        self._marks: dict[str, QuestionMark] = {}
        self._undone: set[tuple[str, str]] = set()
        self._size = -1
        with self._lock:
            self._follow()

    def next_task(self, by: str) -> dict[str, Any]:
        """Return the item that a person is to read, and how far everybody is."""
        with self._lock:
            self._follow()
            return self._task(by)

    def answer(self, answer: Answer) -> dict[str, Any]:
        """Write an answer; it is on the disk when the next task is returned.

        Raises:
            AnsweredMeanwhile: somebody else did.
            UsageError: the item was not asked, or the evidence does not lie in it.
            StoreError: the log cannot be written.
        """
        with self._lock, locked(lock_file(self.log)):
            self._follow()
            if (answer.by, answer.at) in self._handled:
                return self._task(answer.by)
            number = self._number.get(answer.item)
            if number is None:
                raise UsageError("this passage is not in the sample")
            for start, end in answer.evidence:
                if not answer.item.start <= start < end <= answer.item.end:
                    raise UsageError("evidence must be inside the passage")
            last = self._last.get((answer.item, False))
            changed = self._n_lines[answer.item, False] != answer.n_lines
            if changed and self._done[number] and last is not None and last.by != answer.by:
                self._held.pop(answer.by, None)
                raise AnsweredMeanwhile(
                    f"{last.by} answered this passage meanwhile; here is the next one"
                )
            grade = answer.grade if answer.status == JUDGED else None
            self._write(
                LoggedJudgment(
                    *(answer.item, grade, answer.status, self._probability(number)),
                    *(answer.by, answer.at, round(answer.seconds, 1)),
                    evidence=answer.evidence if grade is not None else (),
                )
            )
            self._held.pop(answer.by, None)
            return self._task(answer.by)

    def label(self, answer: Answer) -> None:
        """Write a label of a span that somebody searched for; it is no part of the sample.

        Raises:
            UsageError: there is no such question or span.
            StoreError: the log cannot be written.
        """
        span = self.passages.checked(answer.item)
        with self._lock, locked(lock_file(self.log)):
            self._follow()
            if (answer.by, answer.at) in self._handled:
                return
            said = (span, answer.grade, JUDGED, None, answer.by, answer.at)
            self._write(LoggedJudgment(*said, round(answer.seconds, 1), SEARCH))

    def undo(self, by: str, at: str) -> dict[str, Any]:
        """Take back what a person did last, and show that item again.

        Raises:
            UsageError: there is nothing to take back.
            StoreError: the log cannot be written.
        """
        with self._lock, locked(lock_file(self.log)):
            self._follow()
            if (by, at) in self._handled:
                return self._task(by)
            past = self._past.get(by, [])
            if not past:
                raise UsageError("there is nothing to undo")
            last = self._last[past[-1]]
            if last.status != SKIPPED and last.by == by:
                back = last._replace(grade=None, status=SKIPPED, at=at, seconds=None, evidence=())
                self._write(back)
            else:
                past.pop()
            self._undone.add((by, at))
            self._handled.add((by, at))
            number = self._number.get(last.item)
            if number is not None and last.was_drawn:
                self._held[by] = (number, time.monotonic())
            task = self._task(by)
            was = {"status": last.status, "grade": last.grade, "evidence": last.evidence}
            return {**task, "undone": {**last.item._asdict(), **was}}

    def mark(self, mark: QuestionMark) -> None:
        """Write what somebody says of a question.

        Raises:
            UsageError: there is no such question.
            StoreError: the file cannot be written.
        """
        self.passages.question(mark.query_id)
        if mark.of is not None:
            self.passages.question(mark.of)
        with self._lock:
            if self._marks.get(mark.query_id) != mark:
                append_mark(self._marks_file, mark)
                self._marks[mark.query_id] = mark

    def sample(self) -> tuple[LabelSample, list[LoggedJudgment]]:
        """Return the pool with all labels so far, and the lines that they came from."""
        with self._lock:
            self._follow()
            lines = list(self._lines)
        return label_sample(self.pool, self.design, lines, self.earlier), lines

    def _follow(self) -> None:
        """Read the log where another process wrote to it."""
        size = self.log.stat().st_size if self.log.is_file() else 0
        if size == self._size:
            return
        lines = read_judgments(self.log) if size else []
        self._start()
        self._certain = label_sample(self.pool, self.design, lines, self.earlier).certain
        for line in lines:
            self._apply(line)
        self._size, self._marks = size, read_marks(self._marks_file)

    def _start(self) -> None:
        n = len(self.pool.items)
        self._lines: list[LoggedJudgment] = []
        self._last: dict[_Key, LoggedJudgment] = {}
        self._n_lines: Counter[_Key] = Counter()
        self._handled: set[tuple[str | None, str | None]] = set(self._undone)
        self._past: dict[str | None, list[_Key]] = {}
        self._touched, self._done = np.zeros(n, np.bool_), np.zeros(n, np.bool_)

    def _apply(self, line: LoggedJudgment) -> None:
        key = (line.item, line.source == SEARCH)
        self._lines.append(line)
        if line.is_hint:
            return
        self._last[key] = line
        self._n_lines[key] += 1
        self._handled.add((line.by, line.at))
        past = self._past.setdefault(line.by, [])
        is_taken_back = key in past and line.status == SKIPPED
        if key in past:
            past.remove(key)
        if not is_taken_back:
            past.append(key)
        number = self._number.get(line.item)
        if line.was_drawn and number is not None:
            self._touched[number] = True
            self._done[number] = line.status != SKIPPED

    def _write(self, line: LoggedJudgment) -> None:
        append_judgment(self.log, line)
        self._apply(line)
        self._size = self.log.stat().st_size

    def _probability(self, number: int) -> float:
        """Return the probability of an item to be asked by now, it being the last one asked."""
        touched = self._touched & ~self._certain
        touched[number] = True
        return float(self.design.drawn_probabilities(touched)[number])

    def _task(self, by: str) -> dict[str, Any]:
        number = self._choice(by)
        progress = self._progress()
        if number is None:
            self._held.pop(by, None)
            return {"task": None, "progress": progress}
        self._held[by] = (number, time.monotonic())
        item = self.pool.items[number]
        last = self._last.get((item, False))
        mark = self._marks.get(item.query_id)
        question = self.passages.question(item.query_id)[:WINDOW]
        task = {
            "query_id": item.query_id,
            "question": question,
            "mark": mark.mark if mark is not None else None,
            **self.passages.place(item),
            "text": self.passages.window(question, *item[1:]),
            "n_lines": self._n_lines[item, False],
            "skipped_by": last.by if last is not None and last.status == SKIPPED else None,
        }
        return {"task": task, "progress": progress}

    def _choice(self, by: str) -> int | None:
        """Return the item that a person has, or the next one that nobody has."""
        free = ~(self._done | self._certain | self._gone | self._is_left_out())
        own = self._held.get(by)
        if own is not None and free[own[0]]:
            return own[0]
        now = time.monotonic()
        for name, (number, since) in self._held.items():
            if name != by and now - since < HELD_SECONDS:
                free[number] = False
        waiting = self._order[free[self._order]]
        fresh = waiting[~self._touched[waiting]]
        if len(fresh):
            return int(fresh[0])
        skips = {line.item: turn for turn, line in enumerate(self._lines) if line.was_drawn}
        items = self.pool.items
        return min(
            waiting.tolist(),
            key=lambda n: (self._last[items[n], False].by == by, skips[items[n]]),
            default=None,
        )

    def _is_left_out(self) -> Flags:
        """Return which items are of a question that people leave out."""
        out = set(left_out(self._marks))
        return np.array([item.query_id in out for item in self.pool.items], np.bool_)

    def _progress(self) -> dict[str, Any]:
        return {
            "answered": int((self._done & ~self._certain).sum()),
            "left": int((~(self._done | self._certain | self._gone | self._is_left_out())).sum()),
            "gone": int(self._gone.sum()),
            "questions": len(self.pool.question_ids),
        }
