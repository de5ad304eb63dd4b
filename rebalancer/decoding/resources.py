"""The requests of a pod's containers, from its spec, or with its status while it is resized in place."""

from collections.abc import Mapping

from msgspec import structs

from rebalancer.decoding import wire
from rebalancer.decoding.errors import parse_amount
from rebalancer.model.containers import Amounts, ContainerRequests, PodRequests, Resized, Role
from rebalancer.model.quantities import parse_milli, parse_units
from rebalancer.model.requests import make_amounts

_Amounts = dict[str, int]
_CPU = "cpu"
_STATUSES = "status.containerStatuses"


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
    """Read a list of ratios in thousandths, for any resource."""
    return tuple(
        (name, parse_amount(parse_milli, value, f"{field}.{name}"))
        for name, value in sorted((quantities or {}).items())
    )


def _is_cpu(name: str) -> bool:
    return name == _CPU or name.endswith(f".{_CPU}")


def read_requested(spec: wire.PodSpec) -> PodRequests:
    """Read what a pod requests.

    If a container has a limit and no request, the request is the limit. The API server writes that into pods, but not
    into templates (`SetDefaults_Pod`).
    """
    init_containers = [
        _read_container(
            container,
            f"spec.initContainers[{position}]",
            Role.SIDECAR if container.restart_policy == "Always" else Role.INIT,
        )
        for position, container in enumerate(spec.init_containers or ())
    ]
    containers = [
        _read_container(container, f"spec.containers[{position}]", Role.MAIN)
        for position, container in enumerate(spec.containers)
    ]
    level = spec.resources
    return PodRequests(
        containers=(*init_containers, *containers),
        pod_level=make_amounts(decode_amounts(level.requests if level else None, "spec.resources.requests")),
        pod_limits=make_amounts(decode_amounts(level.limits if level else None, "spec.resources.limits")),
        overhead=make_amounts(decode_amounts(spec.overhead, "spec.overhead")),
    )


def read_resized(requested: PodRequests, status: wire.PodStatus) -> Resized:
    """Read the resources in the status of a pod; `requested` are the requests of its spec."""
    infeasible = _is_infeasible(status)
    statuses = {one.name: one for one in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))}
    allocated, actual, reported = [], [], []
    for container in requested.containers:
        said = statuses.get(container.name)
        wanted = () if infeasible else container.requests
        promised = said.allocated_resources if said is not None else None
        has = said.resources.requests if said is not None and said.resources is not None else None
        granted = (
            wanted if promised is None else make_amounts(decode_amounts(promised, f"{_STATUSES}.allocatedResources"))
        )
        held = granted if has is None else make_amounts(decode_amounts(has, f"{_STATUSES}.resources"))
        allocated.append(structs.replace(container, requests=granted))
        actual.append(structs.replace(container, requests=held))
        reported.append(said is not None and said.resources is not None)
    promised, level = status.allocated_resources, status.resources
    return Resized(
        allocated=tuple(allocated),
        actual=tuple(actual),
        reported=tuple(reported),
        pod_allocated=_read_level(promised, "status.allocatedResources"),
        pod_reported=level is not None,
        pod_actual=_read_level(level.requests if level is not None else None, "status.resources.requests"),
        infeasible=infeasible,
    )


def _read_level(quantities: Mapping[str, wire.Quantity] | None, field: str) -> Amounts | None:
    return None if quantities is None else make_amounts(decode_amounts(quantities, field))


def _is_infeasible(status: wire.PodStatus) -> bool:
    return any(
        condition.type == "PodResizePending" and condition.reason == "Infeasible"
        for condition in status.conditions or ()
    )


def _read_container(container: wire.Container, field: str, role: Role) -> ContainerRequests:
    resources = container.resources
    requests = decode_amounts(resources.requests if resources else None, f"{field}.resources.requests")
    limits = decode_amounts(resources.limits if resources else None, f"{field}.resources.limits")
    return ContainerRequests(
        name=container.name, role=role, requests=make_amounts({**limits, **requests}), limits=make_amounts(limits)
    )
