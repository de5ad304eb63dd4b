"""A node: a containerd and a kubelet with processes, mounts, files and an address of their own, on a `Machine`."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.control_plane import children
from tests.control_plane.credentials import NODES
from tests.control_plane.plane import ControlPlane
from tests.nodes.images import PAUSE
from tests.nodes.machine import BRIDGE, GATEWAY, POD_NETWORK, Machine, kill, only_child

_SETTINGS: Final[Mapping[str, Any]] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    # The API server has no certificate for it, and nobody else is in this network.
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    # Nothing answers there; without it every pod would have an event.
    "clusterDNS": ["10.96.0.10"],
    "cgroupDriver": "cgroupfs",
    "failCgroupV1": False,
    "failSwapOn": False,
    "healthzPort": 0,
    "makeIPTablesUtilChains": False,
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    "imageGCHighThresholdPercent": 100,
}


class Node:
    """One node; it runs from `start` until it is killed, or until the machine ends."""

    def __init__(
        self,
        machine: Machine,
        plane: ControlPlane,
        name: str,
        number: int,
        *,
        kubelet: Path,
        labels: Mapping[str, str],
        archives: tuple[Path, ...],
    ) -> None:
        """Prepare; `number` counts from 1. The archives of images are imported at each start."""
        self.name = name
        self._machine = machine
        self._plane = plane
        self._number = number
        self._kubelet = kubelet
        self._labels = labels
        self._archives = archives
        self._folder = machine.folder / name
        self._child: children.Child | None = None
        for part in ("root", "cni", "certificates"):
            (self._folder / part).mkdir(parents=True)

    def start(self) -> None:
        """Start it, for the first time or as after a reset of its machine: what it has stored is there again."""
        self._write_configuration()
        script = self._folder / "node.sh"
        script.write_text("\n".join(["set -e", *self._commands(), ""]))
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
        self._child = children.start(
            self.name,
            [*self._machine.enter, *unshare, "bash", script],
            log=self._folder / "node.log",
            cwd=self._folder,
        )

    def kill(self) -> None:
        """End everything on it at once, as a loss of power does; nothing if nothing runs."""
        if self._child is not None:
            kill(only_child(only_child(self._child.pid)))
            self._child.process.wait(10)
            self._child = None

    def import_image(self, archive: Path) -> None:
        """Load one more image, as a pull does."""
        assert self._child is not None
        done = children.start(
            "import",
            [*self._machine.enter, "ctr", "-a", self._socket, *_IMPORT, archive],
            log=self._folder / "import.log",
            cwd=self._folder,
        )
        assert done.process.wait(60) == 0, done.tail()

    @property
    def _socket(self) -> Path:
        return self._folder / "containerd.sock"

    def _write_configuration(self) -> None:
        address = f"{POD_NETWORK}.0.{self._number}"
        settings = {
            **_SETTINGS,
            "address": address,
            "cgroupRoot": self._machine.make_cgroups(self.name),
            "containerRuntimeEndpoint": f"unix://{self._socket}",
        }
        (self._folder / "kubelet.yaml").write_text(yaml.safe_dump(settings))
        addresses = {"subnet": f"{POD_NETWORK}.0.0/16", "gateway": GATEWAY}
        addresses |= {
            f"range{end}": f"{POD_NETWORK}.{self._number}.{last}" for end, last in (("Start", 2), ("End", 250))
        }
        bridge = {
            "type": "bridge",
            "bridge": BRIDGE,
            "ipam": {"type": "host-local", "dataDir": "/run/addresses", "ranges": [[addresses]]}
            | {"routes": [{"dst": "0.0.0.0/0"}]},
        }
        network = {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}
        (self._folder / "cni" / "pods.conflist").write_text(json.dumps(network))
        (self._folder / "containerd.toml").write_text(
            f"""\
version = 2
root = "{self._folder}/root"
state = "/run/containerd-state"
[grpc]
  address = "{self._socket}"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true  # this machine may not lower it
  sandbox_image = "{PAUSE}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{self._folder}/cni"
"""
        )

    def _commands(self) -> Iterator[str]:
        """Yield the lines of the script of the node's first process, which waits, and collects what has ended."""
        for path in ("/run", "/var/lib", "/var/log"):
            yield f"mount -t tmpfs {self.name} {path}"
        yield "mkdir -p /var/lib/kubelet /var/log/pods /var/log/containers && mount --make-rshared /"
        yield f"rm -f {self._socket}"
        yield f"containerd --config {self._folder}/containerd.toml > {self._folder}/containerd.log 2>&1 &"
        yield f"until ctr -a {self._socket} version > /dev/null 2>&1; do sleep 0.1; done"
        for archive in self._archives:
            yield f"ctr -a {self._socket} {' '.join(_IMPORT)} {archive}"
        labels = ",".join(f"{key}={value}" for key, value in self._labels.items())
        command = [
            *(str(self._kubelet), f"--config={self._folder}/kubelet.yaml"),
            f"--kubeconfig={self._plane.site.kubeconfig(NODES + self.name)}",
            *(f"--hostname-override={self.name}", f"--node-ip={POD_NETWORK}.0.{self._number}"),
            *(f"--cert-dir={self._folder}/certificates", f"--node-labels={labels}"),
        ]
        yield f"{' '.join(command)} >> {self._folder}/kubelet.log 2>&1 &"
        yield "wait"


_IMPORT: Final = ("-n", "k8s.io", "image", "import")
NEEDED: Final = ("containerd", "ctr", "runc", "ip", "unshare", "nsenter", "gcc")
"""The programs that a machine and its nodes need, beside those that build the image."""


def missing_programs() -> list[str]:
    """Return what of it the machine does not have."""
    plugins = Path("/usr/lib/cni/bridge")
    return [name for name in NEEDED if shutil.which(name) is None] + ([] if plugins.exists() else [str(plugins)])
