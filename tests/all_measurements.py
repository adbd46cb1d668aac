"""What was measured in an experiment: what its tests compare."""

from __future__ import annotations

import json

from rag_assets.engine.measurements import Measurement, Measurements


def all_measurements(measurements: Measurements) -> list[Measurement]:
    """Return what each file holds, in the order of the files."""
    files = sorted(measurements.folder.glob("*/*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]
