"""What is evaluated once for the tests of a file, and copied for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.judges.judged_experiment import Evaluated
from tests.llm.server import Server
from tests.tiny_experiment import Tiny


@pytest.fixture
def server(evaluated: Evaluated) -> Iterator[Server]:
    """The server of the module's experiment, as it was."""
    yield evaluated.server
    evaluated.server.forget_rules()


@pytest.fixture
def judged(evaluated: Evaluated, tmp_path: Path) -> Tiny:
    """A copy of the module's experiment, for which all is asked already."""
    return evaluated.tiny.copy_to(tmp_path / "copy")
