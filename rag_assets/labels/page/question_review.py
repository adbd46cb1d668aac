"""What the page asks of questions that a model wrote: one at a time, with their passage.

Decisions are marks of questions (:mod:`rag_assets.labels.question_marks`), whose file is the only
memory. A question is shown to one person at a time. The same person and time again is the same
request and writes nothing; a question that somebody else decided meanwhile is not overwritten.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa

from rag_assets.errors import UsageError
from rag_assets.labels.page.passages import WINDOW, Passages
from rag_assets.labels.page.session import HELD_SECONDS, AnsweredMeanwhile
from rag_assets.labels.pooling.pool import PooledUnit
from rag_assets.labels.question_marks import (
    QuestionMark,
    append_mark,
    mark_counts,
    mark_lines,
    marks_file,
)
from rag_assets.labels.sampling.judgment_log import lock_file
from rag_assets.store.locks import locked


class QuestionReview:
    """The questions, and what was decided of them.

    Args:
        questions: table of :data:`rag_assets.labels.generation.question_generation.QUESTIONS`, in
            the order in which they are asked.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`, those of the questions among them.
        log: of judgments; the file of marks lies beside it.
    """

    def __init__(self, questions: pa.Table, documents: pa.Table, log: Path) -> None:
        self.passages = Passages(documents, questions)
        self._rows = {str(row["query_id"]): row for row in questions.to_pylist()}
        self._file, self._lock_file, self._lock = marks_file(log), lock_file(log), Lock()
        self._held: dict[str, tuple[str, float]] = {}
        self._skipped: dict[str, int] = {}
        self._size = -1

    def next_task(self, by: str) -> dict[str, Any]:
        """Return the question that a person is to decide on, and how far everybody is."""
        with self._lock:
            self._follow()
            return self._task(by)

    def decide(self, mark: QuestionMark, n_lines: int) -> dict[str, Any]:
        """Write a decision; it is on the disk when the next task is returned.

        Args:
            mark: what is decided, by whom, and when.
            n_lines: how many lines the file had of the question when it was shown.

        Raises:
            AnsweredMeanwhile: somebody else did.
            UsageError: there is no such question.
            StoreError: the file cannot be written.
        """
        by = mark.by or ""
        with self._lock, locked(self._lock_file):
            self._follow()
            if (mark.by, mark.at) in self._handled:
                return self._task(by)
            for name in filter(None, (mark.query_id, mark.of)):
                self.passages.question(name)
            last = self._last.get(mark.query_id)
            changed = self._n_lines[mark.query_id] != n_lines
            if changed and last is not None and last.mark is not None and last.by != mark.by:
                self._held.pop(by, None)
                problem = f"{last.by} decided on this question meanwhile; here is the next one"
                raise AnsweredMeanwhile(problem)
            same = mark.text == " ".join(str(self._rows[mark.query_id]["text"]).split())
            self._write(mark._replace(text=None) if same else mark)
            self._held.pop(by, None)
            return self._task(by)

    def leave(self, query_id: str, by: str) -> dict[str, Any]:
        """Leave a question for later, and return the next one; nothing is written.

        Raises:
            UsageError: there is no such question.
        """
        self.passages.question(query_id)
        with self._lock:
            self._follow()
            self._skipped[query_id] = max(self._skipped.values(), default=0) + 1
            self._held.pop(by, None)
            return self._task(by)

    def undo(self, by: str, at: str) -> dict[str, Any]:
        """Take back what a person decided last, and show that question again.

        Raises:
            UsageError: there is nothing to take back.
            StoreError: the file cannot be written.
        """
        with self._lock, locked(self._lock_file):
            self._follow()
            if (by, at) in self._handled:
                return self._task(by)
            own = [one for one in self._lines if self._last[one.query_id] is one and one.by == by]
            past = [one for one in own if one.mark is not None]
            if not past:
                raise UsageError("there is nothing to undo")
            last = past[-1]
            self._write(QuestionMark(last.query_id, None, None, by, at))
            self._held[by] = (last.query_id, time.monotonic())
            return {**self._task(by), "undone": {"query_id": last.query_id, "mark": last.mark}}

    def counts(self) -> dict[str, int]:
        """Return mark -> how many of these questions have it."""
        with self._lock:
            self._follow()
            return self._counts()

    def _counts(self) -> dict[str, int]:
        return mark_counts({name: one for name, one in self._last.items() if one.mark is not None})

    def _follow(self) -> None:
        """Read the file where another process wrote to it."""
        size = self._file.stat().st_size if self._file.is_file() else 0
        if size == self._size:
            return
        self._lines: list[QuestionMark] = []
        self._last: dict[str, QuestionMark] = {}
        self._n_lines: Counter[str] = Counter()
        self._handled: set[tuple[str | None, str | None]] = set()
        for line in mark_lines(self._file):
            self._apply(line)
        self._size = size

    def _apply(self, line: QuestionMark) -> None:
        if line.query_id not in self._rows:
            return
        self._lines.append(line)
        self._last[line.query_id] = line
        self._n_lines[line.query_id] += 1
        self._handled.add((line.by, line.at))

    def _write(self, line: QuestionMark) -> None:
        append_mark(self._file, line)
        self._apply(line)
        self._size = self._file.stat().st_size

    def _task(self, by: str) -> dict[str, Any]:
        name, progress = self._choice(by), self._progress()
        if name is None:
            self._held.pop(by, None)
            return {"task": None, "progress": progress}
        self._held[by] = (name, time.monotonic())
        row = self._rows[name]
        item = PooledUnit(name, row["document_id"], row["start"], row["end"])
        question = str(row["text"])[:WINDOW]
        task = {
            "query_id": name,
            "question": question,
            "answer": row["answer"] and str(row["answer"])[:WINDOW],
            "mark": None,
            **self.passages.place(item),
            "text": self.passages.window(question, *item[1:]),
            "n_lines": self._n_lines[name],
        }
        return {"task": task, "progress": progress}

    def _open(self) -> list[str]:
        decided = {name for name, one in self._last.items() if one.mark is not None}
        return [name for name in self._rows if name not in decided]

    def _choice(self, by: str) -> str | None:
        """Return the question that a person has, or the next one that nobody has."""
        waiting = self._open()
        own = self._held.get(by)
        if own is not None and own[0] in waiting:
            return own[0]
        now = time.monotonic()
        others = {
            name
            for who, (name, since) in self._held.items()
            if who != by and now - since < HELD_SECONDS
        }
        free = [name for name in waiting if name not in others]
        return min(free, key=lambda name: self._skipped.get(name, 0), default=None)

    def _progress(self) -> dict[str, Any]:
        n_open = len(self._open())
        answered = {"answered": len(self._rows) - n_open, "left": n_open}
        return {**answered, "gone": 0, "questions": len(self._rows), "marks": self._counts()}
