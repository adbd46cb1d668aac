"""Dagster's own check of what our code location loads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from rag_assets.pipeline.registry import register
from tests.tiny_experiment import Tiny

ROOT = Path(__file__).parents[2]


def test_dagster_finds_the_definitions_of_the_workspace_valid(fresh: Tiny) -> None:
    register(fresh.pipeline().experiment, fresh.settings)
    fresh.settings.dagster_home.mkdir(parents=True)
    command = [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"]
    variables = {
        "RAG_ASSETS_STORE": str(fresh.settings.store),
        "DAGSTER_HOME": str(fresh.settings.dagster_home),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
    }
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation successful for code location rag_assets" in done.stderr + done.stdout
    # Nothing of ours warns of a beta, a preview or a deprecation.
    assert "rag_assets" not in "".join(re.findall(r".*Warning.*", done.stderr))
