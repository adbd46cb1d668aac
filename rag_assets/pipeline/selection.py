"""Which cells an evaluation is about: all, or some retrievers and cut-offs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag_assets.errors import UsageError, allowed_names
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.stages import STAGES
from rag_assets.pipeline.stages.attributions import cutoffs_read
from rag_assets.pipeline.stages.runs import run_key
from rag_assets.store.artifacts import ArtifactKey


@dataclass(frozen=True)
class Selection:
    """Retrievers and cut-offs, both in the order of the experiment."""

    retrievers: tuple[str, ...]
    top_k: tuple[int, ...]

    @classmethod
    def of(
        cls, experiment: Experiment, retrievers: Sequence[str] = (), top_k: Sequence[int] = ()
    ) -> Selection:
        """Narrow an experiment; nothing given means all.

        Raises:
            UsageError: a name or a cut-off is not the experiment's.
        """
        for name in retrievers:
            if name not in experiment.retrievers:
                found = allowed_names(name, experiment.retrievers)
                raise UsageError(f"unknown retriever {found}")
        for k in top_k:
            if k not in experiment.top_k:
                allowed = ", ".join(map(str, experiment.top_k))
                raise UsageError(
                    f"top_k {k} is not in {experiment.name}; allowed: {allowed} "
                    f"(others: list them under `top_k` in experiment.yaml)"
                )
        return cls(
            tuple(r for r in experiment.retrievers if not retrievers or r in retrievers),
            tuple(k for k in experiment.top_k if not top_k or k in top_k),
        )

    def _ends(self, experiment: Experiment) -> list[ArtifactKey]:
        """Return what nothing else needs: the metrics, or without labels the runs themselves.

        Attributions too, where the selection has the cut-offs that they read: one cell that was
        asked for alone must not cost another.
        """
        cells = [(retriever, k) for retriever in self.retrievers for k in self.top_k]
        alike = [
            key
            for key in STAGES["list_similarities"].keys(experiment)
            if (key["retriever"], int(key["top_k"])) in cells
        ]
        if not experiment.has_qrels:
            runs = [run_key(experiment, retriever, k) for retriever, k in cells]
            pairs = STAGES["overlaps"].keys(experiment)
            return runs + alike + [key for key in pairs if int(key["top_k"]) in self.top_k]
        ends = [ArtifactKey.of("leaderboard"), ArtifactKey.of("answerability"), *alike]
        ends += STAGES["comparisons"].keys(experiment)
        for asset in ("metrics_summary", "intervals"):
            ends += [ArtifactKey.of(asset, retriever=r) for r in self.retrievers]
        if set(cutoffs_read(experiment)) <= set(self.top_k):
            attributed = STAGES["attributions"].keys(experiment)
            ends += [key for key in attributed if key["retriever"] in self.retrievers]
        return ends + [ArtifactKey.of("metrics", retriever=r, top_k=k) for r, k in cells]

    def keys(self, experiment: Experiment) -> dict[str, list[ArtifactKey]]:
        """Return, by asset in graph order, the partitions that the selected cells need."""
        needed: set[ArtifactKey] = set()
        ends = self._ends(experiment)
        while ends:
            key = ends.pop()
            if key in needed:
                continue
            needed.add(key)
            inputs = STAGES[key.asset].inputs(experiment, key)
            ends += [item.key for item in inputs if not item.optional]
        chosen = {name: stage.keys(experiment) for name, stage in STAGES.items()}
        return {
            name: [key for key in keys if key in needed]
            for name, keys in chosen.items()
            if any(key in needed for key in keys)
        }
