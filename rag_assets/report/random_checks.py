"""Whether what answers at random passes a gate: by all evaluations of it, not by the last one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.pipeline.system_draws import SystemDraws, system_draws
from rag_assets.report.drop_causes import causes_of
from rag_assets.report.evaluation_pairs import EvaluationPair
from rag_assets.report.gate_checks import CANNOT_TELL, FAIL, PASS, Check, Evaluations, Rules
from rag_assets.report.metric_choice import is_judged, is_of_answers, is_sampled
from rag_assets.report.metric_drops import Drop
from rag_assets.report.unjudged_newcomers import CorpusChange
from rag_assets.statistics.repeated_draws import expected_difference
from rag_assets.statistics.repeated_looks import look_level
from rag_assets.statistics.units import SAME
from rag_assets.store.artifacts import ArtifactKey


class Mean(NamedTuple):
    """Of one evaluation, and over how many questions."""

    value: float
    n: int


def random_checks(
    pair: EvaluationPair, names: Sequence[str], rules: Rules, evaluations: EvaluationNames
) -> dict[str, Check]:
    """Return a check of each retriever or answerer that answers at random.

    What a judge says, and what a sample of labels estimates, has none: its values vary for other
    reasons too.

    Args:
        pair: two evaluations, a metric and a split.
        names: all that are gated.
        rules: what is allowed.
        evaluations: the others.
    """
    if is_judged(pair.metric) or is_sampled(pair.metric):
        return {}
    old, new = pair.old, pair.new
    keys = {name: _key(pair, name) for name in names}
    draws = system_draws(new.root, evaluations, new.evaluation, old.evaluation, keys)
    if not draws:
        return {}
    values = _values(pair, evaluations)
    corpus = CorpusChange(pair)
    return {
        name: _check(pair, name, values.get(name, {}), own, rules, len(names), corpus)
        for name, own in draws.items()
    }


def random_notes(checks: Sequence[Check]) -> Iterator[str]:
    """Yield what a reader should know of what answers at random."""
    for check in checks:
        if check.evaluations is not None:
            old, new = check.evaluations
            n = f"{new} evaluation" if new == 1 else f"{new} evaluations"
            line = f"{check.retriever} answers at random: its mean over {n} is compared"
            if old > 1:
                yield f"{line} with that over {old} of the anchor's"
            else:
                yield (
                    f"{line}, and the anchor is one draw; evaluate a configuration several times "
                    "before you pin it, and the interval gets narrower"
                )


def _key(pair: EvaluationPair, name: str) -> ArtifactKey:
    if is_of_answers(pair.metric):
        return ArtifactKey.of("answers", answerer=name)
    return pair.new.run_keys(name)[pair.metric.cutoff or 0]


def _values(pair: EvaluationPair, evaluations: EvaluationNames) -> dict[str, dict[str, Mean]]:
    """Return name -> evaluation -> its mean, from the history."""
    history = evaluations.history()
    if is_of_answers(pair.metric):
        rows, name, n = history.answer_metric(pair.metric.measure), "answerer", "n_questions"
    else:
        rows = history.metric(pair.metric.column, pair.metric.cutoff or 0)
        name, n = "retriever", "n_queries"
    values: dict[str, dict[str, Mean]] = {}
    for row in rows:
        if row["split"] == pair.split:
            own = Mean(row["value"], row[n])
            values.setdefault(row[name], {})[row["evaluation_id"]] = own
    return values


def _check(
    pair: EvaluationPair,
    name: str,
    values: dict[str, Mean],
    draws: SystemDraws,
    rules: Rules,
    n_tests: int,
    corpus: CorpusChange,
) -> Check:
    old, new = (
        [values[one].value for one in ids if one in values] for ids in (draws.anchor, draws.new)
    )
    known = Evaluations(len(old), len(new))
    if not old or not new:
        return Check(name, name, CANNOT_TELL, "its means are not in the history", evaluations=known)
    found = expected_difference(new, old, look_level(rules.alpha) / n_tests, rules.alpha / n_tests)
    is_bounded = math.isfinite(found.low)
    change = found.new - found.old
    drop = Drop(
        n=next(reversed(values.values())).n,
        old=found.old,
        new=found.new,
        change=change,
        low=found.low if is_bounded else None,
        high=found.high if is_bounded else None,
        p=None,
        detectable=None,
        n_units=len(new),
    )
    allowed = f"{rules.max_drop:g} are allowed"
    evaluations = f"{len(new)} evaluation" if len(new) == 1 else f"{len(new)} evaluations"
    if is_bounded and found.low >= -rules.max_drop - SAME:
        return Check(name, name, PASS, None, drop, evaluations=known)
    causes = None if is_of_answers(pair.metric) else causes_of(pair, name, name, corpus)
    unjudged = causes.unjudged if causes is not None else 0.0
    answer = CANNOT_TELL
    if not is_bounded:
        reason = f"it answers at random, and {evaluations} are too few for an interval"
    elif found.high >= 0 or -change <= rules.max_drop + SAME:
        reason = f"a drop of {-found.low:.4f} is not ruled out by {evaluations}; {allowed}"
    elif -change - unjudged <= rules.max_drop + SAME:
        reason = f"dropped by {-change:.4f} over {evaluations}, but {unjudged:.4f} of it is by "
        reason += "documents that nobody has judged"
    else:
        answer, reason = FAIL, f"dropped by {-change:.4f} over {evaluations}; {allowed}"
    return Check(name, name, answer, reason, drop, causes=causes, evaluations=known)
