"""A pod's effective requests, as the scheduler computes them.

Source: component-helpers `resource.PodRequests`; rules in docs/semantics.md. Amounts are summed as whole thousandths
of a core and whole bytes, as the scheduler compares them.
"""

from collections.abc import Callable, Iterable, Mapping

from rebalancer.decoding import wire
from rebalancer.decoding.errors import parse_amount
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


def compute_requests(spec: wire.PodSpec, status: wire.PodStatus | None = None) -> tuple[Resources, tuple[int, int]]:
    """Return the pod's requests, and (CPU, memory) as LeastAllocated counts them.

    With a status, a container that is resized in place counts with the maximum of its requests, its allocated and its
    actual resources; if the resize is infeasible, without its requests.
    """
    actual = _make_request_reader(spec, status)
    plain = _sum_pod(spec, actual, _NO_DEFAULTS)
    defaults = _SCORING_DEFAULTS
    if spec.resources and spec.resources.requests:
        # With requests on the pod's level, defaults apply only to resources that are requested nowhere.
        defaults = {name: value for name, value in defaults.items() if name not in plain}
    scored = _sum_pod(spec, actual, defaults)
    return make_resources(plain), (scored.get(_CPU, 0), scored.get(_MEMORY, 0))


def compute_scored_requests(spec: wire.PodSpec) -> tuple[int, int]:
    """Return (CPU, memory) as LeastAllocated counts them for the pod that is being scheduled, not for running pods.

    Pod-level resources count for running pods, but not for the pod being scheduled (1.36.3, `noderesources/fit.go`:
    the gate of pod-level resources does not reach its scorer).
    """
    total = _sum_containers(spec, _make_request_reader(spec, None), _SCORING_DEFAULTS)
    _add(total, decode_amounts(spec.overhead, "spec.overhead"))
    return total.get(_CPU, 0), total.get(_MEMORY, 0)


def compute_scored_sidecars_as_init(spec: wire.PodSpec) -> tuple[int, int] | None:
    """Return (CPU, memory) as LeastAllocated counts a running pod with sidecars until 1.31; None without sidecars.

    Sidecars add up, but are compared with the other containers as init containers are (`calculateResource` of
    `framework/types.go`); defaults apply to that sum.
    """
    init = spec.init_containers or ()
    if not any(container.restart_policy == "Always" for container in init):
        return None
    request = _make_request_reader(spec, None)
    total: _Amounts = {}
    for container in spec.containers:
        _add(total, {**_SCORING_DEFAULTS, **request(container, "spec.containers")})
    sidecars: _Amounts = {}
    for container in init:
        before = dict(sidecars)
        _add(before, request(container, "spec.initContainers"))
        if container.restart_policy == "Always":
            sidecars = before
        total = _take_maximum([total, {**_SCORING_DEFAULTS, **before}])
    _add(total, decode_amounts(spec.overhead, "spec.overhead"))
    return total.get(_CPU, 0), total.get(_MEMORY, 0)


# Many branches: the API server's own cases: resized, infeasible, init and restartable containers.
def _make_request_reader(
    spec: wire.PodSpec, status: wire.PodStatus | None
) -> Callable[[wire.Container, str], _Amounts]:
    statuses = {}
    infeasible = False
    if status is not None:
        for container in (*(status.container_statuses or ()), *(status.init_container_statuses or ())):
            if container.resources is not None:
                statuses[container.name] = container
        infeasible = any(
            condition.type == "PodResizePending" and condition.reason == "Infeasible"
            for condition in status.conditions or ()
        )
    restartable = {container.name for container in spec.init_containers or () if container.restart_policy == "Always"}
    ordinary_init = {container.name for container in spec.init_containers or ()} - restartable

    def request(container: wire.Container, field: str) -> _Amounts:
        requested = decode_amounts(
            container.resources.requests if container.resources else None, f"{field}.resources.requests"
        )
        running = statuses.get(container.name)
        if running is None or container.name in ordinary_init:
            return requested
        lists = [
            decode_amounts(
                running.resources.requests if running.resources else None, "status.containerStatuses.resources"
            ),
            decode_amounts(running.allocated_resources, "status.containerStatuses.allocatedResources"),
        ]
        return _take_maximum([*lists, requested] if not infeasible else lists)

    return request


def _sum_pod(
    spec: wire.PodSpec, request: Callable[[wire.Container, str], _Amounts], defaults: Mapping[str, int]
) -> _Amounts:
    """Sum up as PodRequests does: the containers, or the requests on the pod's level instead, and the overhead."""
    total = _sum_containers(spec, request, defaults)
    for name, value in decode_amounts(
        spec.resources.requests if spec.resources else None, "spec.resources.requests"
    ).items():
        if name in {_CPU, _MEMORY} or name.startswith("hugepages-"):
            total[name] = value
    _add(total, decode_amounts(spec.overhead, "spec.overhead"))
    return total


def _sum_containers(
    spec: wire.PodSpec, request: Callable[[wire.Container, str], _Amounts], defaults: Mapping[str, int]
) -> _Amounts:
    """Sum up containers: containers and sidecars run together, ordinary init containers one by one."""
    total: _Amounts = {}
    for position, container in enumerate(spec.containers):
        _add(total, {**defaults, **request(container, f"spec.containers[{position}]")})
    sidecars: _Amounts = {}
    peak: _Amounts = {}
    for position, container in enumerate(spec.init_containers or ()):
        requested = {**defaults, **request(container, f"spec.initContainers[{position}]")}
        if container.restart_policy == "Always":
            _add(total, requested)
            _add(sidecars, requested)
            requested = dict(sidecars)
        else:
            _add(requested, sidecars)
        peak = _take_maximum([peak, requested])
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
