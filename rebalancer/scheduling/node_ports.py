"""NodePorts: a host port can be taken once on each address of a node."""

from typing import ClassVar, Final

from rebalancer.model.pods import HostPort, Pod
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.verdicts import SUCCESS, Verdict, unschedulable
from rebalancer.scheduling.view import View

TAKEN: Final = unschedulable("node(s) didn't have free ports for the requested pod ports")
EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  # not bound to: it is the address of a pod that names none


def ports_conflict(one: HostPort, other: HostPort) -> bool:
    """Say whether two host ports exclude each other on a node: 0.0.0.0 means every address."""
    return (one.protocol, one.port) == (other.protocol, other.port) and (
        one.ip == other.ip or EVERY_ADDRESS in {one.ip, other.ip}
    )


class NodePorts(Filter):
    """Source: `nodeports/node_ports.go`, `HostPortInfo.CheckConflict`. Terminating pods keep their ports."""

    name: ClassVar = "NodePorts"

    def __init__(self, pod: Pod, view: View) -> None:
        self._wanted = pod.spec.host_ports
        self._view = view

    def verdict(self, node: str) -> Verdict:
        if self._wanted and any(
            ports_conflict(wanted, taken)
            for other in self._view.pods_on(node)
            for taken in other.spec.host_ports
            for wanted in self._wanted
        ):
            return TAKEN
        return SUCCESS

    def admit(self, nodes: frozenset[str]) -> frozenset[str]:
        return super().admit(nodes) if self._wanted else nodes
