"""The simulations of benchmarks/judge_calibration.py, for tests."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_SCRIPT = Path(__file__).parents[2] / "benchmarks" / "judge_calibration.py"

simulations: Any = SimpleNamespace(**runpy.run_path(str(_SCRIPT)))
"""What the script defines, by name."""
