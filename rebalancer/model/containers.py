"""What the containers of a pod request, one by one.

Amounts are (resource, amount), sorted by resource: CPU in thousandths of a core, all else in units.
"""

from enum import StrEnum

from msgspec import Struct

Amounts = tuple[tuple[str, int], ...]


class Role(StrEnum):
    """When a container runs: beside the others, before them, or from before their start on."""

    MAIN = "main"
    INIT = "init"
    SIDECAR = "sidecar"


class ContainerRequests(Struct, frozen=True, gc=False, kw_only=True):
    """A container: its name, what it requests and what limits it."""

    name: str = ""
    role: Role = Role.MAIN
    requests: Amounts = ()
    limits: Amounts = ()


class PodRequests(Struct, frozen=True, gc=False, kw_only=True):
    """What a pod requests, container by container; the scheduler sums the requests up in several ways."""

    containers: tuple[ContainerRequests, ...] = ()
    """Init containers and sidecars first, each group in its order."""

    pod_level: Amounts = ()
    """Pod-level requests and limits, which count instead of the sum of the containers."""

    pod_limits: Amounts = ()
    overhead: Amounts = ()


class Resized(Struct, frozen=True, gc=False, kw_only=True):
    """What the status of a pod says of its resources, which differs from its spec while it is resized in place."""

    allocated: tuple[ContainerRequests, ...] = ()
    """What the kubelet has promised each container; the spec's value if the kubelet does not say."""
    actual: tuple[ContainerRequests, ...] = ()
    """What each container has; what was promised if the kubelet does not say."""
    reported: tuple[bool, ...] = ()
    """For each container, whether the kubelet reports anything of what the container has."""
    pod_allocated: Amounts | None = None
    """What was promised to the pod as a whole, None if the kubelet does not say."""
    pod_reported: bool = False
    """Whether the kubelet reports anything of what the pod as a whole has, even if only limits."""
    pod_actual: Amounts | None = None
    infeasible: bool = False
    """Its node can never give what the spec asks for."""
