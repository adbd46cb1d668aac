"""What the labelling page asks and is told: the next item for each person, and the log."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from rag_assets.errors import UsageError
from rag_assets.labels.append_log import append_lines
from rag_assets.labels.page.followed_log import AnsweredMeanwhile, FollowedLog
from rag_assets.labels.page.passages import Passages
from rag_assets.labels.page.requests import AnswerBody, SpanBody
from rag_assets.labels.pooling.pool import Judgment
from rag_assets.labels.question_marks import QuestionMark, left_out, marks_file, read_marks
from rag_assets.labels.sampling.design import Design
from rag_assets.labels.sampling.judgment_log import (
    JUDGED,
    SEARCH,
    SKIPPED,
    LoggedJudgment,
    lock_file,
)
from rag_assets.labels.sampling.label_pool import Flags, LabelPool
from rag_assets.labels.sampling.label_sample import LabelSample, label_sample


class LabelSession(FollowedLog[LoggedJudgment, int]):
    """The state of one server; items are known by their numbers.

    Args:
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
        super().__init__(log, LoggedJudgment, lock_file(log))
        self.pool, self.design, self.log, self.passages = pool, design, log, passages
        self.earlier = tuple(earlier)
        self._marks_file = marks_file(log)
        self._order = design.order()
        self._number = {item: number for number, item in enumerate(pool.items)}
        self._gone = np.array([not passages.holds(item) for item in pool.items], np.bool_)
        self._gone |= ~pool.counted
        with self._following():
            pass

    def answer(self, answer: AnswerBody) -> dict[str, Any]:
        """Write an answer; it is on the disk when the next task is returned.

        Raises:
            AnsweredMeanwhile: somebody else did.
            UsageError: the item was not asked, or the evidence does not lie in it.
            StoreError: the log cannot be written.
        """
        item, by, grade = answer.item, answer.by, _grade(answer, answer.status == JUDGED)
        with self._writing():
            if (by, answer.at) in self._handled:
                return self._task(by)
            number = self._number.get(item)
            if number is None:
                raise UsageError("this passage is not in the sample")
            if not all(item.start <= start < end <= item.end for start, end in answer.ranges):
                raise UsageError("evidence must be inside the passage")
            last = self._last.get((item, False))
            changed = self._n_lines[item, False] != answer.n_lines
            self._held.pop(by, None)
            if changed and self._done[number] and last is not None and last.by != by:
                raise AnsweredMeanwhile(
                    f"{last.by} answered this passage meanwhile; here is the next one"
                )
            self._write(
                LoggedJudgment(
                    *(*item, grade, answer.status, self._probability(number)),
                    *(by, answer.at, round(answer.seconds, 1)),
                    evidence=answer.ranges if grade is not None else (),
                )
            )
            return self._task(by)

    def label(self, answer: SpanBody) -> None:
        """Write a label of a span that somebody searched for; it is no part of the sample.

        Raises:
            UsageError: there is no such question or span.
            StoreError: the log cannot be written.
        """
        span, grade = self.passages.checked(answer.item), _grade(answer, needed=True)
        with self._writing():
            if (answer.by, answer.at) not in self._handled:
                who = (answer.by, answer.at, round(answer.seconds, 1))
                self._write(LoggedJudgment(*span, grade, JUDGED, None, *who, SEARCH))

    def undo(self, by: str, at: str) -> dict[str, Any]:
        """Take back what a person did last, and show that item again.

        Raises:
            UsageError: there is nothing to take back.
            StoreError: the log cannot be written.
        """
        with self._writing():
            if (by, at) in self._handled:
                return self._task(by)
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
                self._hold(by, number)
            was = {"status": last.status, "grade": last.grade, "evidence": last.evidence}
            return {**self._task(by), "undone": {**last.item._asdict(), **was}}

    def mark(self, mark: QuestionMark) -> None:
        """Write what somebody says of a question.

        Raises:
            UsageError: there is no such question.
            StoreError: the file cannot be written.
        """
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

    def _restart(self, lines: list[LoggedJudgment]) -> None:
        n = len(self.pool.items)
        self._past: dict[str | None, list[tuple[object, bool]]] = {}
        self._touched, self._done = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        self._certain = label_sample(self.pool, self.design, lines, self.earlier).certain
        self._marks = read_marks(self._marks_file)

    def _apply(self, line: LoggedJudgment) -> None:
        self._lines.append(line)
        if line.is_hint:
            return
        key = (line.item, line.source == SEARCH)
        before = self._last.get(key)
        self._count(key, line, line.by, line.at)
        past = self._past.setdefault(line.by, [])
        was_answered = before is not None and before.status != SKIPPED
        is_taken_back = key in past and was_answered and line.status == SKIPPED
        if key in past:
            past.remove(key)
        if not is_taken_back:
            past.append(key)
        number = self._number.get(line.item)
        if line.was_drawn and number is not None:
            self._touched[number] = True
            self._done[number] = line.status != SKIPPED

    def _probability(self, number: int) -> float:
        """Return the probability of an item to be asked by now, it being the last one asked."""
        touched = self._touched & ~self._certain
        touched[number] = True
        return float(self.design.drawn_probabilities(touched)[number])

    def _shown(self, thing: int) -> dict[str, Any]:
        item = self.pool.items[thing]
        last = self._last.get((item, False))
        mark = self._marks.get(item.query_id)
        return {
            **self.passages.task(item),
            "mark": mark.mark if mark is not None else None,
            "n_lines": self._n_lines[item, False],
            "skipped_by": last.by if last is not None and last.status == SKIPPED else None,
        }

    def _choice(self, by: str) -> int | None:
        free = self._waiting()
        own = self._held_by(by)
        if own is not None and free[own]:
            return own
        free[list(self._held_by_others(by))] = False
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

    def _waiting(self) -> Flags:
        """Return which items are to be asked: not those of questions that people leave out."""
        out = set(left_out(self._marks))
        is_left_out = np.array([item.query_id in out for item in self.pool.items], np.bool_)
        return np.asarray(~(self._done | self._certain | self._gone | is_left_out))

    def _progress(self) -> dict[str, Any]:
        return {
            "answered": int((self._done & ~self._certain).sum()),
            "left": int(self._waiting().sum()),
            "gone": int(self._gone.sum()),
            "questions": len(self.pool.question_ids),
        }


def _grade(answer: SpanBody, needed: bool) -> int | None:
    if needed and answer.grade is None:
        raise UsageError("a judgment has a grade")
    return answer.grade if needed else None
