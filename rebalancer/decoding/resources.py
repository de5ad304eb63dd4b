"""What the containers of a pod request, read from its spec, or with its status while it is resized in place."""

from collections.abc import Callable, Mapping

from rebalancer.decoding import wire
from rebalancer.decoding.errors import parse_amount
from rebalancer.model.containers import Amounts, ContainerRequests, PodRequests, Role
from rebalancer.model.quantities import parse_milli, parse_units
from rebalancer.model.requests import make_amounts, take_maximum

_Amounts = dict[str, int]
_CPU = "cpu"


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


def read_requested(spec: wire.PodSpec, status: wire.PodStatus | None = None) -> PodRequests:
    """Read what a pod requests.

    Where a container has a limit and no request, the request is the limit: in pods the API server has written that, in
    templates it has not (`SetDefaults_Pod`). With a status, a container that is resized in place counts with the
    maximum of its requests, its allocated and its actual resources; if the resize is infeasible, without its requests.
    """
    resized: dict[str, list[_Amounts]] = {}
    infeasible = False
    if status is not None:
        resized = _read_resized(status)
        infeasible = any(
            condition.type == "PodResizePending" and condition.reason == "Infeasible"
            for condition in status.conditions or ()
        )

    def count(container: wire.Container, requests: _Amounts) -> _Amounts:
        lists = resized.get(container.name)
        if lists is None:
            return requests
        return take_maximum([*lists, requests] if not infeasible else lists)

    init_containers = []
    for position, container in enumerate(spec.init_containers or ()):
        role = Role.SIDECAR if container.restart_policy == "Always" else Role.INIT
        if role is Role.INIT:
            resized.pop(container.name, None)  # it has ended when a pod is resized
        init_containers.append(_read_container(container, f"spec.initContainers[{position}]", role, count))
    containers = [
        _read_container(container, f"spec.containers[{position}]", Role.MAIN, count)
        for position, container in enumerate(spec.containers)
    ]
    level = spec.resources
    return PodRequests(
        containers=(*init_containers, *containers),
        pod_level=make_amounts(decode_amounts(level.requests if level else None, "spec.resources.requests")),
        pod_limits=make_amounts(decode_amounts(level.limits if level else None, "spec.resources.limits")),
        overhead=make_amounts(decode_amounts(spec.overhead, "spec.overhead")),
    )


def _read_container(
    container: wire.Container, field: str, role: Role, count: Callable[[wire.Container, _Amounts], _Amounts]
) -> ContainerRequests:
    resources = container.resources
    requests = decode_amounts(resources.requests if resources else None, f"{field}.resources.requests")
    limits = decode_amounts(resources.limits if resources else None, f"{field}.resources.limits")
    return ContainerRequests(
        name=container.name,
        role=role,
        requests=make_amounts(count(container, {**limits, **requests})),
        limits=make_amounts(limits),
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
