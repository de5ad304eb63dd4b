"""A cluster with real nodes: the servers of a control plane; for each of kind's workers, a containerd and a kubelet.

with RealNodes() as cluster:
    cluster.plane.api.list("/api/v1/nodes")
"""

import contextlib
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import yaml

from tests.control_plane.api import wait_until
from tests.control_plane.build import KUBELET, programs
from tests.control_plane.plane import ControlPlane
from tests.control_plane.servers import Place
from tests.control_plane.settling import node_ready
from tests.nodes.images import NAME, PAUSE, make_archives
from tests.nodes.machine import SERVICE_ADDRESS, Machine
from tests.nodes.node import Node

ROOT: Final = Path(__file__).resolve().parents[2]


def workers() -> dict[str, dict[str, str]]:
    """Return the labels of the workers in the quick start's configuration, by the names that kind gives them."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "docs/examples/kind/cluster.yaml").read_text(encoding="utf-8"))
    labels = [entry["labels"] for entry in config["nodes"] if entry["role"] == "worker"]
    return {f"kind-worker{number if number > 1 else ''}": given for number, given in enumerate(labels, 1)}


class RealNodes:
    """The cluster; within the block this thread, and what it starts, is in its network. Nothing of it is left."""

    def __init__(self) -> None:
        """Prepare; raises MissingPart if a program can neither be found nor built."""
        self._kubelet = programs([KUBELET])["kubelet"]
        programs()
        self._stack = contextlib.ExitStack()
        self.nodes: dict[str, Node] = {}
        self.archives: dict[str, Path] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="real-nodes-")))
            self.archives = make_archives(folder)
            names = workers()
            machine = stack.enter_context(Machine(folder, len(names)))
            place = Place(enter=machine.enter, host=SERVICE_ADDRESS, port=443, kubelets=tuple(names))
            self.plane = stack.enter_context(ControlPlane(place=place))
            for number, (name, labels) in enumerate(names.items(), 1):
                self.nodes[name] = Node(
                    machine,
                    self.plane,
                    name,
                    number,
                    kubelet=self._kubelet,
                    labels=labels,
                    archives=(self.archives[PAUSE], self.archives[NAME]),
                )
                stack.callback(self.nodes[name].kill)
                self.nodes[name].start()
            self.wait_ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def wait_ready(self) -> None:
        """Wait until every node is Ready."""

        def ready() -> bool:
            found = self.plane.api.list("/api/v1/nodes")
            return len(found) == len(self.nodes) and all(node_ready(node) for node in found)

        wait_until(ready, what=f"{len(self.nodes)} Ready nodes", timeout=120)
