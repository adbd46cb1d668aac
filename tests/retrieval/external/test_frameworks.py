"""Retrievers of frameworks, with their own splitters, on the handbook and its evidence.

They are no part of any extra: where one is installed beside this package, its test runs.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rag_assets.evaluation.metrics_stage import summary_key
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.external.stage import hits_key
from rag_assets.store.settings import StoreSettings
from tests.conftest import REPOSITORY
from tests.tiny_experiment import materialize

# Words, each at a place of its own by its hash: no model is needed, and it is no bad search.
VECTORS = """
import re
import zlib
from math import sqrt
from pathlib import Path

FILES = sorted(Path("<folder>").glob("*/*.md"))


def vector(text):
    values = [0.0] * 2048
    for word in re.findall(r"[a-z0-9]+", text.lower()):
        values[zlib.crc32(word.encode()) % 2048] = 1.0
    length = sqrt(sum(values)) or 1.0
    return [value / length for value in values]
"""

LANGCHAIN = f"""{VECTORS}
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter


class Words(Embeddings):
    def embed_documents(self, texts):
        return [vector(text) for text in texts]

    def embed_query(self, text):
        return vector(text)


pages = [Document(file.read_text(), metadata={{"source": str(file)}}) for file in FILES]
parts = RecursiveCharacterTextSplitter(chunk_size=600, chunk_overlap=80).split_documents(pages)
store = InMemoryVectorStore(Words())
store.add_documents(parts)
retriever = store.as_retriever()
"""

LLAMA_INDEX = f"""{VECTORS}
from llama_index.core import SimpleDirectoryReader, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.node_parser import SentenceSplitter


class Words(BaseEmbedding):
    def _get_text_embedding(self, text):
        return vector(text)

    def _get_query_embedding(self, query):
        return vector(query)

    async def _aget_query_embedding(self, query):
        return vector(query)


pages = SimpleDirectoryReader(input_files=FILES).load_data()
splitter = SentenceSplitter(chunk_size=160, chunk_overlap=20)
index = VectorStoreIndex.from_documents(pages, transformations=[splitter], embed_model=Words())
retriever = index.as_retriever()
"""

HAYSTACK = f"""{VECTORS}
from haystack import Document
from haystack.components.preprocessors import DocumentSplitter
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

pages = [Document(content=file.read_text(), meta={{"file_path": str(file)}}) for file in FILES]
splitter = DocumentSplitter(split_by="word", split_length=90, split_overlap=10)
store = InMemoryDocumentStore()
store.write_documents(splitter.run(documents=pages)["documents"])
retriever = InMemoryBM25Retriever(store)
"""

FRAMEWORKS = {
    "langchain_text_splitters": LANGCHAIN,
    "llama_index.core": LLAMA_INDEX,
    "haystack": HAYSTACK,
}


@pytest.mark.parametrize("module", FRAMEWORKS)
def test_two_lines_of_yaml_evaluate_it(module: str, tmp_path: Path) -> None:
    pytest.importorskip(module, reason=f"{module} is not installed here")
    folder = tmp_path / "handbook"
    shutil.copytree(REPOSITORY / "data" / "handbook", folder)
    code = FRAMEWORKS[module].replace("<folder>", str(folder))
    (folder / "theirs.py").write_text(code, encoding="utf-8")
    (folder / "experiment.yaml").write_text(
        "retrievers:\n  theirs: {type: python, call: theirs.py:retriever}\n", encoding="utf-8"
    )
    experiment = load_experiment(folder)
    assert experiment.judge == "evidence"
    pipeline = Pipeline(experiment, StoreSettings.resolve(tmp_path / "store"))
    materialize(pipeline)
    hits = pipeline.artifact(hits_key("theirs"))
    found = hits.manifest.facts["located"]
    assert found["exact"] + found.get("normalised", 0) >= 0.99 * hits.manifest.rows
    assert hits.manifest.failures == {}
    rows = pipeline.artifact(summary_key("theirs")).table().to_pylist()
    (at_10,) = [row for row in rows if row["top_k"] == 10]
    assert at_10["n_failed"] == 0
    assert at_10["ndcg"] > 0.4
