"""``type: generator``: what a generator retrieves by itself, as a run beside the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from rag_assets.answers.generators import Generator, Question
from rag_assets.answers.own_generators import OwnGenerator
from rag_assets.llm.completions import ModelSession
from rag_assets.retrieval.external.base import AnsweredRetriever, QueryResult
from rag_assets.servers.failures import Failed


class GeneratorRetriever(AnsweredRetriever):
    """The contexts that one of the ``generators`` returns with its answer to the question alone.

    It must be of ``type: python`` or ``http``, and say its ``revision``. Each question is asked
    once, for its answer and its contexts. Ids are those of documents; texts and spans are located
    in the documents, as those of a search.
    """

    type: Literal["generator"]

    def asked(self, generator: Generator, revision: str | None) -> Mapping[str, str]:
        return _own(generator).identity(revision)

    def read(
        self, generator: Generator, questions: Sequence[Question], session: ModelSession
    ) -> list[QueryResult]:
        answers = _own(generator).own_answers(questions, session)
        results = [
            QueryResult(error=one.reason)
            if isinstance(one, Failed)
            else QueryResult(one.contexts or ())
            for one, _ in answers
        ]
        silent = sum(not one.error and not one.hits for one in results)
        session.notes.extend([f"answers that tell of no context: {silent}"] if silent else [])
        return results


def _own(generator: Generator) -> OwnGenerator:
    if not isinstance(generator, OwnGenerator):
        raise TypeError(f"a generator of type {generator.type} retrieves nothing")
    return generator
