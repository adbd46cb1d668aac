"""Names of metrics: ours are canonical, those of ir_measures and trec_eval are aliases.

A metric is a measure, its parameters and, often, a cut-off: ``ndcg@10``, ``precision(rel=2)@5``. A
measure without a cut-off is taken at each top_k of an experiment, or over the whole ranking by
``score``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

from pydantic import ValidationError

from rag_assets.errors import UsageError, allowed_names
from rag_assets.evaluation.measure import OWN, FunctionMeasure
from rag_assets.evaluation.measures import MEASURE_TYPES, OWN_MEASURES
from rag_assets.evaluation.trec_measures import what_is_no_metric

RANKING_MEASURES = tuple(MEASURE_TYPES)
"""Computed by :mod:`rag_assets.evaluation.metrics`; those of packages are the last."""

CONTEXT_MEASURES = ("answer_hit",)
"""Over the text that is returned: :mod:`rag_assets.evaluation.returned_texts`."""

MEASURES = (*(each.name for each in OWN_MEASURES), *CONTEXT_MEASURES)
MEASURES += tuple(name for name in RANKING_MEASURES if name not in MEASURES)
"""All canonical measures, in the order in which columns stand."""

ALIASES = {alias: measure.name for measure in OWN_MEASURES for alias in measure.aliases}
"""Names of ir_measures, of trec_eval and of common speech -> ours."""


def parameters_of(measure: str) -> dict[str, float]:
    """Return the parameters of a measure and their defaults."""
    return MEASURE_TYPES[measure].defaults() if measure in MEASURE_TYPES else {}


def needs_cutoff(measure: str) -> bool:
    """Return whether a measure divides by the cut-off: over a whole ranking it says nothing."""
    return measure in MEASURE_TYPES and MEASURE_TYPES[measure].needs_cutoff


def needs_size(measure: str) -> bool:
    """Return whether a measure needs the number of units that a retriever could have returned."""
    return measure in MEASURE_TYPES and MEASURE_TYPES[measure].needs_size


def highest_value(name: str) -> float:
    """Return what a query can have at most of a metric, with or without its cut-off; least is 0."""
    measure = name.partition("@")[0].partition("(")[0]
    if name.startswith(OWN):
        return FunctionMeasure.highest
    return MEASURE_TYPES[measure].highest if measure in MEASURE_TYPES else 1.0


def lower_is_better(name: str) -> bool:
    """Return whether a metric, with or without its cut-off, counts mistakes."""
    measure = name.partition("@")[0].partition("(")[0].lower()
    return measure in MEASURE_TYPES and MEASURE_TYPES[measure].lower_is_better


def is_gain(name: str, change: float) -> bool:
    """Return whether a metric that rises by ``change`` gets better."""
    return change < 0 if lower_is_better(name) else change > 0


def refuse_lower_is_better(name: str, why: str) -> None:
    """Refuse a metric that counts mistakes where a higher value must be a better one.

    ``why`` is what a higher value is taken for, such as "a fall fails".
    """
    if lower_is_better(name):
        raise UsageError(f"{name} is better when lower, but {why}; use tp or recall instead")


LARGEST_CUTOFF = 2**31 - 1
"""What a column of top_k can hold."""

_PATTERN = re.compile(
    r"(?P<measure>(?:[A-Za-z_]*_)?[Ff]1|11pt_avg|[A-Za-z_]+?)"
    r"(?:\((?P<params>[^()]*)\))?(?:[@_](?P<cutoff>[0-9]+))?"
)
_LEVEL = re.compile(r"iprec_at_recall_([01]\.[0-9]+)")
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE]-?[0-9]+)?")
_COMMA = re.compile(r",(?![^()]*\))")


class Metric(NamedTuple):
    """A measure, the rank at which the ranking is cut (None: not cut), and its parameters.

    ``params`` holds, sorted by name, those that differ from their defaults.
    """

    measure: str
    cutoff: int | None = None
    params: tuple[tuple[str, float], ...] = ()

    @property
    def column(self) -> str:
        """Canonical name without the cut-off: the name of its column in a table of metrics."""
        named = _always_shown(self.measure)
        named.update(self.params)
        inside = ",".join(f"{name}={value!r}" for name, value in sorted(named.items()))
        return f"{self.measure}({inside})" if inside else self.measure

    def parameter(self, name: str) -> float:
        """Return the value of a parameter, given or default."""
        return {**parameters_of(self.measure), **dict(self.params)}[name]

    def __str__(self) -> str:
        """Return the canonical name, such as ``ndcg@10``."""
        return self.column if self.cutoff is None else f"{self.column}@{self.cutoff}"


def is_measure(name: str) -> bool:
    """Return whether a metric may have this measure; of functions the caller alone knows which."""
    return name in MEASURES or name.startswith(OWN)


def refuse_function(metric: Metric) -> None:
    """Refuse a metric that is a function of the caller's where none can be given."""
    if metric.measure.startswith(OWN):
        where = "`rag_assets.evaluate(..., metrics=[...])`"
        raise UsageError(f"metric '{metric}' is a function of Python; give it to {where}")


def parse_metric(name: str) -> Metric:
    """Return the metric that ``name`` means, in any of the three vocabularies.

    Examples: ``ndcg@10``, ``nDCG@10``, ``ndcg_cut_10``, ``P_5``, ``recip_rank``, ``Success@1``,
    ``P(rel=2)@5``, ``RBP(p=0.9)``, ``Rprec``. ``nDCG(dcg=exp-log2)`` is ``ndcg_exp``.

    Raises:
        UsageError: the measure or a parameter is unknown, or a value is out of range.
    """
    levelled = _LEVEL.sub(r"iprec(recall=\1)", name.strip())
    match = _PATTERN.fullmatch(levelled)
    measure = match["measure"].lower() if match else name
    measure = ALIASES.get(measure, measure)
    if (reason := what_is_no_metric(levelled)) is not None:
        raise UsageError(f"metric '{name}' of trec_eval is {reason}")
    if match is None or not is_measure(measure):
        near = get_close_matches(measure.lower(), [*MEASURES, *ALIASES], n=1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        allowed = f"allowed: {', '.join(MEASURES)}, each with or without @k"
        raise UsageError(f"unknown metric '{name}'{hint}; {allowed}")
    cutoff = int(match["cutoff"]) if match["cutoff"] else None
    if cutoff is not None and not 1 <= cutoff <= LARGEST_CUTOFF:
        problem = f"the cut-off must be at least 1 and at most {LARGEST_CUTOFF}"
        raise UsageError(f"metric '{name}': {problem}")
    texts: dict[str, str] = {}
    for part in [] if match["params"] is None else match["params"].split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or key in texts:
            raise UsageError(f"metric '{name}': parameters are written (name=value), each once")
        texts[key] = value.strip("'\"")
    if measure == "ndcg" and "dcg" in texts:
        measure = {"exp-log2": "ndcg_exp", "log2": "ndcg"}.get(texts.pop("dcg"), "")
        if not measure:
            raise UsageError(f"metric '{name}': dcg must be log2 or exp-log2")
    return Metric(measure, cutoff, _params(name, measure, texts))


def shown_name(name: str) -> str:
    """Return ``name`` as it is echoed: the canonical one where it leaves out what tools differ in.

    ``rbp`` is ``rbp(p=0.8)``, since others have another ``p``; ``P@5`` stays as it is.
    """
    metric = parse_metric(name)
    inside = name.partition("(")[2]
    is_whole = all(f"{parameter}=" in inside for parameter in _always_shown(metric.measure))
    return name if is_whole else str(metric)


def split_metrics(text: str) -> list[str]:
    """Return the names in a list with commas between; one inside brackets belongs to a name."""
    return [name.strip() for name in _COMMA.split(text) if name.strip()]


def metric_columns(names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that are columns of metrics, in canonical order.

    ``judged`` is not among them: tables of means have a column of that name for all metrics.
    """
    measures = {name: name.partition("(")[0] for name in names if name != "judged"}
    columns = {name: measure for name, measure in measures.items() if is_measure(measure)}
    places = {measure: place for place, measure in enumerate(MEASURES)}
    return sorted(columns, key=lambda name: (places.get(columns[name], len(places)), name))


def _params(name: str, measure: str, texts: dict[str, str]) -> tuple[tuple[str, float], ...]:
    """Return the parameters that differ from their defaults, by name."""
    defaults = parameters_of(measure)
    for key in sorted(texts):
        if key not in defaults:
            problem = f"{measure} has no parameter {allowed_names(key, sorted(defaults))}"
            raise UsageError(f"metric '{name}': {problem}")
    if not texts:
        return ()
    try:
        given = MEASURE_TYPES[measure].model_validate({k: _number(v) for k, v in texts.items()})
    except ValidationError as error:
        first = min(error.errors(), key=lambda each: str(each["loc"]))
        message = str(first.get("ctx", {}).get("error", first["msg"])).removeprefix("Input ")
        raise UsageError(f"metric '{name}': {first['loc'][0]} {message}") from error
    values = given.model_dump()
    return tuple((key, values[key]) for key in sorted(texts) if values[key] != defaults[key])


def _number(text: str) -> float | str:
    if not _NUMBER.fullmatch(text):
        return text
    number = float(text)
    return int(number) if number.is_integer() else number  # `2` and `2.0` are one column


def _always_shown(measure: str) -> dict[str, float]:
    """Return the parameters that stand in every name, and their defaults."""
    defaults = parameters_of(measure)
    return {key: defaults[key] for key in defaults if key in MEASURE_TYPES[measure].shown}
