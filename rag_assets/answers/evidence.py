"""Which text holds which evidence, by the rule of the judgments of retrieval.

A text satisfies an evidence of its document when it holds at least half of its characters, or when
at least half of the text lies inside it; an evidence without a span is the whole document. Rows of
a question that share an evidence id are alternatives: one is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passage:
    """Characters ``[start, end)`` of a document's text."""

    document_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """One place that answers a question; without start and end it is the whole document."""

    evidence_id: str
    document_id: str
    start: int | None = None
    end: int | None = None

    def is_in(self, passage: Passage) -> bool:
        """Return whether a passage satisfies it."""
        if self.document_id != passage.document_id:
            return False
        if self.start is None or self.end is None:
            return True
        shared = min(passage.end, self.end) - max(passage.start, self.start)
        shorter = min(passage.end - passage.start, self.end - self.start)
        return shared > 0 and 2 * shared >= shorter


def evidence_ids_in(evidence: Iterable[Evidence], passages: Sequence[Passage]) -> set[str]:
    """Return the ids of the evidences that any of some passages satisfies."""
    return {one.evidence_id for one in evidence if any(one.is_in(passage) for passage in passages)}
