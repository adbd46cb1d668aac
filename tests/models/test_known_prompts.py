"""Prompts: what the experiment says, else the model's own files, else the table of known models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag_assets.models.encoder import Encoder
from rag_assets.models.known_prompts import known_model, prompts_of, served_prompts
from rag_assets.retrieval.dense.embedding import BiEncoder
from rag_assets.retrieval.workspace import NO_WORKSPACE
from tests.static_model import save_static_model

BGE = "Represent this sentence for searching relevant passages: "


@pytest.mark.parametrize(
    ("name", "query", "document"),
    [
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("/models/Multilingual-E5-Large/", "query: ", "passage: "),
        ("BAAI/bge-small-en-v1.5", BGE, ""),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        ("thenlper/gte-base", "", ""),
        ("BAAI/bge-m3", "", ""),
        ("sentence-transformers/msmarco-distilbert-base-tas-b", "", ""),
    ],
)
def test_the_table(name: str, query: str, document: str) -> None:
    known = known_model(name)
    assert known is not None
    assert (known.query, known.document) == (query, document)


def test_instructions_and_characters_as_the_cards_have_them() -> None:
    instructed = known_model("intfloat/multilingual-e5-large-instruct")
    assert instructed is not None
    assert instructed.query.endswith("that answer the query\nQuery: ")
    chinese = known_model("BAAI/bge-large-zh-v1.5")
    assert chinese is not None
    assert chinese.query == "\u4e3a\u8fd9\u4e2a\u53e5\u5b50\u751f\u6210\u8868\u793a" + (
        "\u4ee5\u7528\u4e8e\u68c0\u7d22\u76f8\u5173\u6587\u7ae0\uff1a"
    )


@pytest.mark.parametrize(
    "name", ["sentence-transformers/all-MiniLM-L6-v2", "my-e5-base", "e5", "intfloat", "", "/"]
)
def test_other_models_are_not_known(name: str) -> None:
    assert known_model(name) is None


@pytest.fixture
def e5(tmp_path: Path) -> Path:
    return save_static_model(tmp_path / "e5-small", ["query passage ferry storm other"])


def test_the_table_comes_after_the_models_own_files_and_the_experiment(e5: Path) -> None:
    found = prompts_of(str(e5), None, None)
    assert found.texts == {"query": "query: ", "document": "passage: "}
    assert found.sources == {"query": "table", "document": "table"}
    assert found.warning("e5") is None
    half = prompts_of(str(e5), "", None)
    assert half.texts == {"query": "", "document": "passage: "}
    assert half.sources["query"] == "experiment"
    config = e5 / "config_sentence_transformers.json"
    declared = json.loads(config.read_text()) if config.exists() else {}
    config.write_text(json.dumps({**declared, "prompts": {"query": "ask: "}}))
    own = prompts_of(str(e5), None, None)
    assert own.texts == {"query": "ask: ", "document": ""}
    assert set(own.sources.values()) == {"model"}
    assert own.for_encoder("query") is None
    assert own.note == "prompts: 'ask: ' before every query (the model's own configuration)"


def test_a_copy_is_known_by_the_name_that_its_files_keep(tmp_path: Path) -> None:
    folder = save_static_model(tmp_path / "copy", ["ferry"])
    assert prompts_of(str(folder), None, None).known is None
    (folder / "config.json").write_text('{"_name_or_path": "intfloat/e5-base"}')
    assert prompts_of(str(folder), None, None).texts["document"] == "passage: "


def test_a_retriever_reads_texts_with_the_prompts_of_the_table(e5: Path) -> None:
    config = BiEncoder(type="embedding", model=str(e5))
    assert config.describe("query")["prompt"] == "query: "
    assert config.describe("document")["prompt"] == "passage: "
    encoder = Encoder(**NO_WORKSPACE.encoder_options(config, "embeddings"))
    plain = Encoder(str(e5), query_prompt="", document_prompt="")
    for kind, text in (("query", "query: storm"), ("document", "passage: storm")):
        same = encoder.encode(["storm"], kind=kind)  # type: ignore[arg-type]
        assert same.tolist() == plain.encode([text], kind="query").tolist()
        assert same.tolist() != plain.encode(["storm"], kind="query").tolist()


def test_what_runs_without_is_warned_about(e5: Path) -> None:
    assert prompts_of(str(e5), "", "").warning("e5") == (
        "model 'e5' (E5) was trained with 'query: ' before every query and 'passage: ' before "
        "every document; give it as query_prompt and document_prompt"
    )
    served = served_prompts("BAAI/bge-base-en", "", "")
    assert served.warning("BAAI/bge-base-en") == (
        f"model 'BAAI/bge-base-en' (BGE) was trained with '{BGE}' before every query; give it as "
        "query_prompt"
    )
    assert served.note is None
    assert served_prompts("BAAI/bge-base-en", "find: ", "").warning("BAAI/bge-base-en") is None
    assert served_prompts("thenlper/gte-base", "", "").warning("thenlper/gte-base") is None
