"""Which evaluations are of one system that answers at random.

What determines what a retriever finds, or an answerer says, as far as it is known, is its system:
configuration, versions of code and packages, corpus and questions. What came out at random, such
as the reply of a language model, is no part of it, nor is when ``revision: always`` asked.
Two evaluations of a system are two draws where something was computed or asked anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_assets.errors import StoreError, UsageError
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.pipeline.evaluations import Evaluation, manifest_of
from rag_assets.retrieval.external.base import ALWAYS
from rag_assets.store.artifacts import ArtifactKey, Manifest
from rag_assets.store.canonical import fingerprint

_SOURCES = frozenset({"documents", "queries", "qrels"})
"""Assets that are read, not computed: what they hold is a part of the system."""

_REVISION = "search_revision"

_SAME = ("queries_digest", "qrels_digest")
"""Columns of the history that draws share: on other questions, values are not comparable."""


@dataclass(frozen=True)
class Draw:
    """One evaluation of one system.

    Attributes:
        evaluation_id: whose.
        system: digest of what determines it.
        run: digest of what came out.
        made: digest of every step on the way; equal where nothing was computed anew.
    """

    evaluation_id: str
    system: str
    run: str
    made: str


@dataclass(frozen=True)
class SystemDraws:
    """The evaluations of a random system and of the one that was the anchor, the oldest first.

    They may be the same system: then the anchor's are those up to the anchor.
    """

    new: Sequence[str]
    anchor: Sequence[str]


def system_draws(
    root: Path,
    names: EvaluationNames,
    new: Evaluation,
    anchor: Evaluation,
    keys: Mapping[str, ArtifactKey],
) -> dict[str, SystemDraws]:
    """Return name -> its draws, of what answers at random.

    Args:
        root: the experiment's folder in the store.
        names: finds evaluations.
        new: the evaluation that is looked at.
        anchor: the one that it is compared with.
        keys: name -> its run, or its answers.

    Raises:
        StoreError: an artifact is damaged.
    """
    found: dict[str, dict[str, Draw]] = {name: {} for name in keys}
    for evaluation in [anchor, *_alike(names, new, anchor), new]:
        reading = _Reading(root, evaluation)
        for name, key in keys.items():
            draw = reading.draw(key)
            if draw is not None:
                found[name].setdefault(evaluation.evaluation_id, draw)
    ends = new.evaluation_id, anchor.evaluation_id
    drawn = {name: _drawn(draws, *ends) for name, draws in found.items()}
    return {name: draws for name, draws in drawn.items() if draws is not None}


def _alike(names: EvaluationNames, new: Evaluation, anchor: Evaluation) -> Iterator[Evaluation]:
    """Yield the other complete evaluations of either configuration on the same questions."""
    rows = names.history().evaluations()
    by_id = {row["evaluation_id"]: row for row in rows}
    ends = [by_id[one.evaluation_id] for one in (anchor, new) if one.evaluation_id in by_id]
    if len(ends) < 2 or any(ends[0][name] != ends[1][name] for name in _SAME):
        return
    configurations = {row["experiment_digest"] for row in ends}
    for row in rows:
        is_alike = row["experiment_digest"] in configurations and row["complete"]
        is_before = row["evaluation_id"] < new.evaluation_id
        if row in ends or not (is_alike and is_before):
            continue
        if all(row[name] == ends[0][name] for name in _SAME):
            try:
                yield names.find(row["evaluation_id"])
            except (UsageError, StoreError):
                continue  # its snapshot was cleaned away


def _drawn(draws: Mapping[str, Draw], new: str, anchor: str) -> SystemDraws | None:
    """Return the draws of two evaluations; None where nothing came out at random."""
    if new not in draws or anchor not in draws:
        return None
    chosen: dict[str, Draw] = {}
    for name in sorted(draws):
        if draws[name].system in (draws[new].system, draws[anchor].system):
            chosen.setdefault(draws[name].made, draws[name])
    of_new = [one for one in chosen.values() if one.system == draws[new].system]
    if len({one.run for one in of_new}) < 2:
        return None
    old = [one.evaluation_id for one in chosen.values() if one.system == draws[anchor].system]
    if draws[new].system == draws[anchor].system:
        of_new = [one for one in of_new if one.evaluation_id > anchor]
        old = [name for name in old if name <= anchor]
    return SystemDraws([one.evaluation_id for one in of_new], old) if of_new else None


class _Reading:
    """What an evaluation's artifacts were made from."""

    def __init__(self, root: Path, evaluation: Evaluation) -> None:
        self._evaluation_id = evaluation.evaluation_id
        self._entries = {str(entry.key): entry for entry in evaluation.entries}
        self._manifests: dict[str, Manifest] = {}
        self._made: dict[str, str] = {}
        self._always: set[str] = set()
        options = evaluation.origin.configuration.get("retrievers", {})
        for entry in [*evaluation.rankings, *evaluation.entries]:
            manifest = manifest_of(root, evaluation, entry)
            if manifest is not None and entry.asset not in _SOURCES:
                self._manifests[entry.fingerprint] = manifest
                self._made |= dict.fromkeys(manifest.digests.values(), entry.fingerprint)
                if options.get(entry.partition.get("retriever"), {}).get("revision") == ALWAYS:
                    self._always.add(entry.fingerprint)

    def draw(self, key: ArtifactKey) -> Draw | None:
        """Return one artifact as a draw of its system; None: it is not there."""
        entry = self._entries.get(str(key))
        if entry is None or entry.fingerprint not in self._manifests:
            return None
        steps: dict[str, str] = {}
        system = self._system(entry.fingerprint, (), steps)
        return Draw(self._evaluation_id, system, entry.digest, fingerprint(steps))

    def _system(self, name: str, below: tuple[str, ...], steps: dict[str, str]) -> str:
        """Return the digest of what determines the artifact of a fingerprint.

        Args:
            name: the fingerprint.
            below: those on the way to it, which it cannot be made from, whatever equals what.
            steps: fingerprint -> digest of everything on the way; is added to.
        """
        manifest = self._manifests[name]
        steps[name] = manifest.digests["all"]
        config = dict(manifest.config)
        if name in self._always:
            config.pop(_REVISION, None)
        path = (*below, name)
        inputs = {}
        for role, digest in manifest.inputs.items():
            made = self._made.get(digest)
            is_made = made is not None and made not in path
            inputs[role] = self._system(str(made), path, steps) if is_made else digest
        return fingerprint(
            [manifest.asset, manifest.code_version, config, inputs, dict(manifest.versions)]
        )
