"""Connects this process to a Ray cluster, or says in one line why it cannot."""

from __future__ import annotations

import socket
from importlib.util import find_spec

from rag_assets.errors import ComputeUnavailable, UsageError
from rag_assets.kept_signals import kept_sigterm

SECONDS = 5.0
"""How long a server may take to accept a connection."""

_connected: list[str] = []
"""The address to which ``connect`` connected this process, if it did."""


def connect(address: str) -> None:
    """Connect this process; one that is connected already stays so.

    Raises:
        UsageError: Ray is not installed.
        ComputeUnavailable: there is no cluster at the address, or it is of another version.
    """
    if find_spec("ray") is None:
        raise UsageError("compute: ray needs the package ray: pip install 'rag-assets[ray]'")
    import ray
    from ray.exceptions import RayError

    if ray.is_initialized():
        return
    if address != "auto":
        _check_answers(address)
    try:
        with kept_sigterm():
            ray.init(address, log_to_driver=False, configure_logging=False)
    except (RuntimeError, ValueError, ImportError, OSError, RayError) as error:
        raise ComputeUnavailable(_refused(address, str(error))) from error
    _connected.append(address)


def disconnect() -> None:
    """Leave the cluster to which ``connect`` connected this process; its workers end."""
    if _connected:
        import ray

        ray.shutdown()
        _connected.clear()


def _check_answers(address: str) -> None:
    """Ask for a connection before Ray does, which waits for a cluster for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ComputeUnavailable(_refused(address, str(error))) from error


def _refused(address: str, problem: str) -> str:
    where = "on this machine, nor is RAY_ADDRESS set" if address == "auto" else f"at {address}"
    what = " ".join(problem.split())[:300].rstrip(".")
    return (
        f"compute: ray found no Ray cluster {where}: {what}; start one with `ray start --head`, "
        "give its `address`, or set RAG_ASSETS_COMPUTE=local"
    )
