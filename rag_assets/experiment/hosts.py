"""Which models and servers an experiment asks; texts leave this machine only for hosts it names."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from rag_assets.answers.generators import LlmGenerator
from rag_assets.errors import UsageError
from rag_assets.experiment.experiment import Experiment
from rag_assets.judges.llm import LlmJudge
from rag_assets.query_sets.query_set import PromptedQuerySet
from rag_assets.servers.secrets import host_of, is_loopback
from rag_assets.servers.transport import Server

NEXT_VERSION = "the next version refuses it"


@dataclass(frozen=True)
class Client:
    """Something in an experiment that asks a server, or a language model in this process.

    Attributes:
        key: where it stands in the YAML: ``llm``, ``llms.small`` or ``retrievers.jina``.
        address: of the server, without user, password and query; empty: there is no server.
        is_named: whether the experiment names the host, by its address or by a provider's type.
        is_bounded: whether ``max_calls`` or ``max_cost`` says how much may be asked.
    """

    key: str
    address: str
    is_named: bool
    is_bounded: bool

    @property
    def host(self) -> str:
        """The host of the address."""
        return host_of(self.address) or "this machine"

    @property
    def is_local(self) -> bool:
        """Whether nothing leaves this machine."""
        return not self.address or is_loopback(self.address)


def llm_client(experiment: Experiment, name: str | None) -> Client | None:
    """Return a language model as a client; None: there is none.

    Raises:
        UsageError: no model is named, or only the environment names its host.
    """
    llm = experiment.language_model(name)
    if llm is None:
        return None
    address = llm.endpoint().place if llm.type == "openai" else ""
    key = "llm" if name is None else f"llms.{name}"
    return Client(key, address, llm.names_host, llm.is_bounded)


def retriever_client(experiment: Experiment, retriever: str) -> Client | None:
    """Return a retriever as a client; None: it asks no server.

    A collection of vectors that is searched as it lies on a server (``url``) costs nothing by
    request, and needs no limit.
    """
    config, key = experiment.retrievers[retriever], f"retrievers.{retriever}"
    host = getattr(config, "host", None)  # of a database; the rest of its address is not for us
    if host is not None:
        return Client(key, f"postgresql://{host}", True, True)
    address = getattr(config, "base_url", None) or getattr(config, "url", None)
    if not isinstance(address, str):
        return None
    is_named = bool({"base_url", "url"} & config.model_fields_set) or config.provider is not None
    limits = [getattr(config, name, None) for name in ("max_calls", "max_cost")]
    is_bounded = limits != [None, None] or not hasattr(config, "base_url")
    return Client(key, Server(address).place, is_named, is_bounded)


def clients(experiment: Experiment) -> list[Client]:
    """Return all that asks servers on other machines: models that are used, then retrievers."""
    return [client for client in all_clients(experiment) if not client.is_local]


def all_clients(experiment: Experiment) -> list[Client]:
    """Return the same with what is asked on this machine."""
    used = {options.generator for options in experiment.answerers.values()}
    texts = (text for config in experiment.chunkings.values() for text in config.index_texts or ())
    names = [
        *([experiment.questions.llm] if experiment.questions is not None else []),
        *(s.llm for s in experiment.query_sets.values() if isinstance(s, PromptedQuerySet)),
        *(
            generator.llm
            for name, generator in experiment.generators.items()
            if name in used and isinstance(generator, LlmGenerator)
        ),
        *(judge.llm for judge in experiment.judges.values() if isinstance(judge, LlmJudge)),
        *(text.llm for text in texts if text.asks),
    ]
    found: list[Client | None] = []
    with suppress(UsageError):  # said where it is asked
        found += [llm_client(experiment, name) for name in dict.fromkeys(names)]
    found += [retriever_client(experiment, name) for name in experiment.retrievers]
    return [client for client in found if client is not None]


def host_notes(found: Iterable[Client]) -> list[str]:
    """Return a line for each client whose host is not named, or that is asked without a limit."""
    lines = []
    for client in found:
        if not client.is_named:
            lines.append(
                f"{client.key}: texts are sent to {client.host}, which the experiment does not "
                f"name; {NEXT_VERSION}: add `base_url: {client.address}`"
            )
        if not client.is_bounded:
            lines.append(
                f"{client.key}: {client.host} is asked without a limit; {NEXT_VERSION}: add "
                "`max_calls`, or `max_cost` where there is one"
            )
    return lines
