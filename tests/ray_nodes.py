"""A Ray cluster of this machine: each node is a raylet of its own, with processes of its own."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NODE = {
    "num_cpus": 1,
    "object_store_memory": 80 * 2**20,  # the least that Ray takes
    "node_ip_address": "127.0.0.1",
}
LOOPBACK_ONLY = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Where it is 0 a process takes 127.0.0.1 for its address; else Ray listens everywhere."""


class Nodes:
    """The nodes of a cluster; the first one is its head."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._others: list[Any] = []

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self) -> None:
        self._others.append(self._cluster.add_node(**NODE))

    def processes(self) -> list[int]:
        nodes = [self._cluster.head_node, *self._others]
        infos = [info for node in nodes for all in node.all_processes.values() for info in all]
        return [info.process.pid for info in infos]

    def kill_one(self) -> None:
        node = self._others.pop()
        for process in [info.process for infos in node.all_processes.values() for info in infos]:
            os.kill(process.pid, signal.SIGKILL)


@contextmanager
def ray_nodes() -> Iterator[Nodes]:
    # Names of sockets are short, so the folder is not that of the test.
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as folder:
        # Else the cluster would be known to everybody on the machine, as `auto`.
        own = {"RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0", LOOPBACK_ONLY: "0"}
        os.environ |= own
        import ray
        from ray._private import ray_constants
        from ray.cluster_utils import Cluster

        ray_constants.ENABLE_RAY_CLUSTER = False  # it may have been imported before
        (Path(folder) / "ray").mkdir()
        head = {**NODE, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            nodes = Nodes(cluster)
            nodes.add()
            yield nodes
        finally:
            for name in own:
                del os.environ[name]
            ray.shutdown()
            cluster.shutdown()  # type: ignore[no-untyped-call]
