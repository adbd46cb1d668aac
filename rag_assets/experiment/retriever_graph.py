"""Rules between retrievers: inputs exist, no cycle, three levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rag_assets.errors import allowed_names
from rag_assets.experiment.config import RetrieverConfig

LEVEL_RULE = (
    "three levels: base (bm25, embedding, ...) -> fused (rrf, ...) -> "
    "reranked (of a base or fused one)"
)

Fail = Callable[[tuple[int | str, ...], str], Exception]


def check_retrievers(retrievers: Mapping[str, RetrieverConfig], fail: Fail) -> None:
    """Check what fused and reranked retrievers read.

    Raises:
        ConfigError: made by ``fail`` from a location and a problem.
    """
    for name in retrievers:
        _check_names(name, retrievers, fail)
    for name in retrievers:
        _check_no_cycle(name, retrievers, fail)
    for name in retrievers:
        _check_levels(name, retrievers, fail)


def _check_names(name: str, retrievers: Mapping[str, RetrieverConfig], fail: Fail) -> None:
    names = retrievers[name].input_names
    for number, item in enumerate(names):
        location = _location(name, number, retrievers)
        if item not in retrievers:
            raise fail(location, f"unknown retriever {allowed_names(item, retrievers)}")
        if item in names[:number]:
            raise fail(location, f"'{item}' stands twice; each input is fused once")


def _check_no_cycle(start: str, retrievers: Mapping[str, RetrieverConfig], fail: Fail) -> None:
    """Walk the inputs of ``start`` depth first; the path back to ``start`` is the cycle."""
    stack: list[tuple[str, ...]] = [(start,)]
    while stack:
        path = stack.pop()
        for item in retrievers[path[-1]].input_names:
            if item == start:
                cycle = " -> ".join((*path, start))
                raise fail(_location(start, None, retrievers), f"is a cycle: {cycle}")
            if item not in path:
                stack.append((*path, item))


def _check_levels(name: str, retrievers: Mapping[str, RetrieverConfig], fail: Fail) -> None:
    config = retrievers[name]
    for number, item in enumerate(config.input_names):
        if retrievers[item].level >= config.level:
            raise fail(
                _location(name, number, retrievers),
                f"'{item}' is itself a {retrievers[item].family} retriever; {LEVEL_RULE}",
            )


def _location(
    name: str, number: int | None, retrievers: Mapping[str, RetrieverConfig]
) -> tuple[int | str, ...]:
    """Return where an input stands: an item of ``inputs``, or the one under ``input``."""
    if "inputs" not in type(retrievers[name]).model_fields:
        return ("retrievers", name, "input")
    return ("retrievers", name, "inputs", *(() if number is None else (number,)))
