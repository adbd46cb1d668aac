"""Finds evaluations by name: ``latest``, ``previous``, ``anchor``, or a part of an id.

The anchor is a pinned evaluation that a gate compares with: its id, in the file ``anchor`` of the
experiment's folder in the store. What it names is never cleaned away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rag_assets.errors import NotEvaluated, StoreError, UsageError
from rag_assets.pipeline.evaluations import (
    FOLDER,
    Evaluation,
    pointed,
    read_current,
    read_evaluation,
)
from rag_assets.pipeline.history import History
from rag_assets.pipeline.remote_sync import LOOKS, fetch_evaluation, fetch_records, pointer_text
from rag_assets.store.atomic import TEMPORARY_MARK
from rag_assets.store.canonical import canonical_json, fingerprint, read_sealed, sealed_json
from rag_assets.store.locks import locked, shared_lease
from rag_assets.store.remote.mirror import write_shared

LATEST, PREVIOUS, ANCHOR = "latest", "previous", "anchor"
NAMES = (LATEST, PREVIOUS, ANCHOR)

SHOWN = 5
"""So many ids are listed where a part of an id fits several, or none."""


class EvaluationNames:
    """The evaluations of one experiment, by name."""

    def __init__(self, root: Path, locks: Path) -> None:
        """Look into the experiment's folder ``root`` in the store."""
        self._root = root
        self._locks = locks

    def find(self, name: str) -> Evaluation:
        """Return the evaluation that a name means.

        Args:
            name: one of :data:`NAMES`, or the beginning or the end of one id.

        Raises:
            NotEvaluated: there is no such evaluation yet.
            UsageError: the part of an id fits none, or several; or its snapshot is gone.
            StoreError: the snapshot cannot be read.
        """
        if name == LATEST:
            return read_current(self._root)
        fetch_records(self._root)
        if name == PREVIOUS:
            return self._previous()
        if name == ANCHOR:
            return self._anchor()
        return self._read(self._by_part(name))

    def pin(self, name: str) -> Evaluation:
        """Make a complete evaluation the anchor and return it.

        Raises:
            UsageError: it is not complete; else as for :meth:`find`.
            StoreError: the store cannot be written, or another machine has pinned one meanwhile.
        """
        with shared_lease(self._root.parent, f"the anchor of {self._root.name}"):
            evaluation = self.find(name)
            if not evaluation.complete:
                raise UsageError(
                    f"evaluation {evaluation.evaluation_id} is not complete, so nothing can be "
                    "compared with all of it; evaluate all retrievers and pin that"
                )
            anchor = self._root / ANCHOR
            known = pointer_text(anchor.read_bytes()) if anchor.is_file() else None

            def merged(there: bytes | None) -> str:
                pinned = pointer_text(there)
                if pinned not in (None, known, evaluation.evaluation_id):
                    raise StoreError(
                        f"{self._root.name}: another machine has just made {pinned} the anchor; to "
                        "replace it, run the command again"
                    )
                return evaluation.evaluation_id

            write_shared(anchor, evaluation.evaluation_id, merged)
        return evaluation

    def looks(self, evaluation_id: str) -> GateLooks:
        """Return the looks of gates at an evaluation."""
        return GateLooks(self._root, self._locks, evaluation_id)

    def history(self) -> History:
        """Return the rows of all evaluations."""
        return History(self._root, self._locks)

    def anchor_id(self) -> str | None:
        """Return the id of the pinned evaluation, if there is one."""
        return anchor_id(self._root)

    def _previous(self) -> Evaluation:
        latest = read_current(self._root).evaluation_id
        there = set(snapshot_ids(self._root))
        complete = History(self._root, self._locks).ids(complete=True)
        earlier = [name for name in complete if name < latest and name in there]
        if not earlier:
            raise NotEvaluated(f"{self._root.name} has no complete evaluation before {latest}")
        return self._read(earlier[-1])

    def _anchor(self) -> Evaluation:
        pinned = self.anchor_id()
        if pinned is None:
            raise NotEvaluated(
                f"{self._root.name} has no anchor; `rag-assets anchor PATH` pins an evaluation"
            )
        return self._read(pinned)

    def _by_part(self, part: str) -> str:
        known = snapshot_ids(self._root)
        fitting = [one for one in known if one.startswith(part) or one.endswith(part)]
        if part in known or len(fitting) == 1:
            return part if part in known else fitting[0]
        if fitting:
            more = f", and {len(fitting) - SHOWN} more" if len(fitting) > SHOWN else ""
            candidates = ", ".join(fitting[-SHOWN:])
            raise UsageError(f"'{part}' fits {len(fitting)} evaluations: {candidates}{more}")
        if any(part in (one[: len(part)], one[-len(part) :]) for one in self._cleaned()):
            raise UsageError(
                f"the snapshot of evaluation '{part}' was cleaned away; its means are in "
                "`rag-assets history`, but its queries cannot be compared any more"
            )
        newest = ", ".join(known[-SHOWN:]) or "none"
        allowed = f"{', '.join(NAMES)}, or the beginning or end of an id; newest: {newest}"
        raise UsageError(f"{self._root.name} has no evaluation '{part}'; allowed: {allowed}")

    def _cleaned(self) -> list[str]:
        return History(self._root, self._locks).ids() if self._root.is_dir() else []

    def _read(self, evaluation_id: str) -> Evaluation:
        file = self._root / FOLDER / f"{evaluation_id}.json"
        if not file.is_file():
            raise StoreError(f"{file}: the snapshot is gone")
        fetch_evaluation(self._root, evaluation_id)
        return read_evaluation(file)


def snapshot_ids(root: Path) -> list[str]:
    """Return the ids of all evaluations whose snapshot is there, the oldest first."""
    files = (root / FOLDER).glob("*.json")
    return sorted(file.stem for file in files if TEMPORARY_MARK not in file.name)


def anchor_id(root: Path) -> str | None:
    """Return the id of the evaluation that is pinned in an experiment's folder, if one is.

    Raises:
        StoreError: the file ``anchor`` is damaged.
    """
    return pointed(root / ANCHOR)


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

        with shared_lease(self._root.parent, f"a gate of {self._root.name}"), locked(self._lock):
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
