"""The grid by LlamaIndex's ``RetrieverEvaluator``; a contender of ``grid.py``, in its environment.

    PYTHON benchmarks/with_llama_index.py FOLDER MODEL

As its users do it: a retriever for each cut-off, all questions given to the evaluator. ``ndcg`` and
``ap`` are left out: other formulas (docs/dialects.md).
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from pathlib import Path

from grid_input import DEPTH, TOP_K, Input, read
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.evaluation import RetrieverEvaluator
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import TextNode
from llama_index.embeddings.huggingface import HuggingFaceEmbedding
from llama_index.retrievers.bm25 import BM25Retriever

MEASURES = ["hit_rate", "mrr", "precision", "recall"]


async def means(retriever: BaseRetriever, given: Input) -> dict[str, float]:
    """Return ``measure`` -> mean over the questions."""
    evaluator = RetrieverEvaluator.from_metric_names(MEASURES, retriever=retriever)
    values = [
        (await evaluator.aevaluate(given.queries[query], list(graded))).metric_vals_dict
        for query, graded in given.qrels.items()
    ]
    return {name: statistics.fmean(one[name] for one in values) for name in MEASURES}


async def main() -> None:
    """Evaluate three retrievers at each cut-off and print the metrics as JSON."""
    folder, model = Path(sys.argv[1]), sys.argv[2]
    given = read(folder)
    nodes = [TextNode(id_=key, text=text) for key, text in given.documents.items()]
    embedding = HuggingFaceEmbedding(model_name=model, embed_batch_size=32)
    index = VectorStoreIndex(nodes, embed_model=embedding)
    depth = min(DEPTH, len(nodes))
    deep = [
        BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=depth),
        index.as_retriever(similarity_top_k=depth),
    ]
    found: dict[str, dict[str, float]] = {"bm25": {}, "minilm": {}, "hybrid": {}}
    for k in TOP_K:
        retrievers = {
            "bm25": BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=min(k, depth)),
            "minilm": index.as_retriever(similarity_top_k=k),
            "hybrid": QueryFusionRetriever(
                deep,
                llm=MockLLM(),
                mode="reciprocal_rerank",
                similarity_top_k=k,
                num_queries=1,
                use_async=False,
            ),
        }
        for name, retriever in retrievers.items():
            values = await means(retriever, given)
            found[name] |= {f"{measure}@{k}": value for measure, value in values.items()}
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    asyncio.run(main())
