"""Which metric is meant, and whose it is: that of a retriever, or of an answerer at its cut-off.

An answerer at its cut-off is one name, ``plain@5``, or ``perfect@-`` where it has none; retrievers
have no ``@`` in theirs. What a judge says of answers is the metric ``judged_correct``, or
``judged_correct:strict`` where there are several judges. What a sample of labels estimates of a
retriever is the metric with ``sampled_`` before it, ``sampled_dcg@10``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rag_assets.answers.metrics import METRICS
from rag_assets.errors import UsageError
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.judges.calibration import JUDGED_CORRECT
from rag_assets.labels.sampling.label_pool import estimable_metric

ANSWER_HEADLINES = ("answer_f1", "evidence_cited", "grounded", "abstained")
"""The first of them that has a value is what answerers are compared by where none is named."""


def is_of_answers(metric: Metric) -> bool:
    """Whether a metric is one of answers, not of retrieval."""
    return metric.measure in METRICS or is_judged(metric)


def is_judged(metric: Metric) -> bool:
    """Whether a metric is what a judge says, which counts only as people's labels calibrate it."""
    return metric.measure.partition(":")[0] == JUDGED_CORRECT


SAMPLED = "sampled_"
WHERE_SAMPLED = "not a question each; see `rag-assets compare`, `gate` and `history`"


def is_sampled(metric: Metric) -> bool:
    """Whether a metric is what a sample of labels estimates, never mixed with complete labels."""
    return metric.measure.startswith(SAMPLED)


def judge_named(metric: Metric) -> str | None:
    """Return the judge that a metric names; None: it names none."""
    return metric.measure.partition(":")[2] or None


def is_answerer(name: str) -> bool:
    """Whether a name is that of an answerer at its cut-off."""
    return "@" in name


def noun(metric: Metric) -> str:
    """Return what has a value of the metric: ``retriever`` or ``answerer``."""
    return "answerer" if is_of_answers(metric) else "retriever"


def metric_at(name: str | None, primary: Metric) -> Metric:
    """Return the metric of a name, the primary one for None; its cut-off where it names none.

    Raises:
        UsageError: there is no such metric.
        NotEstimable: a sample of labels does not estimate it.
    """
    if name is None:
        return primary
    measure, _, cutoff = name.partition("@")
    if measure in METRICS or is_judged(Metric(measure)):
        if cutoff:
            raise UsageError(f"{measure} has no cut-off; an answerer has: `--answerer plain@5`")
        return Metric(measure)
    if measure.startswith(SAMPLED):
        cut = cutoff or primary.cutoff
        metric = estimable_metric(f"{measure.removeprefix(SAMPLED)}@{cut}")
        return metric._replace(measure=SAMPLED + metric.measure)
    metric = parse_metric(name)
    return metric if metric.cutoff is not None else metric._replace(cutoff=primary.cutoff)


def check_paired(metric: Metric) -> None:
    """Refuse a metric of which single questions have no share, so that no pair can be tested.

    Raises:
        UsageError: it is such a metric.
    """
    if is_sampled(metric):
        raise UsageError(f"{metric} is estimated over all questions together, {WHERE_SAMPLED}")
    if metric.measure in METRICS and not METRICS[metric.measure].is_mean:
        raise UsageError(f"{metric} is not a mean of single questions; it cannot compare them")


def check_not_judged(metric: Metric, remedy: str) -> None:
    """Refuse what a judge says, where nothing calibrates it.

    Raises:
        UsageError: it is such a metric; ``remedy`` says where it is what.
    """
    if is_sampled(metric):
        raise UsageError(f"{metric} is estimated over all questions together, {WHERE_SAMPLED}")
    if is_judged(metric):
        raise UsageError(f"{metric} counts only after people's labels calibrate it; it is {remedy}")


def check_names(metric: Metric, names: Iterable[str]) -> None:
    """Refuse names that have no value of the metric, whatever an evaluation has.

    Raises:
        UsageError: an answerer and a metric of retrieval, or the other way round.
    """
    for name in names:
        if is_answerer(name) != is_of_answers(metric):
            kind = "an answerer" if is_answerer(name) else "a retriever"
            of = "answers" if is_of_answers(metric) else "retrieval"
            raise UsageError(f"{name} is {kind}, and {metric} is a metric of {of}")


def named(row: Mapping[str, object], metric: Metric) -> dict[str, object]:
    """Return a row for programs: of answerers, ``retriever`` in names of columns is ``answerer``.

    They have their cut-off in their name.
    """
    if not is_of_answers(metric):
        return dict(row)
    return {
        name.replace("retriever", "answerer"): value
        for name, value in row.items()
        if name != "top_k"
    }
