"""Peers run in environments of their own, which are made here and never in ours."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
ENVIRONMENTS = REPOSITORY / "build" / "benchmarks" / "peers"


def python_with(name: str, requirements: Sequence[str], *, no_deps: Sequence[str] = ()) -> Path:
    """Return the interpreter of the environment ``name``, made when it is not there.

    Args:
        name: folder of the environment.
        requirements: pinned, as pip takes them.
        no_deps: what is installed without what it requires.

    Raises:
        subprocess.CalledProcessError: pip could not install it.
    """
    folder = ENVIRONMENTS / name
    python, asked = folder / "bin" / "python", folder / "requirements.txt"
    wanted = "\n".join([*requirements, *no_deps])
    if asked.is_file() and asked.read_text(encoding="utf-8") == wanted:
        return python
    venv.create(folder, with_pip=True, clear=True)
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    if requirements:
        subprocess.run([*pip, *requirements], check=True)
    if no_deps:
        subprocess.run([*pip, "--no-deps", *no_deps], check=True)
    asked.write_text(wanted, encoding="utf-8")
    return python


def ask(
    python: Path | str,
    script: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run a script in a process of its own, and return the JSON object in its last line.

    ``PYTHONPATH`` is empty: a peer's environment holds nothing of this repository. A script that
    needs this package is run by this interpreter, where it is installed.

    Raises:
        subprocess.CalledProcessError: the script failed.
    """
    done = subprocess.run(
        [str(python), str(script), *arguments],
        env={**os.environ, "PYTHONPATH": "", **(environment or {})},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def peak_bytes() -> int:
    """Return the most memory that this process held.

    Not ``ru_maxrss``: that of a child begins with the memory of the process that started it.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
