from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rag_assets.models.model_names import DEFAULT_MODEL, local_model, resolve_model


@pytest.mark.parametrize("name", [DEFAULT_MODEL, "all-MiniLM-L6-v2"])
def test_the_default_model_is_here(name: str) -> None:
    assert local_model(name) == resolve_model(name)


def test_a_folder_is_the_model_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(resolve_model(DEFAULT_MODEL).path, folder, copy_function=os.symlink)
    found = local_model(str(folder))
    assert found is not None
    assert (found.path, found.source) == (folder.resolve(), "folder")


def test_what_would_be_downloaded_is_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a hub was asked")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", refused)
    for name in ("nobody/no-such-model", "text-embedding-3-small", str(tmp_path), "./gone", "a b"):
        assert local_model(name) is None
