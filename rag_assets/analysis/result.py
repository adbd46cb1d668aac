"""An evaluation, opened for reading: its tables, and one split of it as all faces show it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from rag_assets.answers.answerers import GOLD
from rag_assets.errors import NotEvaluated, StoreError, UsageError, allowed_names
from rag_assets.evaluation.leaderboard import splits_of
from rag_assets.evaluation.metric_names import Metric, metric_columns, parse_metric
from rag_assets.evaluation.metrics_stage import LEADERBOARD_KEY, PERTURBED
from rag_assets.evaluation.query_facts import (
    ALL,
    answerable_queries,
    declared_unanswerable,
    facts_table,
)
from rag_assets.pipeline.evaluations import Evaluation, read_current
from rag_assets.pipeline.stored_evaluation import StoredEvaluation
from rag_assets.schemas import ANSWER_COMPARISONS, ANSWER_LABELS, ANSWER_SUMMARY
from rag_assets.statistics.comparisons import is_significant
from rag_assets.statistics.stage import COMPARISONS_KEY
from rag_assets.store.artifacts import OBJECTS, ArtifactKey

Row = dict[str, Any]


def grouped(rows: Iterable[Row], *names: str) -> dict[Any, list[Row]]:
    """Return the values of the named columns -> the rows that have them."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(itemgetter(*names)(row), []).append(row)
    return groups


SAMPLED = "sampled_"
"""Before the name of a metric: what a sample of labels estimates of it."""

LEADING = ("retriever", "split", "top_k", "position")
"""The columns of a row of the leaderboard that stand before its metrics."""


class EvaluationResult(StoredEvaluation):
    """An evaluation and its tables; what is of one split is of :attr:`split`."""

    def __init__(self, root: Path, evaluation: Evaluation, split: str | None = None) -> None:
        """Open ``evaluation`` of the experiment in folder ``root`` of the store.

        Args:
            root: the folder.
            evaluation: what to open.
            split: whose numbers are shown; None: test where there is one, else all.

        Raises:
            StoreError: it is from before 0.1.0, whose tables are not read.
        """
        if not all(entry.path.startswith(f"{OBJECTS}/") for entry in evaluation.entries):
            name = evaluation.experiment
            problem = f"evaluation {evaluation.evaluation_id} of {name} is from before 0.1.0"
            raise StoreError(f"{problem}: only its history is read; evaluate {name} again")
        super().__init__(root, evaluation)
        self.wanted_split = split

    @classmethod
    def current(cls, root: Path, split: str | None = None) -> Self:
        """Open the current evaluation of the experiment in folder ``root`` of the store.

        Raises:
            NotEvaluated: there is none.
        """
        return cls(root, read_current(root), split)

    @cached_property
    def of_sample(self) -> str:
        """``, a sample of 100 queries (seed 1)``, for a headline; empty where all are asked."""
        sample, n = self.configured("sample"), self.queries.num_rows
        if not sample or n < sample["queries"]:
            return ""
        return f", a sample of {n} queries (seed {sample['seed']})"

    @property
    def primary(self) -> Metric:
        """The metric that ranks the leaderboard."""
        return parse_metric(self.evaluation.primary)

    @property
    def has_metrics(self) -> bool:
        """Whether there were labels; without, there are overlaps and no leaderboard."""
        return bool(self.evaluation.entries_of("leaderboard"))

    def check_labels(self) -> None:
        """Do nothing where there were complete labels.

        Raises:
            NotEvaluated: there were none, or of a part of a sample, so no metric exists.
        """
        if not self.has_metrics:
            counts = [manifest.facts for _, manifest in self.manifests_of("sampled_labels")]
            had, then = "no labels", "`rag-assets pool` helps to judge"
            if counts and (n := counts[0]["n_judged"]):
                had = f"grades of only {n} of the {counts[0]['n_items']} passages of its sample"
                then = "`rag-assets label` asks for the rest"
            when = f"{self.evaluation.experiment} had {had} when it was evaluated"
            raise NotEvaluated(f"{when}; {then}")

    @cached_property
    def leaderboard(self) -> pa.Table:
        """Table of :data:`rag_assets.schemas.LEADERBOARD`.

        Raises:
            NotEvaluated: the experiment had no labels, so no metric exists.
        """
        self.check_labels()
        return self.table_of("leaderboard")

    @property
    def splits(self) -> list[str]:
        """The splits of the queries, the one to show first: ``test`` before ``dev``."""
        if self.has_metrics or not self.answer_metrics:
            return splits_of(self.leaderboard)
        return sorted(set(self.answer_summary["split"].to_pylist()) - {ALL}, reverse=True)

    @cached_property
    def split(self) -> str:
        """The split that was wanted, else the one to show: ``test``, or ``all`` without one.

        Raises:
            UsageError: the one that was wanted is not there.
            NotEvaluated: one was wanted, and there are neither labels nor answers.
        """
        wanted = self.wanted_split
        if wanted is None and not self.has_metrics and not self.answer_metrics:
            return ALL
        splits = self.splits
        if wanted is None or wanted in splits:
            return wanted or next(iter(splits), ALL)
        if set(splits) <= {ALL}:
            problem = f"the queries of {self.evaluation.experiment} are not split"
            raise UsageError(f"{problem}; add `split` to its experiment.yaml")
        raise UsageError(f"unknown split {allowed_names(wanted, splits)}")

    @cached_property
    def rows(self) -> list[Row]:
        """The leaderboard of the split, best retriever first; empty without labels.

        :data:`LEADING` come first; ``position`` is None for a retriever that is not ranked. Metric
        names carry no cut-off: that is ``top_k``; what is null is left out. A tuned fusion has its
        ``chosen_weights``, and a cell that was timed a ``cost_time``.
        """
        times = self.cost_times if self.has_metrics else {}
        rows = []
        for row in self.leaderboard.to_pylist() if self.has_metrics else []:
            if row["split"] == self.split:
                name, top_k = row["retriever"], row["top_k"]
                lead = {column: row.pop(column) for column in LEADING}
                row["chosen_weights"] = self.chosen_weights.get(name)
                row["cost_time"] = times.get((name, top_k))
                rows.append({**lead, **{n: v for n, v in row.items() if v is not None}})
        return rows

    @property
    def cutoff(self) -> int:
        """The cut-off of the primary metric."""
        return self.primary.cutoff or 0

    @cached_property
    def measures(self) -> list[str]:
        """The metrics of the leaderboard without their cut-offs, the primary one first."""
        names = metric_columns({name for row in self.rows for name in row})
        return sorted(names, key=lambda name: name != self.primary.column)

    @cached_property
    def cutoffs(self) -> list[int]:
        """The cut-offs of the leaderboard, rising."""
        return sorted({row["top_k"] for row in self.rows})

    @cached_property
    def retrievers(self) -> list[str]:
        """The retrievers of the leaderboard, best first."""
        return list(dict.fromkeys(row["retriever"] for row in self.rows))

    @cached_property
    def at_cutoff(self) -> list[Row]:
        """The rows at the primary cut-off, best first."""
        return [row for row in self.rows if row["top_k"] == self.cutoff]

    @cached_property
    def ranked(self) -> list[Row]:
        """Those of them that have a value of the primary metric and a position."""
        column = self.primary.column
        return [r for r in self.at_cutoff if column in r and r["position"] is not None]

    @cached_property
    def near(self) -> set[str]:
        """The retrievers that no test tells apart from the best by the primary metric."""
        best = {row["retriever"] for row in self.rows if row["position"] == 1}
        unranked = {row["retriever"] for row in self.rows if row["position"] is None}
        near: set[str] = set()
        for row in self.comparisons:
            pair = {row["retriever_a"], row["retriever_b"]}
            if pair & best and row["difference"] is not None and not is_significant(row):
                near |= pair - best - unranked
        return near

    @cached_property
    def intervals(self) -> dict[tuple[str, int, str], Row]:
        """(retriever, top_k, metric) -> row of :data:`rag_assets.schemas.INTERVALS`."""
        return {
            (row["retriever"], row["top_k"], row["metric"]): row
            for row in self.rows_of("intervals")
            if row["split"] == self.split
        }

    @property
    def confidence(self) -> float | None:
        """That of the intervals; None where there are none."""
        return next((row["confidence"] for row in self.intervals.values()), None)

    @cached_property
    def comparisons(self) -> list[Row]:
        """Rows of :data:`rag_assets.schemas.COMPARISONS`: all pairs by the primary metric."""
        return [r for r in self.rows_of(COMPARISONS_KEY.asset) if r["split"] == self.split]

    @property
    def tuned(self) -> list[str]:
        """The retrievers that the split cannot rank: their parameters were chosen on it."""
        unplaced = (row["retriever"] for row in self.rows if row["position"] is None)
        return [name for name in dict.fromkeys(unplaced) if name not in self.perturbed]

    @cached_property
    def perturbed(self) -> dict[str, str | None]:
        """Retriever that searches perturbed queries -> the same on those that were asked."""
        manifest = self.manifest(LEADERBOARD_KEY)
        return {} if manifest is None else manifest.config.get(PERTURBED, {})

    @cached_property
    def overlaps(self) -> dict[int, pa.Table]:
        """top_k -> table of :data:`rag_assets.schemas.OVERLAPS`; empty with labels."""
        return {int(top_k): table for top_k, table in self._by("overlaps", "top_k").items()}

    def _by(self, asset: str, dimension: str, top_k: int | None = None) -> dict[str, pa.Table]:
        """Return the tables of an asset by one dimension, at one cut-off where it is given."""
        return {
            entry.partition[dimension]: self.content_of(entry)
            for entry in self.evaluation.entries_of(asset)
            if top_k is None or entry.partition["top_k"] == str(top_k)
        }

    @cached_property
    def answer_summary(self) -> pa.Table:
        """Table of :data:`rag_assets.schemas.ANSWER_SUMMARY`; empty without answerers."""
        return self.table_or_empty("answer_summary", ANSWER_SUMMARY)

    @cached_property
    def answer_comparisons(self) -> pa.Table:
        """Table of :data:`rag_assets.schemas.ANSWER_COMPARISONS`; empty below two answerers."""
        return self.table_or_empty("answer_comparisons", ANSWER_COMPARISONS)

    @property
    def run_retrievers(self) -> list[str]:
        """The retrievers with a run, in the order of the graph."""
        return list(dict.fromkeys(entry.partition["retriever"] for entry in self._runs))

    @cached_property
    def answerable(self) -> dict[str, bool | None]:
        """Query -> whether the labels say that it has an answer; None: they say nothing.

        Of the queries themselves, because facts of an older evaluation do not say it.
        """
        query_ids = self.queries["query_id"].to_pylist()
        facts = facts_table(query_ids, {}, {}, {}, {}, declared_unanswerable(self.queries))
        has_labels = bool(self.evaluation.entries_of("qrels"))
        return answerable_queries(facts, self.table_of("qrels") if has_labels else None)

    def query_metrics(self, top_k: int) -> dict[str, pa.Table]:
        """Return retriever -> table of :data:`rag_assets.schemas.QUERY_METRICS` at ``top_k``."""
        return self._by("metrics", "retriever", top_k)

    @cached_property
    def answer_metrics(self) -> dict[str, pa.Table]:
        """Answerer at its cut-off -> table of :data:`rag_assets.answers.cases.ANSWER_METRICS`."""
        return self._by("answer_metrics", "answerer")

    @cached_property
    def gold_answerers(self) -> list[str]:
        """The answerers that read the relevant texts, and so nothing of what has none."""
        answerers = self.configured("answers").items()
        return [name for name, options in answerers if options.get("context") == GOLD]

    @property
    def sampled_primary(self) -> str | None:
        """What a sample of labels decides, where there are no complete labels; else None."""
        if self.has_metrics or not self.evaluation.entries_of("sampled_estimates"):
            return None
        rows = self.table_of("sampled_estimates").to_pylist()
        return f"{SAMPLED}{rows[0]['metric']}" if rows else None

    @property
    def judges(self) -> list[str]:
        """The judges of answers, whether or not people labelled any."""
        return [each.partition["judge"] for each in self.evaluation.entries_of("answer_verdicts")]

    @cached_property
    def answer_labels(self) -> pa.Table:
        """Table of :data:`rag_assets.schemas.ANSWER_LABELS`; empty without labels."""
        return self.table_or_empty("answer_labels", ANSWER_LABELS)

    def run_keys(self, retriever: str) -> dict[int, ArtifactKey]:
        """Return top_k -> the run of one retriever, a table of :data:`rag_assets.schemas.RUNS`."""
        return {
            int(entry.partition["top_k"]): entry.key
            for entry in self._runs
            if entry.partition["retriever"] == retriever
        }

    def attributed_weights(self, retriever: str) -> dict[str, float]:
        """Return the weights of the split's queries on which the retriever did not fail."""
        failed = self.failures(self.run_keys(retriever)[self.cutoff])
        weights = self.weights(self.split)
        return {name: weight for name, weight in weights.items() if name not in failed}

    @cached_property
    def attributions(self) -> dict[str, pa.Table]:
        """Retriever -> table of :data:`rag_assets.schemas.ATTRIBUTIONS`.

        Raises:
            NotEvaluated: there are none: no labels, or cells alone that attributions do not read.
        """
        self.check_labels()
        if not self.evaluation.entries_of("attributions"):
            problem = "does not show where evidence was lost; that needs all cells of a retriever"
            raise self.lacks(problem)
        return self._by("attributions", "retriever")

    def list_similarities(self, top_k: int) -> dict[str, pa.Table]:
        """Return retriever -> table of :data:`rag_assets.schemas.LIST_SIMILARITIES`."""
        return self._by("list_similarities", "retriever", top_k)

    @cached_property
    def speed(self) -> dict[str, float]:
        """Retriever -> median time of a query, from its text to its hits.

        It is of single queries, with all that they need: writing, encoding, searching, fusing and
        reranking. A retriever of which a part was not measured is not there.
        """
        every = {name: latency["p50_ms"] for name, latency in self.latencies.items()}
        return {name: ms for name, ms in every.items() if ms is not None}

    @cached_property
    def chosen_weights(self) -> dict[str, str]:
        """Tuned fusion -> the weights that were chosen on dev, such as ``bm25 0.3, e5 0.7``."""
        texts = {}
        for row in self.rows_of("tuning"):
            inputs = self.configured("retrievers").get(row["retriever"], {}).get("inputs", [])
            if row["chosen"] and len(inputs) == len(row["weights"]):
                pairs = zip(inputs, row["weights"], strict=True)
                texts[row["retriever"]] = ", ".join(f"{n} {weight:.4g}" for n, weight in pairs)
        return texts

    def tuning_note(self, retrievers: Collection[str]) -> str | None:
        """Return that some of these retrievers were tuned on the split; None when none was."""
        tuned = ", ".join(name for name in self.tuned if name in retrievers)
        if not tuned:
            return None
        text = f"parameters of {tuned} were chosen on {self.split}, and look too good there"
        return f"{text}; see `--split test`"
