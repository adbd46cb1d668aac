from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assets.errors import ConfigError
from rag_assets.experiment import Experiment, load_experiment
from tests.beir_folder import write_beir

Load = Callable[[str | bytes], Experiment]
Problem = Callable[[str | bytes], str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_beir(tmp_path / "tiny")


@pytest.fixture
def load(folder: Path) -> Load:
    def load_text(text: str | bytes) -> Experiment:
        content = text.encode() if isinstance(text, str) else text
        (folder / "experiment.yaml").write_bytes(content)
        return load_experiment(folder)

    return load_text


@pytest.fixture
def problem(load: Load, folder: Path) -> Problem:
    def find(text: str | bytes) -> str:
        with pytest.raises(ConfigError) as caught:
            load(text)
        message = str(caught.value)
        file = str(folder / "experiment.yaml")
        assert message.startswith(file)
        assert message.isprintable()
        return message.removeprefix(file)

    return find
