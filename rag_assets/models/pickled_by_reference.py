"""A model that is named to another machine, which must have the same files of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rag_assets.errors import ModelUnavailable
from rag_assets.models.model_files import ModelFiles, config_sha256


@dataclass(frozen=True)
class SentModel:
    """What is sent of a model: its name, or its folder, and the hashes of its files."""

    files: ModelFiles
    config_sha256: str

    @classmethod
    def of(cls, files: ModelFiles) -> SentModel:
        """Describe the model of this machine."""
        return cls(files, config_sha256(files.path))

    def found(self, resolve: Callable[[str], ModelFiles]) -> ModelFiles:
        """Return the files of the same model on this machine.

        Args:
            resolve: finds the files by the name or the folder.

        Raises:
            ModelUnavailable: there is none, or its files are others.
        """
        name = str(self.files.path) if self.files.source == "folder" else self.files.name
        here = resolve(name)
        if _hashes(SentModel.of(here)) != _hashes(self):
            raise ModelUnavailable(
                f"model '{name}' has other weights, another tokenizer or another configuration in "
                f"{here.path} than where the evaluation runs; its folder must be the same"
            )
        return here


class ModelByHash(ABC):
    """What works with a model, and takes the model's files of the machine that it is sent to."""

    files: ModelFiles

    @abstractmethod
    def _resolve(self, name: str) -> ModelFiles:
        """Return the files of a model by its name or its folder."""

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker on another machine needs."""
        return {**vars(self), "files": SentModel.of(self.files)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the model's files from this machine.

        Raises:
            ModelUnavailable: it has no such model, or another one of the name.
        """
        vars(self).update({**state, "files": state["files"].found(self._resolve)})


def _hashes(sent: SentModel) -> tuple[str, str, str]:
    return sent.files.weights_sha256, sent.files.tokenizer_sha256, sent.config_sha256
