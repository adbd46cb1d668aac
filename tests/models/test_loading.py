from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from rag_assets.models.loading import is_loaded
from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model
assert not is_loaded(resolve_model(DEFAULT_MODEL))
assert "torch" not in sys.modules
"""


def test_whether_a_model_is_loaded_is_told_without_torch() -> None:
    """An evaluation whose vectors are all in the cache asks, and needs no model."""
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
