"""Prompts of known models: said of an index and on the page, warned about where one is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rag_assets.checks.retriever_warnings import prompt_warnings
from rag_assets.cli import main
from tests.static_model import save_static_model
from tests.tiny_experiment import DOCUMENTS, Tiny


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    model = save_static_model(tmp_path / "e5-small", [*DOCUMENTS.values(), "query passage"])
    tiny = Tiny(tmp_path / "tiny").write()
    tiny.configure("asymmetric", type="embedding", chunking="parts", model=str(model))
    return tiny


def test_where_a_model_runs_without(tiny: Tiny) -> None:
    model = tiny.config["retrievers"]["asymmetric"]["model"]
    tiny.configure("late", type="maxsim", input="bm25", model=model, query_prompt="")
    tiny.configure("absent", type="embedding", chunking="parts", model="./absent/e5-base")
    tiny.configure(
        "served",
        type="openai_embedding",
        chunking="parts",
        model="intfloat/e5-base",
        base_url="http://127.0.0.1:9/v1",
        query_prompt="query: ",
    )
    said = [
        line.split(" was trained with ") for line in prompt_warnings(tiny.pipeline().experiment)
    ]
    assert [(names.split("'")[1], rest) for names, rest in said] == [
        ("late", "'query: ' before every query; give it as query_prompt"),
        ("served", "'passage: ' before every document; give it as document_prompt"),
    ]
    words = ["plan", str(tiny.folder), "--store", str(tiny.settings.store)]
    planned = CliRunner().invoke(main, words)
    assert "warning: retriever 'late': model '" in planned.stderr


def test_a_search_of_its_own_has_its_queries_embedded_without(tiny: Tiny) -> None:
    """The vectors of its documents are its own: nothing is said of a prompt for them."""
    model = tiny.config["retrievers"].pop("asymmetric")["model"]
    search: dict[str, Any] = {"type": "http", "url": "http://127.0.0.1:9/search", "revision": "1"}
    search |= {"body": {"v": "{vector}"}, "hits": "hits", "id": "id"}
    tiny.configure("usual", **search, embedding={"model": model})
    tiny.configure("without", **search, embedding={"model": model, "query_prompt": ""})
    assert prompt_warnings(tiny.pipeline().experiment) == [
        f"retriever 'without': embedding: model '{model}' (E5) was trained with 'query: ' before "
        "every query; give it as query_prompt"
    ]


def test_what_was_put_before_texts_is_said(tiny: Tiny) -> None:
    words = ["evaluate", str(tiny.folder), "--store", str(tiny.settings.store)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    note = (
        "asymmetric: prompts: 'query: ' before every query (the table of known models), "
        "'passage: ' before every document (the table of known models)"
    )
    assert note in " ".join(done.stderr.split())
    page = (tiny.artifacts / "report.html").read_text(encoding="utf-8")
    assert note.replace("'", "&#39;") in page
