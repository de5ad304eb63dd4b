"""A machine inside this one: namespaces for network, mounts and processes, and folders of cgroups, all of its own.

Everything in it ends when its first process does, which is on a leash (`children`); its mounts and interfaces end with
it. Nothing of the machine itself is changed: the kernel settings that a kubelet wants to write are files bound over
them, and /run, /var/lib and /var/log are new and empty. There is no way out of its network.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.control_plane import children
from tests.control_plane.api import wait_until

SERVICE_ADDRESS: Final = "10.96.0.1"
"""Of the Service `kubernetes`, in whose place the API server listens here: there is no kube-proxy."""
POD_NETWORK: Final = "10.200"
"""What the addresses of nodes and pods begin with: node N has 10.200.0.N, its pods 10.200.N.x."""
GATEWAY: Final = f"{POD_NETWORK}.255.1"
BRIDGE: Final = "pods0"

_CGROUPS: Final = Path("/sys/fs/cgroup")
_PREFIX: Final = "rebalancer-nodes-"
_CLONE_NEWNET: Final = 0x40000000

_SETTINGS: Final = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
"""What a kubelet wants of the kernel: it finds it like that, in files, and writes there what it likes."""


def find_obstacle() -> str:
    """Return why there can be no such machine here, "" if nothing is in the way."""
    if os.geteuid() != 0:
        return "root"
    return "" if (_CGROUPS / "memory").is_dir() else "cgroups of version 1"


class Machine:
    """The namespaces; within the block this thread, and what it starts, is in the network."""

    def __init__(self, folder: Path, nodes: int) -> None:
        """Prepare a machine with addresses for so many nodes. Its files are in the folder, which is the caller's."""
        self.folder = folder
        self._nodes = nodes
        self.cgroups = f"{_PREFIX}{os.getpid()}"
        """The folder of the cgroups, below each controller."""
        self._child: children.Child | None = None
        self._first = 0
        self._outside = -1

    def __enter__(self) -> Self:
        _remove_left_cgroups()
        ready = self.folder / "ready"
        script = self.folder / "machine.sh"
        script.write_text(
            "\n".join(["set -e", *self._commands(), f"touch {ready}", "while :; do sleep 60 & wait; done"])
        )
        enter = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
        bash = shutil.which("bash") or "bash"
        self._child = children.start(
            "machine",
            [shutil.which("unshare") or "unshare", *enter, bash, script],
            log=self.folder / "machine.log",
            cwd=self.folder,
        )
        try:
            wait_until(lambda: ready.exists() or not self._child_lives(), what="the machine")
            assert ready.exists(), self._child.tail()
            self._first = only_child(self._child.pid)
            self._outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            with open_file(Path(f"/proc/{self._first}/ns/net")) as inside:
                _enter_network(inside)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    @property
    def enter(self) -> tuple[str, ...]:
        """What stands before a command that is to run in the machine."""
        return (shutil.which("nsenter") or "nsenter", f"--target={self._first}", "--net", "--mount", "--pid", "--")

    def _child_lives(self) -> bool:
        return self._child is not None and self._child.alive()

    def _end(self) -> None:
        """Leave the network, end every process in the machine, and remove its cgroups."""
        if self._outside >= 0:
            _enter_network(self._outside)
            os.close(self._outside)
            self._outside = -1
        if self._child is not None:
            children.stop([self._child])
            self._child = None
        if self._first:
            wait_until(lambda: not Path(f"/proc/{self._first}").exists(), what="the end of the machine's processes")
        remove_cgroups(self.cgroups)

    def _commands(self) -> Iterator[str]:
        """Yield the lines of the script of the first process."""
        yield f"ip link set lo up && ip address add {SERVICE_ADDRESS}/32 dev lo"
        # With an address of its own: otherwise it would change with the pods, and cut them off for seconds.
        yield f"ip link add {BRIDGE} address 02:00:00:00:00:01 type bridge && ip link set {BRIDGE} up"
        yield f"ip address add {GATEWAY}/16 dev {BRIDGE}"
        for number in range(1, self._nodes + 1):
            yield f"ip address add {POD_NETWORK}.0.{number}/16 dev {BRIDGE}"
        yield "echo 1 > /proc/sys/net/ipv4/ip_forward"  # of this network only
        for name, value in _SETTINGS.items():
            file = self.folder / name.replace("/", "-")
            yield f"echo {value} > {file} && mount --bind {file} /proc/sys/{name}"
        for path in ("/run", "/var/lib", "/var/log"):
            yield f"mount -t tmpfs machine {path}"

    def make_cgroups(self, name: str) -> str:
        """Make a folder below each controller; return its path as a kubelet names it."""
        for controller in _controllers():
            folder = controller / self.cgroups / name
            folder.mkdir(parents=True, exist_ok=True)
            if controller.name == "cpuset":  # it is empty at first, and nothing runs in it then
                for level in (folder.parent, folder):
                    for file in ("cpuset.cpus", "cpuset.mems"):
                        (level / file).write_text((controller / file).read_text())
        return f"/{self.cgroups}/{name}"


def remove_cgroups(name: str) -> None:
    """Remove a folder of cgroups, which has no processes any more, wherever it is: runc makes one of version 2, too."""

    def removed() -> bool:
        tops = [hierarchy / name for hierarchy in _CGROUPS.iterdir() if hierarchy.is_dir()]
        for top in tops:
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):  # busy while the kernel still clears it
                    Path(folder).rmdir()
        return not any(top.exists() for top in tops)

    wait_until(removed, what=f"the cgroups {name} to be empty")


def _remove_left_cgroups() -> None:
    """Remove those of runs that were killed; their processes went with them."""
    for folder in _CGROUPS.glob(f"*/{_PREFIX}*"):
        if not Path(f"/proc/{folder.name.removeprefix(_PREFIX)}").exists():
            remove_cgroups(folder.name)


def cgroup(controller: str, pod: str, container: str = "") -> Path:
    """Return the folder of a pod's cgroup, or of a container's, by their UIDs; raises ValueError if there is none."""
    top = _CGROUPS / controller / f"{_PREFIX}{os.getpid()}"
    (found,) = top.glob(f"*/kubepods/**/pod{pod}")
    return found / container


def only_child(process: int) -> int:
    """Return the process id of the one child that a process has."""

    def child() -> str:
        return Path(f"/proc/{process}/task/{process}/children").read_text().strip()

    return int(wait_until(child, what=f"the child of process {process}"))


def kill(process: int) -> None:
    """End a process at once, and wait until it is gone."""
    os.kill(process, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and Path(f"/proc/{process}").exists():
        time.sleep(0.02)


@contextlib.contextmanager
def open_file(path: Path) -> Iterator[int]:
    """Open a file for reading for the duration of a block; return its descriptor."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _controllers() -> list[Path]:
    return [path for path in _CGROUPS.iterdir() if path.is_dir() and path.name != "unified"]


def _enter_network(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
