from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from rag_assets.errors import ConfigError
from rag_assets.llm.client import Message
from rag_assets.llm.templates import Template, packaged_template, read_template

PLACES = (
    *("query", "n", "language", "title", "text", "passages", "context", "question"),
    *("passage", "golds", "answer", "fields", "document", "chunk"),
)


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_reads_version_and_messages(tmp_path: Path) -> None:
    text = "version: 2b\n# why\n\n[system]\nBe {adjective}.\n\n[user]\n\n{query}\n# kept\n\n"
    template = read_template(write(tmp_path, text), ["query"], ["adjective"])
    messages = (Message("system", "Be {adjective}."), Message("user", "{query}\n# kept"))
    assert template == Template("mine", "2b", messages)
    assert template.label == "mine/2b"
    assert template.places == {"adjective", "query"}


def test_values_are_put_in_once() -> None:
    template = Template("t", "1", (Message("user", '{query} {n} {"a": 1} {other}'),))
    filled = template.filled({"query": "what is {n}?", "n": 3})
    assert filled == (Message("user", 'what is {n}? 3 {"a": 1} {other}'),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ":1: the first line must be"),
        ("[user]\n{query}", ":1: the first line must be"),
        ("version: 1\nhello\n[user]\n{query}", ":2: text before the first message"),
        ("version: 1\n[system]\n{query}", "no message .user."),
        ("version: 1\n[user]\nhello", "`query`: the prompt has no place for it"),
        ("version: 1\n[user]\n{query} {qurey}", "`qurey`: nothing fills this place; allowed: n, q"),
    ],
)
def test_broken_prompts(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        read_template(write(tmp_path, text), ["query"], ["n"])
    assert "mine.txt" in str(raised.value)


def test_unreadable_prompts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.txt: the prompt cannot be read: No such file"):
        read_template(tmp_path / "gone.txt", [], [])
    (tmp_path / "mine.txt").write_bytes(b"version: 1\n\xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_template(tmp_path / "mine.txt", [], [])


def test_every_packaged_prompt_can_be_read() -> None:
    folder = resources.files("rag_assets.llm") / "prompts"
    names = sorted(file.name.removesuffix(".txt") for file in folder.iterdir())
    assert len(names) >= 6
    for name in names:
        assert packaged_template(name, [], PLACES).label == f"{name}/1"
