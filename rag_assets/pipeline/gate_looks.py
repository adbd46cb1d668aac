"""The looks of gates at one anchor: which later states were compared with it, and what came out.

``looks/<evaluation id>.json`` in the experiment's folder holds those of one evaluation that others
were compared with. A look is one distinct state: it is known by the digests of what was compared,
so who evaluates the same again looks at nothing new, and gets the same answer. The file has a
checksum: an answer that was edited would let a gate pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rag_assets.errors import StoreError
from rag_assets.pipeline.evaluations import Evaluation
from rag_assets.pipeline.remote_sync import LOOKS
from rag_assets.store.canonical import canonical_json, fingerprint, read_sealed, sealed_json
from rag_assets.store.locks import locked, working
from rag_assets.store.remote.mirror import write_shared

Row = dict[str, Any]

_SHARED = ("queries", "qrels", "query_facts", "answer_labels")
"""Assets whose content is a part of every look: questions, labels, and what of them counts."""


@dataclass(frozen=True)
class Subject:
    """What is looked at: one metric of some retrievers of a state.

    Attributes:
        metric: with its cut-off, as text.
        split: whose queries count.
        pairs: retriever, and with which it is compared.
    """

    metric: str
    split: str
    pairs: Sequence[tuple[str, str]]

    @property
    def name(self) -> str:
        """What looks at the same subject share."""
        return fingerprint([self.metric, self.split, sorted(map(list, self.pairs))])


def state_of(evaluation: Evaluation, assets: Mapping[str, frozenset[str]]) -> str:
    """Return the digest of what a look sees of an evaluation.

    Args:
        evaluation: the state.
        assets: asset -> the values of partitions that are looked at; those that hold questions and
            labels belong to every look.
    """
    digests = []
    for entry in evaluation.entries:
        chosen = assets.get(entry.asset)
        if entry.asset in _SHARED or (chosen and chosen.issuperset(entry.partition.values())):
            digests.append([str(entry.key), entry.digest])
    return fingerprint(sorted(digests))


class GateLooks:
    """The looks at one evaluation."""

    def __init__(self, root: Path, locks: Path, against: str) -> None:
        """Open those at the evaluation ``against`` of the experiment in folder ``root``."""
        self._root = root
        self._lock = locks / f"{LOOKS}-{root.name}.lock"
        self._against = against
        self._file = root / LOOKS / f"{against}.json"

    def number(self, subject: Subject, state: str) -> int:
        """Return which look at the subject this state is, or would be; the first is 1."""
        states = self._states(subject)
        return states.index(state) + 1 if state in states else len(states) + 1

    def _states(self, subject: Subject) -> list[str]:
        looks = [look for look in self._looks() if look["subject"] == subject.name]
        return list(dict.fromkeys(look["state"] for look in looks))

    def answer(self, subject: Subject, state: str, rules: Mapping[str, Any]) -> list[Row] | None:
        """Return what a look at this state came to by these rules; None: there was none."""
        for look in self._looks():
            if (look["subject"], look["state"]) == (subject.name, state) and canonical_json(
                look["rules"]
            ) == canonical_json(dict(rules)):
                return list(look["checks"])
        return None

    def add(
        self, subject: Subject, state: str, rules: Mapping[str, Any], checks: Sequence[Row]
    ) -> None:
        """Keep a look and its answer.

        Raises:
            StoreError: the store cannot be written.
        """
        look = {
            "subject": subject.name,
            "metric": subject.metric,
            "state": state,
            "rules": dict(rules),
            "checks": list(checks),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }

        def merged(there: bytes | None) -> str:
            return _text([*(self._read(there) if there else []), look])

        with working(self._root.parent, f"a gate of {self._root.name}"), locked(self._lock):
            write_shared(self._file, _text([*self._looks(), look]), merged)

    def _looks(self) -> list[Row]:
        try:
            return self._read(self._file.read_bytes())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"cannot read {self._file}: {error.strerror or error}") from error

    def _read(self, content: bytes) -> list[Row]:
        try:
            return list(read_sealed(content)["looks"])
        except ValueError as error:
            raise StoreError(
                f"{self._file}: is damaged ({error}); set a new anchor, or delete it: then the "
                f"looks at {self._against} are counted from 1 again"
            ) from error


def _text(looks: Sequence[Row]) -> str:
    return sealed_json({"looks": looks})
