"""Rules for the language models of an experiment: which one is meant, and where texts go."""

from __future__ import annotations

from collections.abc import Mapping

from rag_assets.errors import UsageError, allowed_names
from rag_assets.experiment.config import ExperimentConfig
from rag_assets.experiment.llm import LlmConfig
from rag_assets.experiment.retriever_rules import Fail
from rag_assets.experiment.yaml_file import Location
from rag_assets.llm.endpoint import DEFAULT_BASE_URL, Endpoint
from rag_assets.servers.hosts import host_of, is_loopback

LIMIT = "`max_calls`, or `max_cost` with `prompt_price` and `completion_price`"


def check_llm(
    name: str | None,
    location: Location,
    config: ExperimentConfig,
    fail: Fail,
    *,
    reads_list: bool = False,
) -> LlmConfig:
    """Return the language model that something in an experiment names.

    Args:
        name: one of ``llms``; None: the experiment's ``llm``.
        location: of what names it; the name is its key ``llm``.
        config: the experiment.
        fail: makes the error.
        reads_list: whether an answer may be a list of texts.

    Raises:
        ConfigError: there is no such model, or none, or its answers are lists.
    """
    if name is not None and name not in config.llms:
        raise fail((*location, "llm"), f"unknown model {allowed_names(name, config.llms)}")
    llm = config.llm if name is None else config.llms[name]
    if llm is None:
        names = ", ".join(config.llms)
        lacks = f"name one of `llms`: `llm: {names}`" if config.llms else "add the key `llm`"
        raise fail(location, f"needs a language model; {lacks}")
    if llm.sequences > 1 and not reads_list:
        problem = f"its model writes {llm.sequences} `sequences`; only a query set with "
        raise fail(location, f"{problem}`strategy: multi_query` can read more than one")
    return llm


def check_llms(llms: Mapping[str, LlmConfig], fail: Fail) -> None:
    """Check that models by name say where texts go, and how much may be asked there.

    Raises:
        ConfigError: one lacks its host, or its limit, and is not on this machine.
    """
    for name, llm in llms.items():
        if llm.type != "openai" or (llm.base_url and is_loopback(llm.base_url)):
            continue
        if not llm.names_host:
            problem = f"names no host; add `base_url: {DEFAULT_BASE_URL}`, or another one"
            raise fail(("llms", name), problem)
        if not llm.is_bounded:
            host = host_of(llm.base_url or DEFAULT_BASE_URL)
            raise fail(("llms", name), f"is at {host}: limit how much may be sent, by {LIMIT}")
        try:
            Endpoint(llm.model, llm.base_url or DEFAULT_BASE_URL)
        except UsageError as error:
            raise fail(("llms", name), str(error)) from error
