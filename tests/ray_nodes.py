"""A Ray cluster of this machine: each node is a raylet of its own, with processes of its own."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MEMORY = 80 * 2**20
"""Bytes of a node's object store: the least that Ray takes."""


class Nodes:
    """The nodes of a cluster; the first one is its head."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._others: list[Any] = []
        self._n_added = 0

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self) -> None:
        """Start a node with room for one worker."""
        address = f"127.0.0.{3 + self._n_added}"
        node = self._cluster.add_node(
            num_cpus=1, object_store_memory=MEMORY, node_ip_address=address
        )
        self._n_added += 1
        self._others.append(node)

    def kill_one(self) -> None:
        """Take a node's power away."""
        node = self._others.pop()
        for process in [info.process for infos in node.all_processes.values() for info in infos]:
            os.kill(process.pid, signal.SIGKILL)


@contextmanager
def ray_nodes() -> Iterator[Nodes]:
    """Yield a cluster of two nodes with a core each, on loopback, and end its processes."""
    # Names of sockets are short, so the folder is not that of the test.
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as folder:
        # Else the cluster would be known to everybody on the machine, as `auto`.
        os.environ |= {"RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0"}
        import ray
        from ray.cluster_utils import Cluster

        (Path(folder) / "ray").mkdir()
        head = {
            "num_cpus": 1,
            "object_store_memory": MEMORY,
            "include_dashboard": False,
            "node_ip_address": "127.0.0.2",
        }
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            nodes = Nodes(cluster)
            nodes.add()
            yield nodes
        finally:
            del os.environ["RAY_TMPDIR"]
            ray.shutdown()
            cluster.shutdown()  # type: ignore[no-untyped-call]
