"""A pod's effective requests, as the scheduler adds them up.

Source: component-helpers `resource.PodRequests`; rules in docs/semantics.md. Amounts are summed as whole thousandths
of a core and whole bytes, which is what the scheduler compares.
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
    """Put a resource list into the model's form."""
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
    """Return what the pod takes from a node, and (CPU, memory) as LeastAllocated counts them.

    With a status, a container that is being resized in place counts the most of what it asks for, was allotted and
    has, unless the resize was found infeasible: then what it asks for is left out.
    """
    actual = _make_request_reader(spec, status)
    plain = _sum_pod(spec, actual, _NO_DEFAULTS)
    defaults = _SCORING_DEFAULTS
    if spec.resources and spec.resources.requests:
        # Where the pod as a whole names requests, defaults go only to what is named nowhere.
        defaults = {name: value for name, value in defaults.items() if name not in plain}
    scored = _sum_pod(spec, actual, defaults)
    return make_resources(plain), (scored.get(_CPU, 0), scored.get(_MEMORY, 0))


def compute_scored_requests(spec: wire.PodSpec) -> tuple[int, int]:
    """Return (CPU, memory) as LeastAllocated counts them for a pod that it places, not for one that runs.

    Of pods that run, pod-level resources are counted; of the newcomer they are not (1.36.3, `noderesources/fit.go`: its
    scorer is never told that pod-level resources are on).
    """
    total = _sum_containers(spec, _make_request_reader(spec, None), _SCORING_DEFAULTS)
    _add(total, decode_amounts(spec.overhead, "spec.overhead"))
    return total.get(_CPU, 0), total.get(_MEMORY, 0)


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
    """Sum up as PodRequests does: the containers, or what the pod as a whole names instead, and the overhead."""
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
    """Sum up containers: those and sidecars run together, ordinary init containers one by one."""
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
