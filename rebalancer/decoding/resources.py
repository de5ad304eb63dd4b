"""A pod's effective requests, as the scheduler computes them.

Source: component-helpers `resource.PodRequests`; rules in docs/semantics.md. Amounts are summed as whole thousandths
of a core and whole bytes, as the scheduler compares them.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from rebalancer.decoding import wire
from rebalancer.decoding.errors import parse_amount
from rebalancer.model.creation import Amounts
from rebalancer.model.pods import NOTHING, Resources
from rebalancer.model.quantities import parse_milli, parse_units

_Amounts = dict[str, int]
_CPU, _MEMORY, _STORAGE = "cpu", "memory", "ephemeral-storage"
_SCORING_DEFAULTS: Mapping[str, int] = {_CPU: 100, _MEMORY: 200 * 1024 * 1024}
_NO_DEFAULTS: Mapping[str, int] = {}


def decode_amounts(quantities: Mapping[str, wire.Quantity] | None, field: str) -> _Amounts:
    """Read a resource list: CPU in thousandths, all else in units, rounded up."""
    if not quantities:
        return {}
    return {
        name: parse_amount(parse_milli if name == _CPU else parse_units, value, f"{field}.{name}")
        for name, value in quantities.items()
    }


def list_amounts(quantities: Mapping[str, wire.Quantity] | None, field: str) -> Amounts:
    """Read a resource list as its object names the resources: `requests.cpu` and the like are CPU too."""
    return tuple(
        (name, parse_amount(parse_milli if _is_cpu(name) else parse_units, value, f"{field}.{name}"))
        for name, value in sorted((quantities or {}).items())
    )


def list_ratios(quantities: Mapping[str, wire.Quantity] | None, field: str) -> Amounts:
    """Read a list of ratios in thousandths, whatever their resource."""
    return tuple(
        (name, parse_amount(parse_milli, value, f"{field}.{name}"))
        for name, value in sorted((quantities or {}).items())
    )


def _is_cpu(name: str) -> bool:
    return name == _CPU or name.endswith(f".{_CPU}")


def make_resources(amounts: Mapping[str, int]) -> Resources:
    """Convert a resource list to the model's."""
    extended = tuple(
        sorted((name, value) for name, value in amounts.items() if value and name not in {_CPU, _MEMORY, _STORAGE})
    )
    made = Resources(
        cpu=amounts.get(_CPU, 0),
        memory=amounts.get(_MEMORY, 0),
        ephemeral_storage=amounts.get(_STORAGE, 0),
        extended=extended,
    )
    return made if made != NOTHING else NOTHING


class Requested(Struct, frozen=True):
    """What a pod requests, read once: the scheduler sums it up in several ways."""

    containers: tuple[_Amounts, ...]
    init_containers: tuple[tuple[bool, _Amounts], ...]
    """Of each, whether it is a sidecar, and what it requests."""

    pod_level: _Amounts
    """What counts instead of the sum of the containers."""

    overhead: _Amounts


def read_requested(spec: wire.PodSpec, status: wire.PodStatus | None = None) -> Requested:
    """Read what a pod requests.

    With a status, a container that is resized in place counts with the maximum of its requests, its allocated and its
    actual resources; if the resize is infeasible, without its requests.
    """
    resized: dict[str, list[_Amounts]] = {}
    infeasible = False
    if status is not None:
        resized = _read_resized(status)
        infeasible = any(
            condition.type == "PodResizePending" and condition.reason == "Infeasible"
            for condition in status.conditions or ()
        )

    def read(container: wire.Container, field: str) -> _Amounts:
        requested = decode_amounts(
            container.resources.requests if container.resources else None, f"{field}.resources.requests"
        )
        lists = resized.get(container.name)
        if lists is None:
            return requested
        return _take_maximum([*lists, requested] if not infeasible else lists)

    containers = tuple(
        read(container, f"spec.containers[{position}]") for position, container in enumerate(spec.containers)
    )
    init_containers = []
    for position, container in enumerate(spec.init_containers or ()):
        sidecar = container.restart_policy == "Always"
        if not sidecar:
            resized.pop(container.name, None)  # it has ended when a pod is resized
        init_containers.append((sidecar, read(container, f"spec.initContainers[{position}]")))
    return Requested(
        containers=containers,
        init_containers=tuple(init_containers),
        pod_level=decode_amounts(spec.resources.requests if spec.resources else None, "spec.resources.requests"),
        overhead=decode_amounts(spec.overhead, "spec.overhead"),
    )


def _read_resized(status: wire.PodStatus) -> dict[str, list[_Amounts]]:
    """Return the actual and the allocated resources of the containers whose status has them, by name."""
    field = "status.containerStatuses"
    return {
        container.name: [
            decode_amounts(container.resources.requests, f"{field}.resources"),
            decode_amounts(container.allocated_resources, f"{field}.allocatedResources"),
        ]
        for container in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        if container.resources is not None
    }


def sum_requests(requested: Requested) -> tuple[Resources, tuple[int, int]]:
    """Return the pod's requests as PodRequests sums them up, and (CPU, memory) as LeastAllocated counts them."""
    plain = _sum_pod(requested, _NO_DEFAULTS)
    defaults = _SCORING_DEFAULTS
    if requested.pod_level:
        # With requests on the pod's level, defaults apply only to resources that are requested nowhere.
        defaults = {name: value for name, value in defaults.items() if name not in plain}
    scored = _sum_pod(requested, defaults)
    return make_resources(plain), (scored.get(_CPU, 0), scored.get(_MEMORY, 0))


def sum_scored_requests(requested: Requested) -> tuple[int, int]:
    """Return (CPU, memory) as LeastAllocated counts them for the pod that is being scheduled, not for running pods.

    Pod-level resources count for running pods, but not for the pod being scheduled (1.36.3, `noderesources/fit.go`:
    the gate of pod-level resources does not reach its scorer).
    """
    total = _sum_containers(requested, _SCORING_DEFAULTS)
    _add(total, requested.overhead)
    return total.get(_CPU, 0), total.get(_MEMORY, 0)


def sum_scored_sidecars_as_init(requested: Requested) -> tuple[int, int] | None:
    """Return (CPU, memory) as LeastAllocated counts a running pod with sidecars until 1.31; None without sidecars.

    Sidecars add up, but are compared with the other containers as init containers are (`calculateResource` of
    `framework/types.go`); defaults apply to that sum.
    """
    if not any(sidecar for sidecar, _ in requested.init_containers):
        return None
    total: _Amounts = {}
    for amounts in requested.containers:
        _add(total, {**_SCORING_DEFAULTS, **amounts})
    sidecars: _Amounts = {}
    for sidecar, amounts in requested.init_containers:
        before = dict(sidecars)
        _add(before, amounts)
        if sidecar:
            sidecars = before
        total = _take_maximum([total, {**_SCORING_DEFAULTS, **before}])
    _add(total, requested.overhead)
    return total.get(_CPU, 0), total.get(_MEMORY, 0)


def _sum_pod(requested: Requested, defaults: Mapping[str, int]) -> _Amounts:
    """Sum up as PodRequests does: the containers, or the requests on the pod's level instead, and the overhead."""
    total = _sum_containers(requested, defaults)
    for name, value in requested.pod_level.items():
        if name in {_CPU, _MEMORY} or name.startswith("hugepages-"):
            total[name] = value
    _add(total, requested.overhead)
    return total


def _sum_containers(requested: Requested, defaults: Mapping[str, int]) -> _Amounts:
    """Sum up containers: containers and sidecars run together, ordinary init containers one by one."""
    total: _Amounts = {}
    for amounts in requested.containers:
        _add(total, {**defaults, **amounts})
    if not requested.init_containers:
        return total
    sidecars: _Amounts = {}
    peak: _Amounts = {}
    for sidecar, amounts in requested.init_containers:
        needed = {**defaults, **amounts}
        if sidecar:
            _add(total, needed)
            _add(sidecars, needed)
            needed = dict(sidecars)
        else:
            _add(needed, sidecars)
        peak = _take_maximum([peak, needed])
    return _take_maximum([total, peak])


def _add(total: _Amounts, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _take_maximum(lists: Iterable[Mapping[str, int]]) -> _Amounts:
    most: _Amounts = {}
    for amounts in lists:
        for name, value in amounts.items():
            most[name] = max(value, most.get(name, value))
    return most
