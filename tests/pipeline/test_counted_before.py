from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.pipeline.counted_before import COUNTED_BY, counted_before, with_known_counts
from rag_assets.pipeline.stages.chunks import chunks_key
from rag_assets.pipeline.stages.contexts import Contexts, contexts_key
from tests.context_tokens import word_tokenizer
from tests.tiny_experiment import Tiny

KEY = contexts_key("parts")


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    tiny = Tiny(tmp_path / "tiny")
    tiny.folder.mkdir(parents=True)
    tiny.config["context"] = {"tokenizer": str(word_tokenizer(tiny.root))}
    tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"]}
    tiny.write().run()
    return tiny


def counted_again(tiny: Tiny, code: str = "") -> int:
    """How many of two texts, one of a chunk and one that is new, are counted."""
    pipeline = tiny.pipeline()
    old = pipeline.artifact(chunks_key("parts")).table()["text"][0].as_py()
    texts, asked = ["a new text", old], []

    def count(new: list[str]) -> list[int]:
        asked.extend(new)
        return [len(text.split()) for text in new]

    versions = dict(Contexts().versions(pipeline, KEY))
    versions[COUNTED_BY] = code or versions[COUNTED_BY]
    known = counted_before(pipeline.store, KEY.asset, versions)
    assert with_known_counts(texts, known, count) == [len(text.split()) for text in texts]
    return len(asked)


def test_only_new_texts_are_counted(tiny: Tiny) -> None:
    assert counted_again(tiny) == 1


def test_nothing_is_taken_of_other_code_another_tokenizer_or_a_damaged_file(tiny: Tiny) -> None:
    assert counted_again(tiny, code="0") == 2
    file = Path(str(tiny.config["context"]["tokenizer"]))
    content = file.read_text(encoding="utf-8")
    file.write_text(f"{content} ", encoding="utf-8")
    assert counted_again(tiny) == 2
    file.write_text(content, encoding="utf-8")
    assert counted_again(tiny) == 1
    (artifact,) = tiny.objects("contexts").rglob("*.parquet")
    artifact.write_bytes(artifact.read_bytes()[:-9])
    assert counted_again(tiny) == 2


def test_an_edit_gives_the_bytes_of_an_evaluation_from_nothing(tiny: Tiny, tmp_path: Path) -> None:
    fresh = tiny.copy_to(tmp_path / "fresh")
    for one in (tiny, fresh):
        one.replace("crew.md", "A crew of five", "A crew of exactly five")
    for artifact in fresh.objects("contexts").rglob("*.parquet"):
        artifact.unlink()
    assert "contexts/parts" in tiny.run()
    fresh.run()
    both = [one.pipeline().artifact(KEY).path.read_bytes() for one in (tiny, fresh)]
    assert both[0] == both[1]
