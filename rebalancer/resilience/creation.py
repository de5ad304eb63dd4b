"""What keeps a loss's replacements from being created, or from every remaining node, regardless of other pods.

Replacements that the API server would refuse are not counted on: an object that a template names is missing, a webhook
has no answer, a quota is spent. Usage of lost pods is returned. For pods that stay terminating this happens once their
grace period is over. A pod with a volume that no remaining node reaches waits until that changes.

Source: `QuotaV1Pod` of `pkg/quota/v1/evaluator/core/pods.go`.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping

from rebalancer.creation.acceptance import find_refusals
from rebalancer.creation.quotas import Quota, find_charges, name_quota, quotas_of
from rebalancer.creation.replacement import replacement
from rebalancer.model.facts import Fact
from rebalancer.model.pods import Pod
from rebalancer.model.quantities import format_amount
from rebalancer.model.words import name_list, plural
from rebalancer.model.workloads import Workload
from rebalancer.resilience.loss import Loss, Service
from rebalancer.scheduling.view import View
from rebalancer.scheduling.volume_binding import find_reachable_nodes


class CreationRefused(Fact):
    """The API server would refuse a replacement, as far as it can be seen now."""

    why: str

    def __str__(self) -> str:
        return f"the API server may refuse its replacements: {self.why}"


class QuotaSpent(Fact):
    """A quota does not admit all pods that its namespaces must create after a loss.

    Pods that are missing already count, too.
    """

    quota: str
    resource: str
    hard: int
    needed: int

    def __str__(self) -> str:
        hard, needed = (format_amount(self.resource, amount) for amount in (self.hard, self.needed))
        return f"{self.quota} limits {self.resource} to {hard}, and with all replacements {needed} are needed"


class VolumesOutOfReach(Fact):
    """Replacements have volumes that no remaining node reaches."""

    pods: int
    claims: tuple[str, ...]

    def __str__(self) -> str:
        have = "has" if self.pods == 1 else "have"
        return (
            f"{plural(self.pods, 'replacement')} {have} a volume that no other node reaches: {name_list(self.claims)}"
        )


def find_uncreated(loss: Loss) -> Mapping[int, Fact]:
    """Return by service number why some of a service's replacements may not be created."""
    found = find_spent(loss)
    for number, service in enumerate(loss.services):
        if service.pending and service.owner is not None and service.unknown is None:
            refused = _find_refusal(service.owner, service.sample, loss.before)
            if refused is not None:
                found[number] = refused
    return found


def _find_refusal(owner: Workload, new: Pod, view: View) -> CreationRefused | None:
    """Return why a replacement would be refused after any loss."""

    def find() -> tuple[CreationRefused | None]:
        pods = view.snapshot.pods_of.get(owner.uid, ())
        refusal = next(find_refusals(owner, new, pods, view.snapshot), None)
        return (CreationRefused(str(refusal)) if refusal is not None else None,)

    return view.memo(("refused replacements", owner.uid), find)[0]


def find_spent(loss: Loss) -> dict[int, Fact]:
    """Return the services whose replacements a quota may not admit.

    The replacements of all services in the quota's namespaces are counted together.
    """
    snapshot, needed = loss.before.snapshot, defaultdict[Quota, Counter[str]](Counter)
    if not snapshot.quotas and not snapshot.cluster_quotas:
        return {}
    charged: defaultdict[Quota, set[int]] = defaultdict(set)
    for number, service in enumerate(loss.services):
        new = service.sample
        for quota in quotas_of(new.namespace, snapshot):
            for pod in service.lost:
                needed[quota].subtract({one.resource: one.returned for one in find_charges(quota, pod, new)})
            one_more = {one.resource: one.requested for one in find_charges(quota, new, new)}
            if one_more and service.pending:
                charged[quota].add(number)
                created = service.pending - _count_waiting(service, loss)
                needed[quota].update({resource: created * amount for resource, amount in one_more.items()})
    found: dict[int, Fact] = {}
    for quota, numbers in charged.items():
        used = dict(quota.used)
        for resource, hard in quota.hard:
            total = used.get(resource, 0) + needed[quota][resource]
            if total > hard:
                found |= dict.fromkeys(numbers, QuotaSpent(name_quota(quota), resource, hard, total))
                break
    return found


def _count_waiting(service: Service, loss: Loss) -> int:
    """Return how many of the pods to be placed already exist, and so are already counted in quotas."""
    owner = service.owner
    pods = loss.before.snapshot.pods_of.get(owner.uid, ()) if owner is not None else ()
    return min(service.waiting, sum(pod.waiting for pod in pods))


def find_stranded(service: Service, loss: Loss) -> VolumesOutOfReach | None:
    """Return which replacements have volumes that no remaining node reaches; None if there are none."""
    if not service.pending or not service.sample.claims or (service.owner is not None and service.owner.is_foreign):
        return None
    if service.owner is None or service.owner.kind != "StatefulSet":
        claims = _find_out_of_reach(service.sample, loss)
        return VolumesOutOfReach(service.pending, claims) if claims else None
    replaced = service.lost if service.pending > service.waiting else ()
    made = [replacement(pod, loss.before) for pod in replaced]
    stranded = [claims for pod in made if isinstance(pod, Pod) and (claims := _find_out_of_reach(pod, loss))]
    if not stranded:
        return None
    return VolumesOutOfReach(len(stranded), tuple(sorted({claim for claims in stranded for claim in claims})))


def _find_out_of_reach(pod: Pod, loss: Loss) -> tuple[str, ...]:
    snapshot, view = loss.before.snapshot, loss.before
    found = []
    for name in pod.claims:
        claim = snapshot.claim.get((pod.namespace, name))
        volume = snapshot.volume.get(claim.volume) if claim is not None and claim.bound else None
        if volume is not None and find_reachable_nodes(volume, view) <= loss.nodes:
            found.append(name)
    return tuple(found)
