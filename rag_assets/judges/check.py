"""``judge check``: trials of a judge, and its agreement with people; kept beside the evaluations.

It holds for one judge, by its fingerprint: of another model or prompt there is another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow.compute as pc

from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.experiment.hosts import circular_uses
from rag_assets.judges.base import (
    CORRECTNESS,
    RELEVANCE,
    CorrectnessItem,
    Item,
    Kind,
    RelevanceItem,
    SearchSession,
)
from rag_assets.judges.calibration_stage import ANSWER_LABELS_KEY
from rag_assets.judges.people import (
    NO_LABELS,
    Row,
    beside_labels,
    beside_passage_labels,
)
from rag_assets.judges.registry import RecordedJudge
from rag_assets.judges.trials import (
    POSITIVE,
    RIGHT,
    SAME_TWICE,
    Texts,
    Trial,
    TrialResult,
    drawn,
    mutation_score,
    result,
    trials,
    wrong_answers,
    wrong_passages,
)
from rag_assets.judges.verdicts_stage import (
    answer_verdicts_key,
    judge_fingerprint,
    relevance_items,
    relevance_verdicts_key,
)
from rag_assets.labels.pool import units_in
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import read_sealed, sealed_json

JUDGE_CHECKS_DIR = "judge_checks"
NO_OTHER_TEXTS = "recorded verdicts are of no other texts"


@dataclass(frozen=True)
class Rules:
    """How a judge is tried.

    Attributes:
        items: texts a trial, at most.
        at_least: the share of changes that has to be noticed.
        seed: of the draw of the texts.
    """

    items: int = 10
    at_least: float = 0.8
    seed: int = 0


@dataclass(frozen=True)
class KindCheck:
    """The result of a judge in one kind of verdicts.

    Attributes:
        kind: of its verdicts.
        fingerprint: of the judge.
        trials: rows of :class:`rag_assets.judges.trials.TrialResult`.
        noticed: changes that were noticed.
        tried: changes that were tried; the mutation score is the share of both.
        agreement: with people; None: they said nothing.
        youden: sensitivity + specificity - 1.
    """

    kind: Kind
    fingerprint: str
    trials: list[Row]
    noticed: int
    tried: int
    agreement: Row | None
    youden: float | None

    @property
    def failures(self) -> list[str]:
        """Names of the trials and comparisons that failed."""
        failed = [row["name"] for row in self.trials if row["passed"] is False]
        if self.youden is not None and self.youden <= 0:
            failed.append("agreement with people")
        return failed

    @property
    def was_tried(self) -> bool:
        """True if a trial ran or there are labels of people."""
        return self.youden is not None or any(row["passed"] is not None for row in self.trials)


@dataclass(frozen=True)
class JudgeCheck:
    """All of one judge.

    Attributes:
        judge: its name.
        at: when, ISO 8601.
        rules: how it was tried.
        kinds: of each kind that it judges.
        circles: sentences about what its own model made of what it judges.
    """

    judge: str
    at: str
    rules: Rules
    kinds: list[KindCheck]
    circles: list[str]

    @property
    def passed(self) -> bool:
        """True if no trial failed and no model judges its own work."""
        return not self.circles and not any(kind.failures for kind in self.kinds)

    def as_json(self) -> Row:
        """Return it as it is kept and printed."""
        kinds = [{**asdict(kind), "failed": kind.failures} for kind in self.kinds]
        return {**asdict(self), "passed": self.passed, "kinds": kinds}


def judges_to_check(pipeline: Pipeline, name: str | None) -> list[str]:
    """Return the judge of that name, or all.

    Raises:
        UsageError: there is none.
    """
    judges = pipeline.experiment.judges
    if not judges:
        raise UsageError(f"{pipeline.experiment.source} has no `judges`")
    if name is not None and name not in judges:
        raise UsageError(f"--judge: unknown judge {allowed_names(name, judges)}")
    return list(judges) if name is None else [name]


def check_judge(pipeline: Pipeline, judge: str, rules: Rules) -> JudgeCheck:
    """Try a judge, and keep what came of it.

    Raises:
        NotEvaluated: its verdicts are not up to date, or nothing could be tried.
        BudgetReached: the limits allow no more; replies are stored.
        ModelUnavailable: its model does not answer; likewise.
        StoreError: the result cannot be written.
    """
    queries = pipeline.artifact(QUERIES_KEY).table()
    keys = list(_verdict_keys(pipeline, judge))
    kinds = [_check_kind(pipeline, key, rules) for key in keys]
    found = (circular_uses(pipeline.experiment, key, queries) for key in keys)
    circles = list(dict.fromkeys(circle for uses in found for circle in uses))
    if not circles and not any(kind.was_tried for kind in kinds):
        raise NotEvaluated(f"nothing of judge {judge} could be tried: {NO_LABELS}, and no texts")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    check = JudgeCheck(judge, at, rules, kinds, circles)
    text = sealed_json(check.as_json())
    pipeline.settings.write_record(_file(pipeline.root, judge), text, lambda _: text)
    return check


def stored_check(root: Path, judge: str) -> Row | None:
    """Return what is kept of a judge, as :meth:`JudgeCheck.as_json` gave it; None: nothing."""
    try:
        return read_sealed(_file(root, judge).read_bytes())
    except (OSError, ValueError):
        return None  # none, or damaged: it is made again


def _file(root: Path, judge: str) -> Path:
    return root / JUDGE_CHECKS_DIR / f"{judge}.json"


def _verdict_keys(pipeline: Pipeline, judge: str) -> Iterator[ArtifactKey]:
    experiment = pipeline.experiment
    for kind, key in ((RELEVANCE, relevance_verdicts_key), (CORRECTNESS, answer_verdicts_key)):
        if judge in experiment.judges_of(kind):
            if pipeline.current(key(judge)) is None:
                raise NotEvaluated(f"{key(judge)} is not up to date; run `rag-assets evaluate`")
            yield key(judge)


def _kind_of(key: ArtifactKey) -> Kind:
    return RELEVANCE if key == relevance_verdicts_key(key["judge"]) else CORRECTNESS


def _check_kind(pipeline: Pipeline, key: ArtifactKey, rules: Rules) -> KindCheck:
    kind = _kind_of(key)
    results = _results(pipeline, key, rules)
    compare = beside_passage_labels if kind == RELEVANCE else beside_labels
    agreement, youden = compare(pipeline, key)
    return KindCheck(
        kind,
        judge_fingerprint(pipeline.artifact(key).manifest),
        [result._asdict() for result in results],
        *mutation_score(results),
        agreement,
        youden,
    )


def _results(pipeline: Pipeline, key: ArtifactKey, rules: Rules) -> list[TrialResult]:
    kind, planned = _kind_of(key), _trials(pipeline, key, rules)
    judge = pipeline.experiment.judges[key["judge"]]
    if isinstance(judge, RecordedJudge):
        none = (0, 0, 0, 0.0, 1.0, None, NO_OTHER_TEXTS)
        return [TrialResult(trial.name, *none) for trial in planned]
    once, twice = _items(planned)
    tools = SearchSession(partial(pipeline.completions, f"trials of {key['judge']}"))
    verdicts = dict(zip(once, judge.verdicts(once, tools), strict=True))
    again = dict(zip(twice, judge.verdicts_again(twice, tools), strict=True))
    results = [result(kind, trial, verdicts, again, rules.at_least) for trial in planned]
    grades = pipeline.artifact(key).table()["grade"].drop_null() if kind == RELEVANCE else ()
    if len(grades) and pc.max(grades).as_py() < POSITIVE[RELEVANCE]:
        reason, n = f"it finds none of {len(grades)} passages relevant", len(grades)
        results.insert(0, TrialResult(RIGHT, n, n, 0, 0.0, 1.0, False, reason))
    return results


def _items(planned: Sequence[Trial]) -> tuple[list[Item], list[Item]]:
    """Return what is asked once, and what is asked again; each text once."""
    once = dict.fromkeys(item for trial in planned for pair in trial.pairs for item in pair)
    same = (trial for trial in planned if trial.name == SAME_TWICE)
    return list(once), list(dict.fromkeys(first for trial in same for first, _ in trial.pairs))


def _trials(pipeline: Pipeline, key: ArtifactKey, rules: Rules) -> list[Trial]:
    texts = _passages(pipeline, key) if _kind_of(key) == RELEVANCE else _answers(pipeline)
    in_order = Texts(*(drawn(items, rules.seed) for items in texts))
    return trials(_kind_of(key), in_order, rules.items)


def _passages(pipeline: Pipeline, key: ArtifactKey) -> Texts:
    """Return passages that the judge itself finds relevant, and some that cannot be."""
    items, verdicts = relevance_items(pipeline, key), pipeline.artifact(key).table()
    units = zip(units_in(verdicts), verdicts["grade"].to_pylist(), strict=True)
    relevant = {unit for unit, grade in units if grade is not None and grade >= POSITIVE[RELEVANCE]}
    right: dict[str, RelevanceItem] = {}
    for item in items:
        if (item.query_id, item.document_id, item.start, item.end) in relevant:
            right.setdefault(item.query_id, item)
    return Texts(list(right.values()), wrong_passages(items))


def _answers(pipeline: Pipeline) -> Texts:
    """Return answers that people call correct, else those of the data; and some that are not."""
    queries = pipeline.artifact(QUERIES_KEY).table()
    texts = dict(zip(*(queries[c].to_pylist() for c in ("query_id", "text")), strict=True))
    facts = pipeline.artifact(QUERY_FACTS_KEY).table()
    columns = (facts[name].to_pylist() for name in ("query_id", "answers"))
    of_data = {
        query_id: CorrectnessItem(query_id, texts[query_id], golds[0], tuple(golds))
        for query_id, golds in zip(*columns, strict=True)
        if golds and golds[0].strip()
    }
    right = dict(of_data)
    labels = pipeline.current(ANSWER_LABELS_KEY) if pipeline.experiment.has_answer_labels else None
    for row in reversed(labels.table().to_pylist() if labels is not None else []):
        if row["correct"] and row["answer"].strip() and row["query_id"] in of_data:
            right[row["query_id"]] = of_data[row["query_id"]]._replace(answer=row["answer"])
    return Texts(list(right.values()), wrong_answers(of_data.values()))
