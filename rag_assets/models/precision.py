"""In which precision a model computes: fp32, or bfloat16 where the processor has it.

bfloat16 has the range of fp32 and 8 bits of its 24: weights and what layers hand on are rounded to
3 digits. It pays only where the processor multiplies such numbers by itself.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

Precision = Literal["float32", "bfloat16"]
Wanted = Literal["auto", "float32", "bfloat16"]

CPUINFO = Path("/proc/cpuinfo")
_INSTRUCTIONS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""As Linux names them: of x86 the first two, of Arm the last."""


def resolved(wanted: Wanted) -> Precision:
    """Return the precision that is used: ``auto`` is bfloat16 where the processor has it.

    It looks at the processor alone, also where a model runs on a GPU, and imports nothing.
    """
    if wanted == "auto":
        return "bfloat16" if has_bfloat16(CPUINFO) else "float32"
    return wanted


@lru_cache
def has_bfloat16(cpuinfo: Path) -> bool:
    """Return whether a file such as ``/proc/cpuinfo`` names instructions for bfloat16.

    False where there is no such file: only Linux has it.
    """
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    named = (line.partition(":") for line in lines)
    flags = (value for name, _, value in named if name.strip() in ("flags", "Features"))
    return any(not _INSTRUCTIONS.isdisjoint(value.split()) for value in flags)


def precision_facts(wanted: Wanted) -> dict[str, Any]:
    """Return the precision for a manifest, with a note for people where it is not fp32."""
    used = resolved(wanted)
    if used == "float32":
        return {"precision": used}
    note = f"vectors were computed in {used} (precision: {wanted}); float32 is the reference"
    return {"precision": used, "notes": [note]}
