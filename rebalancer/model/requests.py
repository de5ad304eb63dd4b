"""A pod's effective requests, as the scheduler sums up those of its containers.

Source: component-helpers `resource.PodRequests`. Amounts are summed as whole thousandths
of a core and whole bytes, as the scheduler compares them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import structs

from rebalancer.model.containers import Amounts, ContainerRequests, PodRequests, Resized, Role
from rebalancer.model.pods import NOTHING, Resources

_CPU, _MEMORY, _STORAGE = "cpu", "memory", "ephemeral-storage"
_SCORING_DEFAULTS: Final[Mapping[str, int]] = {_CPU: 100, _MEMORY: 200 * 1024 * 1024}
_NO_DEFAULTS: Final[Mapping[str, int]] = {}


def make_amounts(amounts: Mapping[str, int]) -> Amounts:
    """Return a resource list in the form that is stored."""
    return tuple(sorted(amounts.items()))


def make_resources(amounts: Mapping[str, int]) -> Resources:
    """Convert a resource list to the model's resources."""
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


def sum_amounts(requested: PodRequests) -> dict[str, int]:
    """Return the pod's requests as PodRequests sums them up, by resource."""
    return _sum_pod(requested, _NO_DEFAULTS)


def sum_limits(requested: PodRequests) -> dict[str, int]:
    """Return the pod's limits as PodLimits sums them up; overhead is added to existing limits."""
    limits = structs.replace(
        requested,
        containers=tuple([structs.replace(one, requests=one.limits) for one in requested.containers]),
        pod_level=requested.pod_limits,
        overhead=(),
    )
    total = _sum_pod(limits, _NO_DEFAULTS)
    for name, value in requested.overhead:
        if total.get(name):
            total[name] += value
    return total


def sum_requests(requested: PodRequests) -> tuple[Resources, tuple[int, int]]:
    """Return the pod's requests as PodRequests sums them up, and (CPU, memory) as LeastAllocated counts them."""
    plain = _sum_pod(requested, _NO_DEFAULTS)
    scored = _sum_pod(requested, _get_scoring_defaults(requested, plain))
    return make_resources(plain), (scored.get(_CPU, 0), scored.get(_MEMORY, 0))


def resize_containers(requested: PodRequests, resized: Resized) -> PodRequests:
    """Return the requests that count for a pod that may be resized in place, until 1.36.

    Each container counts with the maximum of what it requests, was promised and has; if the resize is infeasible,
    without what it requests. The same rule applies to the pod as a whole, for the resources that its spec names.
    """
    containers = tuple(
        container
        if container.role is Role.INIT or not reported  # an ordinary init container has ended when a pod is resized
        else structs.replace(
            container, requests=_take_most(container.requests, promised.requests, held.requests, resized)
        )
        for container, promised, held, reported in zip(
            requested.containers, resized.allocated, resized.actual, resized.reported, strict=True
        )
    )
    level = requested.pod_level
    if resized.pod_reported:
        most = dict(_take_most(level, resized.pod_allocated or (), resized.pod_actual or (), resized))
        level = make_amounts({name: most.get(name, 0) for name, _ in level})
    return structs.replace(requested, containers=containers, pod_level=level)


def says_more(resized: Resized, requested: PodRequests) -> bool:
    """Return whether a pod's status may change its sums: for most pods it repeats the spec, or says nothing."""
    same = resized.allocated == resized.actual == requested.containers
    return not same or resized.pod_allocated is not None or resized.pod_reported or resized.infeasible


def _take_most(wanted: Amounts, promised: Amounts, held: Amounts, resized: Resized) -> Amounts:
    lists = [promised, held] if resized.infeasible else [wanted, promised, held]
    return make_amounts(take_maximum(map(dict, lists)))


def sum_resized(requested: PodRequests, resized: Resized) -> tuple[Resources, tuple[int, int]]:
    """Return the result of `sum_requests` for a pod that may be resized in place, as summed up from 1.37 on.

    Requested, promised and actual amounts are each summed up; the maximum of the three sums counts. `resize_containers`
    has the earlier rule.
    """
    plain = _sum_resized(requested, resized, _NO_DEFAULTS)
    scored = _sum_resized(requested, resized, _get_scoring_defaults(requested, plain))
    return make_resources(plain), (scored.get(_CPU, 0), scored.get(_MEMORY, 0))


def _sum_resized(requested: PodRequests, resized: Resized, defaults: Mapping[str, int]) -> dict[str, int]:
    sums = [] if resized.infeasible else [_sum_containers(requested.containers, defaults)]
    allocated, actual = resized.pod_allocated, resized.pod_actual
    if allocated is not None and actual is not None:
        sums += [dict(allocated), dict(actual)]
    else:
        sums += [_sum_containers(resized.allocated, defaults), _sum_containers(resized.actual, defaults)]
    total = take_maximum(sums)
    if _has_level(requested.pod_level):
        levels = [] if resized.infeasible and resized.pod_reported else [dict(requested.pod_level)]
        if resized.pod_reported:
            levels += [dict(level) for level in (allocated, actual) if level is not None]
        _override(total, take_maximum(levels))
    _add(total, requested.overhead)
    return total


def _has_level(amounts: Amounts) -> bool:
    return any(map(_is_of_pod, dict(amounts)))


def _is_of_pod(name: str) -> bool:
    """Return whether a resource may be requested on the pod's level."""
    return name in {_CPU, _MEMORY} or name.startswith("hugepages-")


def _override(total: dict[str, int], level: Mapping[str, int]) -> None:
    """Let the requests on the pod's level count instead of the sum of its containers."""
    total.update({name: value for name, value in level.items() if _is_of_pod(name)})


def _get_scoring_defaults(requested: PodRequests, plain: Mapping[str, int]) -> Mapping[str, int]:
    """Return what counts for a container without requests; with pod-level requests, what no container requests."""
    if not requested.pod_level:
        return _SCORING_DEFAULTS
    return {name: value for name, value in _SCORING_DEFAULTS.items() if name not in plain}


def sum_scored_requests(requested: PodRequests) -> tuple[int, int]:
    """Return (CPU, memory) as LeastAllocated counts them for the pod that is being scheduled, not for running pods.

    Pod-level resources count for running pods, but not for the pod being scheduled (1.36.3, `noderesources/fit.go`:
    the gate of pod-level resources does not reach its scorer).
    """
    total = _sum_containers(requested.containers, _SCORING_DEFAULTS)
    _add(total, requested.overhead)
    return total.get(_CPU, 0), total.get(_MEMORY, 0)


def sum_scored_sidecars_as_init(requested: PodRequests) -> tuple[int, int] | None:
    """Return (CPU, memory) as LeastAllocated counts a running pod with sidecars until 1.31; None without sidecars.

    Sidecars add up, but are compared with the other containers as init containers are (`calculateResource` of
    `framework/types.go`); defaults apply to that sum.
    """
    if not any(container.role is Role.SIDECAR for container in requested.containers):
        return None
    total: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in requested.containers:
        if container.role is Role.MAIN:
            _add(total, tuple({**_SCORING_DEFAULTS, **dict(container.requests)}.items()))
    for container in requested.containers:
        if container.role is not Role.MAIN:
            before = dict(sidecars)
            _add(before, container.requests)
            if container.role is Role.SIDECAR:
                sidecars = before
            total = take_maximum([total, {**_SCORING_DEFAULTS, **before}])
    _add(total, requested.overhead)
    return total.get(_CPU, 0), total.get(_MEMORY, 0)


def _sum_pod(requested: PodRequests, defaults: Mapping[str, int]) -> dict[str, int]:
    """Sum up as PodRequests does: the containers, or the requests on the pod's level instead, and the overhead."""
    total = _sum_containers(requested.containers, defaults)
    _override(total, dict(requested.pod_level))
    _add(total, requested.overhead)
    return total


def _sum_containers(containers: Iterable[ContainerRequests], defaults: Mapping[str, int]) -> dict[str, int]:
    """Sum up containers: containers and sidecars run together, ordinary init containers one by one."""
    total: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in containers:
        needed = {**defaults, **dict(container.requests)}
        if container.role is Role.MAIN:
            _add(total, tuple(needed.items()))
            continue
        if container.role is Role.SIDECAR:
            _add(total, tuple(needed.items()))
            _add(sidecars, tuple(needed.items()))
            needed = dict(sidecars)
        else:
            _add(needed, tuple(sidecars.items()))
        peak = take_maximum([peak, needed])
    return take_maximum([total, peak]) if peak else total


def _add(total: dict[str, int], more: Amounts) -> None:
    for name, value in more:
        total[name] = total.get(name, 0) + value


def take_maximum(lists: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return for each resource the largest amount of some lists."""
    most: dict[str, int] = {}
    for amounts in lists:
        for name, value in amounts.items():
            most[name] = max(value, most.get(name, value))
    return most
