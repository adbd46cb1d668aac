"""Drift of answers: whether an answerer writes as long, and refuses as often, as in the anchor.

No label is needed to see either. Both are told by the population stability index, as best scores
are (:mod:`rag_assets.statistics.score_drift`). A changed model or prompt is not taken out: an
answer's length means the same under any.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from rag_assets.answers.normalisation import Language, words
from rag_assets.answers.refusals import is_refusal
from rag_assets.answers.stage import answers_key
from rag_assets.checks.check import NO_ANCHOR, Check, Found, Reads, State
from rag_assets.labels.health.findings import Finding
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.statistics.resampling import Floats
from rag_assets.statistics.score_drift import FEWEST, Stability, stability
from rag_assets.store.artifacts import Artifact, ArtifactKey

NAME = "drift"


@dataclass(frozen=True)
class AnswerDrift:
    """The answers of an answerer before and now.

    Attributes:
        old: words of each answer of the anchor that did not fail; NaN: refused.
        new: the same now.
        limit: the largest population stability index that is no drift.
    """

    old: Floats
    new: Floats
    limit: float

    @property
    def refused(self) -> tuple[float, float]:
        """The share of refusals before, and now."""
        return float(np.isnan(self.old).mean()), float(np.isnan(self.new).mean())

    @cached_property
    def abstention(self) -> Stability:
        """Answered or refused, over the same bins."""
        return stability(*(np.where(np.isnan(one), np.nan, 0.0) for one in (self.old, self.new)))

    @cached_property
    def length(self) -> Stability | None:
        """The lengths of what does not refuse; None: too few on one side."""
        old, new = (one[~np.isnan(one)] for one in (self.old, self.new))
        return stability(old, new) if min(old.size, new.size) >= FEWEST else None

    @property
    def sentences(self) -> list[str]:
        """A sentence for each way in which the answers drifted; none: they did not."""
        problems = []
        if self._is_above(self.abstention):
            before, now = self.refused
            problems.append(
                f"{now:.0%} of the answers refuse (in the anchor {before:.0%}): "
                f"{self._index(self.abstention)}"
            )
        if self.length is not None and self._is_above(self.length):
            before, now = (float(np.nanmedian(one)) for one in (self.old, self.new))
            problems.append(
                f"answers have {now:g} words in the median (in the anchor {before:g}): "
                f"{self._index(self.length)}"
            )
        return problems

    def _is_above(self, index: Stability) -> bool:
        return index.psi > max(self.limit, index.chance)

    def _index(self, index: Stability) -> str:
        return f"PSI {index.psi:.2f}, above {max(self.limit, index.chance):.2f}"


def answer_drift(
    pipeline: Pipeline, key: ArtifactKey, old: State | str, new: State
) -> AnswerDrift | str:
    """Compare the answers of a partition with those of an anchor.

    Args:
        pipeline: of the experiment.
        key: of the answers.
        old: the anchor; or why there is none.
        new: what is compared with it.

    Returns:
        The two distributions; or why they are not compared, as a phrase.
    """
    if isinstance(old, str):
        return old
    experiment = pipeline.experiment
    before, after = (_lengths(one, key, experiment.answer_metrics.language) for one in (old, new))
    if before is None or after is None:
        return f"the anchor has no answers of {key['answerer']} that can be read"
    fewest = min(before.size, after.size)
    if fewest < FEWEST:
        return f"{fewest} answers are too few, {FEWEST} are needed"
    return AnswerDrift(before, after, experiment.checks.drift.psi)


def _lengths(state: State, key: ArtifactKey, language: Language) -> Floats | None:
    artifact = state.artifact(key)
    if artifact is None:
        return None
    try:
        table = artifact.table().select(["answer", "abstained"])
    except (OSError, pa.ArrowException):
        return None
    columns = (column.to_pylist() for column in table.columns)
    lengths = [
        np.nan if abstained or is_refusal(answer) else len(words(answer, language))
        for answer, abstained in zip(*columns, strict=True)
        if answer is not None
    ]
    return np.array(lengths, dtype=np.float64)


def _found(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found | None:
    if reads.anchor == NO_ANCHOR:
        return None
    drift = answer_drift(reads.pipeline, key, reads.anchor, reads.now)
    if isinstance(drift, str):
        return Found([], not_checked=drift)
    before, now = drift.refused
    numbers = {"psi_of_refusals": drift.abstention.psi, "refused": now, "refused_in_anchor": before}
    if drift.length is not None:
        numbers["psi_of_length"] = drift.length.psi
    severity = reads.pipeline.experiment.checks.drift.severity
    return Found(drift.sentences, severity, numbers)


ANSWER_DRIFT = Check(
    NAME,
    "Answers are as long, and refuse as often, as in the anchor. No result: no anchor is pinned "
    "(`rag-assets anchor PATH`).",
    _found,
)


def answer_drift_findings(pipeline: Pipeline, old: State, new: State) -> Iterator[Finding | str]:
    """Yield what drifted of the answerers of an evaluation; of one not compared, the reason."""
    for name in pipeline.experiment.answer_cells:
        drift = answer_drift(pipeline, answers_key(name), old, new)
        if isinstance(drift, str):
            yield f"drift of {name}: {drift}"
            continue
        for sentence in drift.sentences:
            severity = pipeline.experiment.checks.drift.severity
            yield Finding(severity, NAME, f"{name}: {sentence}")
