"""Which models and servers an experiment asks, and which of these judge their own work.

Texts leave this machine only for hosts that the experiment names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from rag_assets.answers.generators import LlmGenerator
from rag_assets.answers.own_generators import OwnGenerator
from rag_assets.experiment.experiment import Experiment
from rag_assets.judges.base import GROUNDEDNESS, VERDICTS
from rag_assets.judges.registry import LlmJudge, model_name
from rag_assets.labels.questions import question_authors
from rag_assets.query_sets.query_set import PromptedQuerySet
from rag_assets.retrieval.base import BaseRetriever
from rag_assets.retrieval.reranking.candidates import RerankedRetriever
from rag_assets.schemas import QUERIES
from rag_assets.servers.secrets import host_of, is_loopback
from rag_assets.servers.transport import Server
from rag_assets.store.artifacts import ArtifactKey

NEXT_VERSION = "the next version will refuse it"


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
    """Return a language model as a client; None: there is none."""
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


def generator_client(experiment: Experiment, name: str) -> Client | None:
    """Return a generator as a client: a server or code of the user's own; None: it is another."""
    generator = experiment.generators[name]
    if not isinstance(generator, OwnGenerator):
        return None
    address = getattr(generator, "url", None)
    return Client(f"generators.{name}", Server(address).place if address else "", True, True)


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
    clients = [llm_client(experiment, name) for name in dict.fromkeys(names)]
    clients += [retriever_client(experiment, name) for name in experiment.retrievers]
    retrieved_by = (getattr(one, "generator", None) for one in experiment.retrievers.values())
    used |= {name for name in retrieved_by if name is not None}
    clients += [generator_client(experiment, n) for n in experiment.generators if n in used]
    return [client for client in clients if client is not None]


def host_notes(found: Iterable[Client]) -> list[str]:
    """Return a line for each client with a host that is not named, or without a limit."""
    lines = []
    for client in found:
        if not client.is_named:
            lines.append(
                f"{client.key}: texts are sent to {client.host}, which the experiment does not "
                f"name; {NEXT_VERSION}: add `base_url: {client.address}`"
            )
        if not client.is_bounded:
            lines.append(
                f"{client.key}: {client.host} gets requests without a limit; {NEXT_VERSION}: add "
                "`max_calls`, or `max_cost` where there is one"
            )
    return lines


Work = tuple[str | None, str]
"""A model, and what it does, as the end of a sentence: ``writes the answers of plain``."""


def circular_uses(experiment: Experiment, key: ArtifactKey, queries: pa.Table) -> list[str]:
    """Return a sentence for each way in which a judge's model made what it judges.

    Args:
        experiment: the experiment.
        key: of verdicts.
        queries: table of :data:`rag_assets.schemas.QUERIES`.
    """
    judge = experiment.judges[key["judge"]]
    model = _model_of(experiment, judge.llm) if isinstance(judge, LlmJudge) else None
    works: list[Work] = []
    retrievers = list(experiment.retrievers)
    if key.asset != "relevance_verdicts":
        works += [
            (_model_of(experiment, generator.llm), f"writes the answers of {name}")
            for name, options in experiment.answerers.items()
            for generator in (experiment.generators[options.generator],)
            if isinstance(generator, LlmGenerator)
        ]
        answerers = experiment.answerers.values()
        retrievers = [block.retriever for block in answerers if block.retriever is not None]
    works += _retrieving(experiment, retrievers)
    works += [
        (author, f"wrote {n} of the {len(queries)} questions")
        for author, n in question_authors(queries).items()
    ]
    beginning = f"judge {key['judge']} uses {model}, which also"
    return [f"{beginning}{alias} {work}" for alias, work in _by_model(model, works)]


def question_circles(experiment: Experiment) -> list[str]:
    """Return a sentence for each way in which a retriever uses the model that wrote the questions.

    Such a retriever knows the words of its own questions: its means may be too high.
    """
    options = experiment.questions
    author = _model_of(experiment, options.llm) if options is not None else None
    works = _by_model(author, _retrieving(experiment, experiment.retrievers))
    return [
        f"{author} writes the questions, and{alias} {work}: so retrievers that use it may look "
        "better than they are"
        for alias, work in works
    ]


def judge_and_question_warnings(experiment: Experiment) -> list[str]:
    """Return what the YAML tells: all that the two functions above say, of every judge.

    And that a judge of groundedness has nothing to judge, since no answer has contexts. Who wrote
    questions that are not generated is not known before they are read.
    """
    keys = [
        ArtifactKey.of(asset, judge=judge)
        for asset, kinds in VERDICTS.items()
        for judge in experiment.judges_of(*kinds)
    ]
    lines = [line for key in keys for line in circular_uses(experiment, key, QUERIES.empty())]
    lines += [
        f"judge {judge} judges no groundedness: no answerer has contexts that are known; give one "
        "a `retriever` or a `context`"
        for judge in experiment.judges_of(GROUNDEDNESS)
        if not any(options.has_context for options in experiment.answerers.values())
    ]
    return [*question_circles(experiment), *dict.fromkeys(lines)]


def _retrieving(experiment: Experiment, retrievers: Iterable[str]) -> Iterator[Work]:
    """Yield what models do for some retrievers, and for those that these read."""
    names, waiting = dict[str, None](), list(retrievers)
    while waiting:
        names[name := waiting.pop(0)] = None
        waiting += experiment.inputs(name)
    for name in names:
        model = getattr(experiment.retrievers[name], "model", None)
        if isinstance(model, str) and isinstance(experiment.retrievers[name], RerankedRetriever):
            yield model, f"reranks for {name}"
    bases = [config for n in names if isinstance(config := experiment.retrievers[n], BaseRetriever)]
    for query_set in dict.fromkeys(config.query_set for config in bases):
        options = experiment.query_sets.get(query_set)
        if isinstance(options, PromptedQuerySet):
            yield _model_of(experiment, options.llm), f"writes the queries of {query_set}"
    for chunking in dict.fromkeys(c for name in names for c in experiment.chunkings_of(name)):
        for text in experiment.chunkings[chunking].index_texts or ():
            work = f"writes the {text.kind} by which {chunking} is found"
            yield _model_of(experiment, text.llm) if text.asks else None, work


def _by_model(model: str | None, works: Iterable[Work]) -> Iterator[tuple[str, str]]:
    """Yield what a model does, each time after the other name that is used for it, if any."""
    for name, work in works:
        if model is not None and name is not None and model_name(name) == model_name(model):
            yield "" if name == model else f" (as {name})", work


def _model_of(experiment: Experiment, name: str | None) -> str | None:
    llm = experiment.language_model(name)
    return None if llm is None else dict(llm.identity()).get("model")
