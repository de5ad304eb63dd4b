"""How many domains a term that selects its own pods needs, how many admit them, and how many are free."""

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import NamedTuple

from rebalancer.assessment.anti_affinity.result import Separation
from rebalancer.model.pods import Pod
from rebalancer.scheduling.feasibility import admissible
from rebalancer.scheduling.view import View


class OwnPods(NamedTuple):
    """Pods that declare a term and are selected by it: a sample, their number, and owner as in `excess.Share`."""

    sample: Pod
    number: int
    owner: Hashable
    workload: Hashable


def find_separation(own: Sequence[OwnPods], key: str, occupied: Collection[str], view: View) -> Separation:
    """Return what these pods need; `occupied` are the domains with pods that keep others away.

    Of a Deployment's ReplicaSets, that with most pods counts, since pods of two ReplicaSets do not conflict.
    """
    pods_by_owner: defaultdict[Hashable, defaultdict[Hashable, int]] = defaultdict(lambda: defaultdict(int))
    for _, number, owner, workload in own:
        pods_by_owner[workload][owner] += number
    needed = sum(max(numbers.values()) for numbers in pods_by_owner.values())
    admitting = list(dict.fromkeys(admissible(pods.sample, view) for pods in own))
    nodes = admitting[0] if len(admitting) == 1 else frozenset[str]().union(*admitting)
    values = view.nodes.values(key)
    domains = view.memo(("domains that admit", key, nodes), lambda: _find_domains(values, nodes))
    if None in domains:
        return Separation(needed, None, None)
    return Separation(needed, len(domains), len(domains) - sum(domain in domains for domain in occupied))


def _find_domains(values: Mapping[str, str], nodes: Collection[str]) -> frozenset[str | None]:
    """Return the domains of nodes; None is among them if a node lacks the key."""
    return frozenset(map(values.get, nodes))
