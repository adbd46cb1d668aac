from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assets.models.model_names import resolve_model

ROOT = Path(__file__).parents[2]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_python(tmp_path: Path) -> Run:
    """Run code in a new interpreter, with an empty hub cache and the given variables."""

    def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
        paths = [variables.pop("FIRST_PATH", ""), str(ROOT)]
        environment = {
            **os.environ,
            "HF_HOME": str(tmp_path / "hub-home"),
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            **variables,
        }
        return subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    return resolve_model("sentence-transformers/all-MiniLM-L6-v2").path


@pytest.fixture
def small_files(minilm_folder: Path, tmp_path: Path) -> Path:
    """A copy of the default model's folder with a few bytes in place of its weights."""
    folder = tmp_path / "model"
    ignored = shutil.ignore_patterns("*.safetensors", "data_config.json")
    shutil.copytree(minilm_folder, folder, ignore=ignored)
    (folder / "model.safetensors").write_bytes(b"not the weights")
    return folder
