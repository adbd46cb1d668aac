"""Query sets that a language model writes: other wordings, passages and parts of each query.

Each is a prompt of its name in ``llm/prompts/``, how its answer is read, and its options.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

from rag_assets.query_sets.model_output import parsed_line, parsed_list, parsed_passage
from rag_assets.query_sets.query_set import Count, PromptedQuerySet, Strategy


class RewriteQuerySet(PromptedQuerySet):
    """Each query said once more, clear and complete."""

    strategy: Literal["rewrite"]

    def prompted(self) -> Strategy:
        return self.asking(parsed_line)


class StepBackQuerySet(PromptedQuerySet):
    """A more general question behind each query.

    Zheng et al., "Take a Step Back: Evoking Reasoning via Abstraction in Large Language Models",
    ICLR 2024.
    """

    strategy: Literal["step_back"]

    def prompted(self) -> Strategy:
        return self.asking(parsed_line)


class MultiQuerySet(PromptedQuerySet):
    """``n`` paraphrases of each query: RAG-Fusion when their rankings are fused by ``rrf``.

    Rackauckas, "RAG-Fusion: a New Take on Retrieval-Augmented Generation", 2024.
    """

    reads_list: ClassVar[bool] = True

    strategy: Literal["multi_query"]
    n: Count = 4

    def prompted(self) -> Strategy:
        return self.asking(partial(parsed_list, at_most=self.n), {"n": self.n})


class DecomposeQuerySet(PromptedQuerySet):
    """At most ``n`` simple questions that a complex query is made of.

    Khot et al., "Decomposed Prompting: A Modular Approach for Solving Complex Tasks", ICLR 2023. A
    query that is simple comes back as itself and keeps its original alone.
    """

    strategy: Literal["decompose"]
    n: Count = 4

    def prompted(self) -> Strategy:
        return self.asking(partial(parsed_list, at_most=self.n), {"n": self.n})


class HydeQuerySet(PromptedQuerySet):
    """HyDE: a passage that would answer the query; ``samples`` of them.

    Gao et al., "Precise Zero-Shot Dense Retrieval without Relevance Labels", ACL 2023. There the
    vectors of the passages and of the query are averaged; here each is searched, and the fusion
    over the variants joins them: ``sum`` of inner products ranks as their average does, where
    every ranking holds every document.
    """

    strategy: Literal["hyde"]
    samples: Count = 1

    def prompted(self) -> Strategy:
        return self.asking(parsed_passage, samples=self.samples)
