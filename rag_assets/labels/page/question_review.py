"""What the page asks of questions that a model wrote: one at a time, with their passage.

Decisions are marks of questions (:mod:`rag_assets.labels.question_marks`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from rag_assets.errors import UsageError
from rag_assets.labels.page.followed_log import AnsweredMeanwhile, FollowedLog
from rag_assets.labels.page.passages import WINDOW, Passages
from rag_assets.labels.pooling.pool import PLACE, PooledUnit
from rag_assets.labels.question_marks import QuestionMark, mark_counts, marks_file
from rag_assets.labels.sampling.judgment_log import lock_file


class QuestionReview(FollowedLog[QuestionMark, str]):
    """The questions, known by their ids, and what was decided of them.

    Args:
        questions: table of :data:`rag_assets.labels.generation.question_generation.QUESTIONS`, in
            the order in which they are asked.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`, those of the questions among them.
        log: of judgments; the file of marks lies beside it.
    """

    def __init__(self, questions: pa.Table, documents: pa.Table, log: Path) -> None:
        super().__init__(marks_file(log), QuestionMark, lock_file(log))
        self.passages = Passages(documents, questions)
        self._rows = {str(row["query_id"]): row for row in questions.to_pylist()}
        self._skipped: dict[str, int] = {}

    def decide(self, mark: QuestionMark, n_lines: int) -> dict[str, Any]:
        """Write a decision; it is on the disk when the next task is returned.

        The file had ``n_lines`` of the question when it was shown.

        Raises:
            AnsweredMeanwhile: somebody else did.
            UsageError: there is no such question.
            StoreError: the file cannot be written.
        """
        by = mark.by or ""
        with self._writing():
            if (mark.by, mark.at) in self._handled:
                return self._task(by)
            for query_id in filter(None, (mark.query_id, mark.of)):
                self.passages.question(query_id)
            last = self._last.get(mark.query_id)
            changed = self._n_lines[mark.query_id] != n_lines
            self._held.pop(by, None)
            if changed and last is not None and last.mark is not None and last.by != mark.by:
                problem = f"{last.by} decided on this question meanwhile; here is the next one"
                raise AnsweredMeanwhile(problem)
            is_same = mark.text == " ".join(str(self._rows[mark.query_id]["text"]).split())
            self._write(replace(mark, text=None) if is_same else mark)
            return self._task(by)

    def leave(self, query_id: str, by: str) -> dict[str, Any]:
        """Leave a question for later, and return the next one; nothing is written.

        Raises:
            UsageError: there is no such question.
        """
        self.passages.question(query_id)
        with self._following():
            self._skipped[query_id] = max(self._skipped.values(), default=0) + 1
            self._held.pop(by, None)
            return self._task(by)

    def undo(self, by: str, at: str) -> dict[str, Any]:
        """Take back what a person decided last, and show that question again.

        Raises:
            UsageError: there is nothing to take back.
            StoreError: the file cannot be written.
        """
        with self._writing():
            if (by, at) in self._handled:
                return self._task(by)
            past = [line for line in self._lines if self._last[line.query_id] is line]
            last = next((one for one in reversed(past) if one.by == by and one.mark), None)
            if last is None:
                raise UsageError("there is nothing to undo")
            self._write(QuestionMark(last.query_id, None, None, by, at))
            self._hold(by, last.query_id)
            return {**self._task(by), "undone": {"query_id": last.query_id, "mark": last.mark}}

    def counts(self) -> dict[str, int]:
        """Return mark -> how many of these questions have it."""
        with self._following():
            return mark_counts(self._decided())

    def _decided(self) -> dict[str, QuestionMark]:
        return {str(name): line for name, line in self._last.items() if line.mark is not None}

    def _apply(self, line: QuestionMark) -> None:
        if line.query_id in self._rows:
            self._lines.append(line)
            self._count(line.query_id, line, line.by, line.at)

    def _shown(self, thing: str) -> dict[str, Any]:
        row = self._rows[thing]
        return {
            **self.passages.task(PooledUnit(*(row[name] for name in PLACE))),
            "answer": row["answer"] and str(row["answer"])[:WINDOW],
            "mark": None,
            "n_lines": self._n_lines[thing],
        }

    def _choice(self, by: str) -> str | None:
        decided = self._decided()
        waiting = [name for name in self._rows if name not in decided]
        own = self._held_by(by)
        if own in waiting:
            return own
        others = self._held_by_others(by)
        free = [name for name in waiting if name not in others]
        return min(free, key=lambda name: self._skipped.get(name, 0), default=None)

    def _progress(self) -> dict[str, Any]:
        decided, n = self._decided(), len(self._rows)
        counts = {"answered": len(decided), "left": n - len(decided), "gone": 0, "questions": n}
        return {**counts, "marks": mark_counts(decided)}
