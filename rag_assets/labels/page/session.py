"""What the labelling page asks and is told: the next item for each person, and the log.

The log is the only memory, and other processes may write to it. An item is shown to one person at a
time. What a request writes carries the time at which the key was pressed; the same person and time
again is the same request, sent again because no answer came, and writes nothing. What somebody else
answered meanwhile is refused, so that no answer is lost or counted twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from msgspec.structs import replace

from rag_assets.errors import UsageError
from rag_assets.evaluation.metric_names import Metric
from rag_assets.labels.logs import (
    JUDGED,
    SEARCH,
    SKIPPED,
    LoggedJudgment,
    QuestionMark,
    append_lines,
    left_out,
    lock_file,
    marks_file,
    read_judgments,
    read_marks,
)
from rag_assets.labels.page import requests
from rag_assets.labels.page.passages import Passages
from rag_assets.labels.pool import Flags, Judgment, LabelPool, PooledUnit
from rag_assets.labels.sampling.design import Design
from rag_assets.labels.sampling.label_sample import LabelSample, label_sample
from rag_assets.labels.sampling.standing import ITEMS, PRICE, QUESTIONS, sample_status
from rag_assets.store.locks import locked

HELD_SECONDS = 1800.0
"""After so long without an answer an item is shown to somebody else."""

Reply: TypeAlias = dict[str, Any]

Actions: TypeAlias = dict[str, tuple[type[requests.EmptyBody], Callable[[Any], Any]]]
"""Name of a request -> its body, and what answers it."""


class AnsweredMeanwhile(UsageError):
    """Somebody else answered while it was read."""


class LabelSession:
    """The state of one server; items are known by their numbers.

    Args:
        log: the file of judgments; marks of questions lie beside it.
        passages: the texts.
        metric: by which it is told how things stand.
        earlier: labels of the dataset.
        clusters: one name a question; None: each is its own.
        level: of what is told.
    """

    def __init__(
        self,
        pool: LabelPool,
        design: Design,
        log: Path,
        passages: Passages,
        metric: Metric,
        earlier: Iterable[Judgment] = (),
        *,
        clusters: Sequence[str] | None = None,
        level: float = 0.95,
    ) -> None:
        self.pool, self.design, self.log, self.passages = pool, design, log, passages
        self.earlier, self._metric = tuple(earlier), metric
        self._clusters, self._level = clusters, level
        self._marks_file, self._lock = marks_file(log), Lock()
        self._held: dict[str, tuple[int, float]] = {}
        self._undone: set[tuple[str | None, str | None]] = set()
        self._size = -1
        self._order = design.order()
        self._number = {item: number for number, item in enumerate(pool.items)}
        self._gone = np.array([not passages.holds(item) for item in pool.items], np.bool_)
        self._gone |= ~pool.counted
        with self._following():
            pass

    def actions(self, user: str) -> Actions:
        """Return what the page may ask for; ``user`` is who labels, unless it says another name."""
        start = {"by": user, "metric": str(self._metric)}
        return {
            "start": (requests.EmptyBody, lambda _: start),
            "next": (requests.NextBody, lambda body: self.next_task(body.by)),
            "answer": (requests.AnswerBody, self.answer),
            "undo": (requests.UndoBody, lambda body: self.undo(body.by, body.at)),
            "mark": (requests.MarkBody, lambda body: self.mark(body.question_mark())),
            "text": (requests.TextBody, lambda body: self.passages.marked_text(body.item)),
            "standing": (requests.EmptyBody, lambda _: self.standing()),
        }

    def next_task(self, by: str) -> Reply:
        """Return what a person is to read, and how far everybody is."""
        with self._following():
            return self._task(by)

    def answer(self, answer: requests.AnswerBody) -> Reply:
        """Write an answer; it is on the disk when the next task is returned.

        Raises:
            AnsweredMeanwhile: somebody else did.
            UsageError: the item was not asked, or the evidence does not lie in it.
            StoreError: the log cannot be written.
        """
        item, by = answer.item, answer.by
        grade = answer.grade if answer.status == JUDGED else None
        if answer.status == JUDGED and grade is None:
            raise UsageError("a judgment has a grade")

        def write() -> None:
            number = self._number.get(item)
            if number is None:
                raise UsageError("this passage is not in the sample")
            if not all(item.start <= start < end <= item.end for start, end in answer.ranges):
                raise UsageError("evidence must be inside the passage")
            last = self._last.get(item)
            changed = self._n_lines[item] != answer.n_lines
            self._held.pop(by, None)
            if changed and self._done[number] and last is not None and last.by != by:
                problem = f"{last.by} answered this passage meanwhile; here is the next one"
                raise AnsweredMeanwhile(problem)
            self._write(
                LoggedJudgment(
                    *(*item, grade, answer.status, self._probability(number)),
                    *(by, answer.at, round(answer.seconds, 1)),
                    evidence=answer.ranges if grade is not None else (),
                )
            )

        return self._once(by, answer.at, write)

    def undo(self, by: str, at: str) -> Reply:
        """Take back what a person did last, and show that item again.

        Raises:
            UsageError: there is nothing to take back.
            StoreError: the log cannot be written.
        """

        def write() -> Reply:
            past = self._past.get(by, [])
            if not past:
                raise UsageError("there is nothing to undo")
            last = self._last[past[-1]]
            if last.status != SKIPPED and last.by == by:
                back = {"grade": None, "status": SKIPPED, "seconds": None, "evidence": ()}
                self._write(replace(last, at=at, **back))
            else:
                past.pop()
            self._undone.add((by, at))
            self._handled.add((by, at))
            number = self._number.get(last.item)
            if number is not None and last.was_drawn:
                self._held[by] = (number, time.monotonic())
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
        with self._following():
            lines = list(self._lines)
        return label_sample(self.pool, self.design, lines, self.earlier), lines

    def standing(self) -> Reply:
        """Return what the labels so far say of the retrievers."""
        sample, lines = self.sample()
        now = sample_status(sample, self._metric, lines, self._clusters, self._level)
        return {
            **now._asdict(),
            "metric": str(self._metric),
            "level": self._level,
            "n_labels": int((sample.judged | (sample.certain & sample.pool.counted)).sum()),
            "targets": {"items": ITEMS, "questions": QUESTIONS},
            "price": PRICE,
        }

    @contextmanager
    def _following(self) -> Iterator[None]:
        """Hold the state, with all that other processes wrote."""
        with self._lock:
            self._follow()
            yield

    def _once(self, by: str, at: str, write: Callable[[], Reply | None]) -> Reply:
        """Do what a person asked for at a time, unless it was done; return the next task.

        What ``write`` returns stands beside the task. The log is locked meanwhile.
        """
        with self._lock, locked(lock_file(self.log)):
            self._follow()
            more = None if (by, at) in self._handled else write()
            return {**self._task(by), **(more or {})}

    def _follow(self) -> None:
        size = self.log.stat().st_size if self.log.is_file() else 0
        if size == self._size:
            return
        n, lines = len(self.pool.items), read_judgments(self.log)
        self._lines: list[LoggedJudgment] = []
        self._last: dict[PooledUnit, LoggedJudgment] = {}
        self._n_lines: Counter[PooledUnit] = Counter()
        self._handled = set(self._undone)
        self._past: dict[str | None, list[PooledUnit]] = {}
        self._touched, self._done = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        self._certain = label_sample(self.pool, self.design, lines, self.earlier).certain
        self._marks = read_marks(self._marks_file)
        for line in lines:
            self._apply(line)
        self._size = size

    def _apply(self, line: LoggedJudgment) -> None:
        self._lines.append(line)
        if line.is_hint or line.source == SEARCH:
            return
        item = line.item
        before = self._last.get(item)
        self._last[item] = line
        self._n_lines[item] += 1
        self._handled.add((line.by, line.at))
        past = self._past.setdefault(line.by, [])
        was_answered = before is not None and before.status != SKIPPED
        is_taken_back = item in past and was_answered and line.status == SKIPPED
        if item in past:
            past.remove(item)
        if not is_taken_back:
            past.append(item)
        number = self._number.get(item)
        if line.was_drawn and number is not None:
            self._touched[number] = True
            self._done[number] = line.status != SKIPPED

    def _write(self, line: LoggedJudgment) -> None:
        append_lines(self.log, [line])
        self._apply(line)
        self._size = self.log.stat().st_size

    def _probability(self, number: int) -> float:
        """Return the probability of an item to be asked by now, it being the last one asked."""
        touched = self._touched & ~self._certain
        touched[number] = True
        return float(self.design.drawn_probabilities(touched)[number])

    def _task(self, by: str) -> Reply:
        number = self._choice(by)
        if number is None:
            self._held.pop(by, None)
            return {"task": None, "progress": self._progress()}
        self._held[by] = (number, time.monotonic())
        return {"task": self._shown(number), "progress": self._progress()}

    def _shown(self, number: int) -> Reply:
        item = self.pool.items[number]
        last = self._last.get(item)
        mark = self._marks.get(item.query_id)
        return {
            **self.passages.task(item),
            "mark": mark.mark if mark is not None else None,
            "n_lines": self._n_lines[item],
            "skipped_by": last.by if last is not None and last.status == SKIPPED else None,
        }

    def _choice(self, by: str) -> int | None:
        free = self._waiting()
        now = time.monotonic()
        if by in self._held and free[self._held[by][0]]:
            return self._held[by][0]
        free[[n for n, since in self._held.values() if now - since < HELD_SECONDS]] = False
        waiting = self._order[free[self._order]]
        fresh = waiting[~self._touched[waiting]]
        if len(fresh):
            return int(fresh[0])
        skips = {line.item: turn for turn, line in enumerate(self._lines) if line.was_drawn}
        items = self.pool.items
        return min(
            waiting.tolist(),
            key=lambda n: (self._last[items[n]].by == by, skips[items[n]]),
            default=None,
        )

    def _waiting(self) -> Flags:
        """Return which items are to be asked: not those of questions that people leave out."""
        out = set(left_out(self._marks))
        is_left_out = np.array([item.query_id in out for item in self.pool.items], np.bool_)
        return np.asarray(~(self._done | self._certain | self._gone | is_left_out))

    def _progress(self) -> Reply:
        return {
            "answered": int((self._done & ~self._certain).sum()),
            "left": int(self._waiting().sum()),
            "gone": int(self._gone.sum()),
            "questions": len(self.pool.question_ids),
        }
