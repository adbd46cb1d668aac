"""Rules between retrievers: inputs exist, no cycle, levels.

What an experiment must have where weights of a fusion are chosen on dev.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from rag_assets.errors import UsageError, allowed_names
from rag_assets.evaluation.metric_names import (
    CONTEXT_MEASURES,
    parse_metric,
    refuse_function,
    refuse_lower_is_better,
)
from rag_assets.experiment.config import RetrieverConfig
from rag_assets.options import KeyProblem, Location
from rag_assets.retrieval.base import MAX_DERIVED, RERANKED, SECOND, UNCHUNKED, DerivedRetriever
from rag_assets.retrieval.external.base import ExternalRetriever
from rag_assets.retrieval.fusion.base import FusedRetriever, Tune
from rag_assets.retrieval.reranking.candidates import RerankedRetriever

LEVEL_RULE = (
    "there are three levels: base (bm25, embedding, ...) -> fused (rrf, "
    "...) -> reranked (of a base or fused one); a reranked one may be fused or reranked once more"
)


@contextmanager
def naming(*location: int | str) -> Iterator[None]:
    """Say of a wrong value which key holds it."""
    try:
        yield
    except UsageError as error:
        raise KeyProblem(location, str(error)) from error


def check_known(what: str, name: str, names: Collection[str], *location: int | str) -> None:
    """Refuse a name that nothing has; ``what`` it is the name of."""
    if name not in names:
        raise KeyProblem(location, f"unknown {what} {allowed_names(name, names)}")


def check_retrievers(retrievers: Mapping[str, RetrieverConfig]) -> None:
    """Check what fused and reranked retrievers read.

    Raises:
        KeyProblem: an input is unknown or named twice, or retrievers read each other wrongly.
    """
    for check in (_check_names, _check_no_cycle, _check_levels, _check_all_candidates):
        for name in retrievers:
            check(name, retrievers)


def _check_names(name: str, retrievers: Mapping[str, RetrieverConfig]) -> None:
    names = retrievers[name].input_names
    for number, item in enumerate(names):
        location = _location(name, number, retrievers)
        check_known("retriever", item, retrievers, *location)
        if item in names[:number]:
            raise KeyProblem(location, f"'{item}' appears twice; each input is fused once")


def _check_no_cycle(start: str, retrievers: Mapping[str, RetrieverConfig]) -> None:
    """Walk the inputs of ``start`` depth first; the path back to ``start`` is the cycle."""
    stack: list[tuple[str, ...]] = [(start,)]
    while stack:
        path = stack.pop()
        for item in retrievers[path[-1]].input_names:
            if item == start:
                cycle = " -> ".join((*path, start))
                raise KeyProblem(_location(start, None, retrievers), f"is a cycle: {cycle}")
            if item not in path:
                stack.append((*path, item))


def _check_levels(name: str, retrievers: Mapping[str, RetrieverConfig]) -> None:
    config = retrievers[name]
    for number, item in enumerate(config.input_names):
        place = _location(name, number, retrievers)
        if _level(item, retrievers) >= _level(name, retrievers):
            family = retrievers[item].family
            raise KeyProblem(place, f"'{item}' is itself a {family} retriever; {LEVEL_RULE}")
        if _derivations(item, retrievers) >= MAX_DERIVED:
            raise KeyProblem(
                place,
                f"'{item}' is fused or reranked {MAX_DERIVED} times, the maximum; it "
                f"cannot be the input of a {config.family} retriever",
            )


def _check_all_candidates(name: str, retrievers: Mapping[str, RetrieverConfig]) -> None:
    """Check that all units are known, and that every query may find each of them."""
    config = retrievers[name]
    if not isinstance(config, DerivedRetriever) or not config.scores_all:
        return
    for base in _bases(name, retrievers):
        read = retrievers[base]
        if getattr(read, "filters", False):
            problem = f"all chunks would pass the filters of '{base}'; give a number"
            raise KeyProblem(("retrievers", name, "candidates"), problem)
        has_own = isinstance(read, ExternalRetriever)
        if has_own or getattr(read, "chunking", None) == UNCHUNKED:
            problem = f"the chunks of '{base}' are not known, as it has no chunking; give a number"
            raise KeyProblem(("retrievers", name, "candidates"), problem)


def _bases(name: str, retrievers: Mapping[str, RetrieverConfig]) -> list[str]:
    names = retrievers[name].input_names
    return [base for source in names for base in _bases(source, retrievers)] if names else [name]


def _level(name: str, retrievers: Mapping[str, RetrieverConfig]) -> int:
    config = retrievers[name]
    return config.level + SECOND * reads_reranked(config, retrievers)


def reads_reranked(config: RetrieverConfig, retrievers: Mapping[str, RetrieverConfig]) -> bool:
    """Return whether a retriever reads what is reranked, or is made of that."""
    if not isinstance(config, FusedRetriever | RerankedRetriever):
        return False
    return any(_level(item, retrievers) >= RERANKED for item in config.input_names)


def _derivations(name: str, retrievers: Mapping[str, RetrieverConfig]) -> int:
    """Return how many fusions and rerankings lie between a retriever and its base ones."""
    below = [_derivations(source, retrievers) for source in retrievers[name].input_names]
    return 1 + max(below) if below else 0


def _location(name: str, number: int | None, retrievers: Mapping[str, RetrieverConfig]) -> Location:
    """Return where an input stands: an item of ``inputs``, or the one under ``input``."""
    if "inputs" not in type(retrievers[name]).model_fields:
        return ("retrievers", name, "input")
    return ("retrievers", name, "inputs", *(() if number is None else (number,)))


def tuned_retrievers(retrievers: Mapping[str, RetrieverConfig]) -> frozenset[str]:
    """Return the fusions whose weights are chosen on dev, and what reads one of them."""
    tuned = {name for name in retrievers if tune_of(retrievers[name]) is not None}
    for _ in range(MAX_DERIVED):
        tuned |= {name for name, config in retrievers.items() if tuned & set(config.input_names)}
    return frozenset(tuned)


def tune_of(config: RetrieverConfig) -> Tune | None:
    """Return how a retriever's weights are chosen; None: they are not."""
    return config.tune if isinstance(config, FusedRetriever) else None


def check_tuning(
    retrievers: Mapping[str, RetrieverConfig],
    cutoffs: Collection[int],
    *,
    has_split: bool,
    has_labels: bool,
) -> None:
    """Check that weights can be chosen.

    Args:
        retrievers: all of the experiment.
        cutoffs: its cut-offs, and those of its metrics.
        has_split: whether queries are split.
        has_labels: whether there are labels.

    Raises:
        KeyProblem: there is no split or there are no labels, or the metric is none that a ranking
            and a cut-off of the experiment give.
    """
    for name, config in retrievers.items():
        tune = tune_of(config)
        if tune is None:
            continue
        problem = None
        if reads_reranked(config, retrievers):
            problem = "only base retrievers can have tuned weights; give numbers for reranked ones"
        elif isinstance(config, FusedRetriever) and config.recency is not None:
            problem = "weights cannot be tuned with recency; give numbers"
        elif not has_split:
            problem = (
                "tuned weights are chosen on dev and reported on test; add the key `split`, such "
                "as split: {dev: 0.5, seed: 0}"
            )
        elif not has_labels:
            problem = "tuned weights need labels"
        if problem is not None:
            raise KeyProblem(("retrievers", name, "weights"), problem)
        if tune.metric is not None:
            _check_metric(tune.metric, cutoffs, ("retrievers", name, "tune", "metric"))


def _check_metric(name: str, cutoffs: Collection[int], location: Location) -> None:
    with naming(*location):
        metric = parse_metric(name)
        refuse_function(metric)
        refuse_lower_is_better(name, "tuning needs a metric that is better when higher")
    if metric.measure in {"judged", *CONTEXT_MEASURES}:
        problem = f"{metric.measure} is not a measure of a ranking and its labels"
        raise KeyProblem(location, problem)
    if metric.cutoff not in cutoffs:
        allowed = ", ".join(map(str, sorted(cutoffs)))
        problem = f"'{name}' needs a cut-off of the experiment; allowed: @ {allowed}"
        raise KeyProblem(location, problem)
