"""The resources in use on a node, as the scheduler adds them up."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rebalancer.model.pods import Pod, Resources
from rebalancer.scheduling.versions import VersionRules

NO_EXTENDED: Mapping[str, int] = {}

Charge = tuple[Resources, tuple[int, int]]
"""What a pod uses of its node: its requests, and the CPU and memory that are scored."""

PodAmounts = tuple[int, int, int, int, int, tuple[tuple[str, int], ...]]
"""What one pod uses: the numbers of `Usage`, in its order."""


class Usage(NamedTuple):
    """Sums over the pods of a node: CPU in thousandths of a core, memory and storage in bytes.

    `scored_cpu` and `scored_memory` include 100m and 200Mi for each container without requests: only the scores of
    NodeResourcesFit use them.
    """

    pods: int = 0
    cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    scored_cpu: int = 0
    scored_memory: int = 0
    extended: Mapping[str, int] = NO_EXTENDED


NOTHING_USED = Usage()


def get_charge(pod: Pod, rules: VersionRules) -> Charge:
    """Return what a pod uses of its node; during a resize this depends on the release."""
    if rules.resizes_summed and pod.resized is not None:
        return pod.resized
    if rules.status_resources_count:
        return pod.requests, pod.scored
    spec = pod.spec
    if rules.sidecars_score_as_init and spec.scored_sidecars_as_init is not None:
        return spec.requests, spec.scored_sidecars_as_init
    return spec.requests, spec.scored


def add_usage(charges: Iterable[tuple[Charge, int]], before: Usage = NOTHING_USED) -> Usage:
    """Add the usage of pods (sign 1) or subtract it (sign -1)."""
    count, cpu, memory, storage, scored_cpu, scored_memory, extended = before
    extended = dict(extended)
    for (requests, scored), sign in charges:
        count += sign
        cpu += sign * requests.cpu
        memory += sign * requests.memory
        storage += sign * requests.ephemeral_storage
        scored_cpu += sign * scored[0]
        scored_memory += sign * scored[1]
        for name, amount in requests.extended:
            extended[name] = extended.get(name, 0) + sign * amount
    return Usage(count, cpu, memory, storage, scored_cpu, scored_memory, extended)


def get_amounts(charge: Charge) -> PodAmounts:
    """Return what a pod uses."""
    requests, scored = charge
    return requests.cpu, requests.memory, requests.ephemeral_storage, *scored, requests.extended


def multiply_amounts(amounts: PodAmounts, pods: int) -> Usage:
    """Return what this many equal pods use."""
    cpu, memory, storage, scored_cpu, scored_memory, extended = amounts
    others = {name: pods * amount for name, amount in extended} if extended else NO_EXTENDED
    return Usage(pods, pods * cpu, pods * memory, pods * storage, pods * scored_cpu, pods * scored_memory, others)


def sum_usage(parts: Sequence[Usage]) -> Usage:
    """Return the sum of one or more parts, column by column, which is fast in a large cluster."""
    pods, cpu, memory, storage, scored_cpu, scored_memory, extended = zip(*parts, strict=True)
    others: dict[str, int] = {}
    for amounts in extended:
        for name, amount in amounts.items():
            others[name] = others.get(name, 0) + amount
    return Usage(sum(pods), sum(cpu), sum(memory), sum(storage), sum(scored_cpu), sum(scored_memory), others)
