from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.models.model_names import DEFAULT_MODEL, local_model, resolve_model


@pytest.mark.parametrize("name", [DEFAULT_MODEL, "all-MiniLM-L6-v2"])
def test_the_default_model_is_here(name: str) -> None:
    assert local_model(name) == resolve_model(name)


def test_what_would_be_downloaded_is_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a hub was asked")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", refused)
    for name in ("nobody/no-such-model", "text-embedding-3-small", str(tmp_path), "./gone", "a b"):
        assert local_model(name) is None
