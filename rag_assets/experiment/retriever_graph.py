"""Rules between retrievers: inputs exist, no cycle, three levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rag_assets.errors import allowed_names
from rag_assets.experiment.config import RetrieverConfig, RRFConfig
from rag_assets.experiment.experiment import LEVEL_RULE

Fail = Callable[[tuple[int | str, ...], str], Exception]


def check_retrievers(retrievers: Mapping[str, RetrieverConfig], fail: Fail) -> None:
    """Check all inputs of fused retrievers.

    Raises:
        ConfigError: made by ``fail`` from a location and a problem.
    """
    for name, config in retrievers.items():
        if isinstance(config, RRFConfig):
            _check_names(name, config, retrievers, fail)
    for name in retrievers:
        _check_no_cycle(name, retrievers, fail)
    for name, config in retrievers.items():
        if isinstance(config, RRFConfig):
            _check_levels(name, config, retrievers, fail)


def _check_names(
    name: str, config: RRFConfig, retrievers: Mapping[str, RetrieverConfig], fail: Fail
) -> None:
    for number, item in enumerate(config.inputs):
        location = ("retrievers", name, "inputs", number)
        if item not in retrievers:
            raise fail(location, f"unknown retriever {allowed_names(item, retrievers)}")
        if item in config.inputs[:number]:
            raise fail(location, f"'{item}' stands twice; each input is fused once")


def _check_no_cycle(start: str, retrievers: Mapping[str, RetrieverConfig], fail: Fail) -> None:
    """Walk the inputs of ``start`` depth first; the path back to ``start`` is the cycle."""
    stack: list[tuple[str, ...]] = [(start,)]
    while stack:
        path = stack.pop()
        config = retrievers[path[-1]]
        for item in config.inputs if isinstance(config, RRFConfig) else ():
            if item == start:
                cycle = " -> ".join((*path, start))
                raise fail(("retrievers", start, "inputs"), f"is a cycle: {cycle}")
            if item not in path:
                stack.append((*path, item))


def _check_levels(
    name: str, config: RRFConfig, retrievers: Mapping[str, RetrieverConfig], fail: Fail
) -> None:
    for number, item in enumerate(config.inputs):
        if isinstance(retrievers[item], RRFConfig):
            raise fail(
                ("retrievers", name, "inputs", number),
                f"'{item}' is itself a fused retriever; {LEVEL_RULE}",
            )
