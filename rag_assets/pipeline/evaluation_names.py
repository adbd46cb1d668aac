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
    ANCHOR,
    Evaluation,
    fetch_evaluation,
    pointed,
    pointer_text,
    read_current,
    read_evaluation,
    snapshot_file,
    snapshot_ids,
)
from rag_assets.pipeline.history import History
from rag_assets.store.canonical import canonical_json, fingerprint, read_sealed, sealed_json
from rag_assets.store.locks import locked, shared_lease
from rag_assets.store.settings import StoreSettings

LATEST, PREVIOUS = "latest", "previous"
NAMES = (LATEST, PREVIOUS, ANCHOR)

MAX_IDS = 5
"""So many ids are listed where a part of an id fits several, or none."""


class EvaluationNames:
    """The evaluations of one experiment, by name."""

    def __init__(self, settings: StoreSettings, experiment: str) -> None:
        """Look into the experiment's folder in the store."""
        self.settings = settings
        self.root = settings.store / experiment

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
            return read_current(self.root)
        evaluation_id = {PREVIOUS: self._previous, ANCHOR: self._anchor}.get(
            name, lambda: self._by_part(name)
        )()
        file = snapshot_file(self.root, evaluation_id)
        if not file.is_file():
            raise StoreError(f"{file}: the snapshot is gone")
        fetch_evaluation(self.settings, self.root.name, evaluation_id)
        return read_evaluation(file)

    def pin(self, name: str) -> Evaluation:
        """Make a complete evaluation the anchor and return it.

        Raises:
            UsageError: it is not complete; else as for :meth:`find`.
            StoreError: the store cannot be written, or another machine has pinned one meanwhile.
        """
        with shared_lease(self.settings, f"the anchor of {self.root.name}"):
            evaluation = self.find(name)
            if not evaluation.complete:
                raise UsageError(
                    f"evaluation {evaluation.evaluation_id} is not complete, so nothing can be "
                    "compared with all of it; evaluate all retrievers and pin that"
                )
            anchor = self.root / ANCHOR
            before = pointer_text(anchor.read_bytes()) if anchor.is_file() else None

            def merged(there: bytes | None) -> str:
                pinned = pointer_text(there)
                if pinned not in (None, before, evaluation.evaluation_id):
                    raise StoreError(
                        f"{self.root.name}: another machine has just made {pinned} the anchor; to "
                        "replace it, run the command again"
                    )
                return evaluation.evaluation_id

            self.settings.write_record(anchor, evaluation.evaluation_id, merged)
        return evaluation

    def looks(self, evaluation_id: str) -> GateLooks:
        """Return the looks of gates at an evaluation."""
        return GateLooks(self.settings, self.root, evaluation_id)

    def history(self) -> History:
        """Return the rows of all evaluations."""
        return History(self.root, self.settings.locks)

    def anchor_id(self) -> str | None:
        """Return the id of the pinned evaluation, if there is one."""
        return anchor_id(self.root)

    def _previous(self) -> str:
        latest = read_current(self.root).evaluation_id
        stored = set(snapshot_ids(self.root))
        complete = self.history().ids(complete=True)
        earlier = [name for name in complete if name < latest and name in stored]
        if not earlier:
            raise NotEvaluated(f"{self.root.name} has no complete evaluation before {latest}")
        return earlier[-1]

    def _anchor(self) -> str:
        pinned = self.anchor_id()
        if pinned is None:
            raise NotEvaluated(
                f"{self.root.name} has no anchor; `rag-assets anchor PATH` pins an evaluation"
            )
        return pinned

    def _by_part(self, part: str) -> str:
        stored = snapshot_ids(self.root)
        fitting = [name for name in stored if name.startswith(part) or name.endswith(part)]
        if part in stored or len(fitting) == 1:
            return part if part in stored else fitting[0]
        if fitting:
            more = f", and {len(fitting) - MAX_IDS} more" if len(fitting) > MAX_IDS else ""
            candidates = ", ".join(fitting[-MAX_IDS:])
            raise UsageError(f"'{part}' fits {len(fitting)} evaluations: {candidates}{more}")
        cleaned = self.history().ids() if self.root.is_dir() else []
        if any(name.startswith(part) or name.endswith(part) for name in cleaned):
            raise UsageError(
                f"the snapshot of evaluation '{part}' was cleaned away; its means are in "
                "`rag-assets history`, but its queries cannot be compared any more"
            )
        newest = ", ".join(stored[-MAX_IDS:]) or "none"
        allowed = f"{', '.join(NAMES)}, or the beginning or end of an id; newest: {newest}"
        raise UsageError(f"{self.root.name} has no evaluation '{part}'; allowed: {allowed}")


def anchor_id(root: Path) -> str | None:
    """Return the id of the evaluation that is pinned in an experiment's folder, if one is.

    Raises:
        StoreError: the file ``anchor`` is damaged.
    """
    return pointed(root / ANCHOR)


Row = dict[str, Any]

LOOKS = "looks"

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
    """The looks of gates at one evaluation."""

    def __init__(self, settings: StoreSettings, root: Path, against: str) -> None:
        """Open those at the evaluation ``against`` of the experiment in folder ``root``."""
        self._settings, self._root, self._against = settings, root, against
        self._file = root / LOOKS / f"{against}.json"

    def number(self, subject: Subject, state: str) -> int:
        """Return which look at the subject this state is, or would be; the first is 1."""
        looks = [look["state"] for look in self._looks() if look["subject"] == subject.name]
        states = list(dict.fromkeys(looks))
        return states.index(state) + 1 if state in states else len(states) + 1

    def answer(self, subject: Subject, state: str, rules: Mapping[str, Any]) -> list[Row] | None:
        """Return what a look at this state came to by these rules; None: there was none."""
        wanted = canonical_json([subject.name, state, dict(rules)])
        for look in self._looks():
            if canonical_json([look["subject"], look["state"], look["rules"]]) == wanted:
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
            return sealed_json({"looks": [*(self._read(there) if there else []), look]})

        lock = self._settings.locks / f"{LOOKS}-{self._root.name}.lock"
        with shared_lease(self._settings, f"a gate of {self._root.name}"), locked(lock):
            text = sealed_json({"looks": [*self._looks(), look]})
            self._settings.write_record(self._file, text, merged)

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
