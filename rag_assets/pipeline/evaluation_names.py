"""Finds experiments and evaluations by name, and counts the looks of gates at an evaluation.

The list of evaluated experiments says which source each name in a store belongs to. Every reader
opens an experiment by :func:`open_experiment`, so that none shows the evaluation of another one.
An evaluation is ``latest``, ``previous``, ``anchor``, or a part of an id. The anchor is pinned, and
a gate compares with it: its id, in the file ``anchor`` of the experiment's folder in the store.
What it names is never cleaned away.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rag_assets.errors import NotEvaluated, StoreError, UsageError
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.load import EXPERIMENT_FILE, load_experiment
from rag_assets.pipeline.evaluations import (
    ANCHOR,
    Evaluation,
    fetch_evaluation,
    fetch_experiments,
    pointed,
    pointer_text,
    read_current,
    read_evaluation,
    snapshot_file,
    snapshot_ids,
    source_of_current,
)
from rag_assets.pipeline.history import History
from rag_assets.pipeline.warehouse_time import is_current
from rag_assets.store.atomic import write_text
from rag_assets.store.canonical import fingerprint, read_sealed, sealed_json
from rag_assets.store.locks import locked, shared_lease
from rag_assets.store.settings import StoreSettings

_log = logging.getLogger("rag_assets")

LATEST, PREVIOUS = "latest", "previous"
NAMES = (LATEST, PREVIOUS, ANCHOR)

MAX_IDS = 5
"""So many ids are listed where a part of an id fits several, or none."""


def open_experiment(path: Path | str, settings: StoreSettings) -> Experiment:
    """Load the experiment at ``path``, whose name in the store must be its own.

    Raises:
        UsageError: another experiment, which still exists, has its name in the store.
        RagAssetsError: as for :func:`load_experiment`.
    """
    experiment = load_experiment(path)
    check_name(experiment, settings)
    return experiment


def open_to_read(path: Path | str, settings: StoreSettings) -> Experiment:
    """Load an experiment whose evaluations are shown, and bring these from a remote store.

    A warehouse that is stale or damaged is built anew. Errors are those of :func:`open_experiment`.
    """
    experiment = open_experiment(path, settings)
    fetch_experiments(settings, experiment.name)
    if settings.warehouse.exists() and not is_current(settings):
        # It reads all stages, which nothing else that is shown needs.
        from rag_assets.pipeline.warehouse import rebuild

        try:
            rebuild(settings)
        except StoreError as error:  # what is shown does not come from it
            _log.info("the warehouse is not up to date: %s", error)
    return experiment


def open_evaluations(
    path: Path | str, store: Path | str | None = None
) -> tuple[Experiment, EvaluationNames]:
    """Open an experiment and its evaluations, in the store in force; as :func:`open_to_read`."""
    settings = StoreSettings.resolve(store)
    experiment = open_to_read(path, settings)
    return experiment, EvaluationNames(settings, experiment.name)


def register(experiment: Experiment, settings: StoreSettings) -> None:
    """Add the experiment to the list; its name must be free, or its own."""
    with locked(settings.locks / "experiments.lock"):
        check_name(experiment, settings)
        listed, source = registered(settings), str(experiment.source)
        if listed.get(experiment.name) != source:
            place = {_PLACE: str(settings.registry.parent.absolute())}
            entries = {**place, **listed, experiment.name: source}
            write_text(settings.registry, json.dumps(entries, indent=1))


def check_name(experiment: Experiment, settings: StoreSettings) -> None:
    """Check that the name of an experiment is its own in a store.

    It is that of the source that is listed. Where the list lies elsewhere (it is state of one
    machine), the source of the current evaluation tells.

    Raises:
        UsageError: another experiment, which still exists, has it; says how to go on.
    """
    name, source = experiment.name, experiment.source
    other = registered(settings).get(name) or source_of_current(settings.store / name)
    if other is None or is_source(other, experiment):
        return
    try:
        Path(other).stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return
    except OSError:  # one that nobody may look at is there
        pass
    raise UsageError(
        f"the name '{name}' of {source} is taken by {other} in the store {settings.place}; give "
        "one of them another `name` in its experiment.yaml, or use another --store"
    )


def is_source(listed: str, experiment: Experiment) -> bool:
    """Return whether a listed source is this one, by another path or with its first YAML."""
    for path in (Path(listed), Path(listed) / EXPERIMENT_FILE):
        with suppress(OSError, ValueError):
            if path.samefile(experiment.source):
                return True
    return False


def registered(settings: StoreSettings) -> dict[str, str]:
    """Return name -> source of every experiment on the list; what is damaged is left out.

    If the list was moved, or copied, with the sources, as a cache is that another machine restores,
    they lie as they did, seen from it.
    """
    try:
        entries = json.loads(settings.registry.read_text(encoding="utf-8")).items()
    except (OSError, ValueError, AttributeError):
        return {}
    listed = {name: src for name, src in entries if isinstance(src, str) and "\0" not in src}
    here = settings.registry.parent.absolute()
    there = listed.pop(_PLACE, str(here))
    for name, source in listed.items() if there != str(here) else ():
        moved = Path(os.path.normpath(here / os.path.relpath(source, there)))
        listed[name] = str(moved) if moved.exists() else source
    return {name: source for name, source in listed.items() if "/" not in name}


_PLACE = "/"
"""Stands on the list for the folder in which it was written: no experiment has such a name."""


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
        evaluation_id = self._id_of(name)
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
                    f"evaluation {evaluation.evaluation_id} is incomplete, so not everything "
                    "can be compared with it; evaluate all retrievers, with --retry-failed "
                    "where a server gave no answer, then pin that evaluation"
                )
            anchor = self.root / ANCHOR
            before = pointer_text(anchor.read_bytes()) if anchor.is_file() else None

            def merged(there: bytes | None) -> str:
                pinned = pointer_text(there)
                if pinned not in (None, before, evaluation.evaluation_id):
                    raise StoreError(
                        f"{self.root.name}: another machine has just pinned {pinned} as "
                        "the anchor; to replace it, run the command again"
                    )
                return evaluation.evaluation_id

            self.settings.write_record(anchor, evaluation.evaluation_id, merged)
        return evaluation

    def history(self) -> History:
        """Return the rows of all evaluations."""
        return History(self.root, self.settings.locks)

    def anchor_id(self) -> str | None:
        """Return the id of the pinned evaluation, if there is one; a damaged file is refused."""
        return pointed(self.root / ANCHOR)

    def _id_of(self, name: str) -> str:
        stored, experiment = snapshot_ids(self.root), self.root.name
        if name == PREVIOUS:
            latest = read_current(self.root).evaluation_id
            earlier = {*self.history().ids(complete=True)}.intersection(stored)
            before = max((old_id for old_id in earlier if old_id < latest), default=None)
            if before is None:
                raise NotEvaluated(f"{experiment} has no complete evaluation before {latest}")
            return before
        if name == ANCHOR:
            pinned = self.anchor_id()
            if pinned is None:
                remedy = "`rag-assets anchor PATH` pins an evaluation"
                raise NotEvaluated(f"{experiment} has no anchor; {remedy}")
            return pinned
        fitting = [old_id for old_id in stored if old_id.startswith(name) or old_id.endswith(name)]
        if name in stored or len(fitting) == 1:
            return name if name in stored else fitting[0]
        if fitting:
            more = f", and {len(fitting) - MAX_IDS} more" if len(fitting) > MAX_IDS else ""
            candidates = ", ".join(fitting[-MAX_IDS:])
            raise UsageError(f"'{name}' fits {len(fitting)} evaluations: {candidates}{more}")
        cleaned = self.history().ids() if self.root.is_dir() else []
        if any(old_id.startswith(name) or old_id.endswith(name) for old_id in cleaned):
            raise UsageError(
                f"the snapshot of evaluation '{name}' was cleaned away; `rag-assets "
                "history` still has its means, but its queries can no longer be compared"
            )
        newest = ", ".join(stored[-MAX_IDS:]) or "none"
        allowed = f"{', '.join(NAMES)}, or the beginning or end of an id; newest: {newest}"
        raise UsageError(f"{experiment} has no evaluation '{name}'; allowed: {allowed}")


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


def state_of(evaluation: Evaluation, assets: tuple[str, ...], values: Collection[str]) -> str:
    """Return the digest of what a look sees of an evaluation.

    Args:
        evaluation: the state.
        assets: ends of the names of assets that are looked at; those that hold questions and labels
            belong to every look.
        values: of their partitions.
    """
    digests = [
        [str(entry.key), entry.digest]
        for entry in evaluation.entries
        if entry.asset in _SHARED
        or (entry.asset.endswith(assets) and set(values).issuperset(entry.partition.values()))
    ]
    return fingerprint(sorted(digests))


class GateLooks:
    """The looks of gates at one evaluation: which states were tested against it."""

    def __init__(self, settings: StoreSettings, root: Path, against: str) -> None:
        """Open those at the evaluation ``against`` of the experiment in folder ``root``."""
        self._settings, self._root, self._against = settings, root, against
        self._file = root / LOOKS / f"{against}.json"

    def number(self, subject: Subject, state: str) -> tuple[int, bool]:
        """Return which look at the subject this state is, from 1 on, and whether it is new."""
        stored = self._read(self._file.read_bytes()) if self._file.exists() else []
        looks = [look["state"] for look in stored if look["subject"] == subject.name]
        states = list(dict.fromkeys([*looks, state]))
        return states.index(state) + 1, state not in looks

    def add(self, subject: Subject, state: str) -> None:
        """Keep that a state was looked at."""
        look = {
            "subject": subject.name,
            "metric": subject.metric,
            "state": state,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }

        def merged(there: bytes | None) -> str:
            return sealed_json({"looks": [*(self._read(there) if there else []), look]})

        lock = self._settings.locks / f"{LOOKS}-{self._root.name}.lock"
        with shared_lease(self._settings, f"a gate of {self._root.name}"), locked(lock):
            here = self._file.read_bytes() if self._file.exists() else None
            self._settings.write_record(self._file, merged(here), merged)

    def _read(self, content: bytes) -> list[Row]:
        try:
            return list(read_sealed(content)["looks"])
        except ValueError as error:
            raise StoreError(
                f"{self._file}: is damaged ({error}); set a new anchor, or delete it: then the "
                f"looks at {self._against} are counted from 1 again"
            ) from error
