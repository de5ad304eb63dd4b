"""How to repair a StatefulSet that its volumes pin: whose claims would have to be given up, and in which order.

Problem: pods whose volumes are bound to a zone come back in that zone, so no eviction helps. Idea: suppose that the
claims of the StatefulSet's templates are new. In the scheduler's model, delete some of its pods with their claims. A
recipe is certain if all pods are placed in the end and all hard constraints are satisfied, whatever feasible node the
scheduler picks each time. Pending pods with volumes of their own are always among the deleted pods.

No healthy replica is given up while another replica is down. Replicas that are not Ready come first, in ascending
order, as OrderedReady creates them. If one of them has a node, only replicas that are not Ready are given up. The
StatefulSet is not scaled down if a replica is not Ready, or if a HorizontalPodAutoscaler would scale it up again. While
a replica is missing there is no recipe.

The search first tries one to three pods, each placed before the next is deleted: the fewest and the highest ordinals
first. Then it tries scale-downs, the smallest first. A scale-down deletes the highest ordinals together and creates
them in ascending order. Example: db-0 to db-3 in zones a:3 b:1 c:0. Without db-2 and its claim, only zone c is
feasible: 2,1,1.

Bound: `_MOST_STATES` states. Of pods in equal domains only one choice is tried.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.assessment.assess import Assessment, EvaluatedGroup
from rebalancer.creation.replacement import replacement
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.visible import visible_lines
from rebalancer.model.words import name_list
from rebalancer.model.workloads import Workload, pod_ordinal
from rebalancer.planning.plan import Plan
from rebalancer.planning.scope.movable import PendingPodWithVolumes, VolumePinned
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.pod_topology_spread import counts
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

_MOST_PODS: Final = 3
_MOST_STATES: Final = 500


class ClaimRecipe(NamedTuple):
    """Pods that are deleted with their claims, in this order; each is placed before the next is deleted.

    With `scaled_to` the pods are deleted together: the StatefulSet is scaled down to that number and up again.
    """

    namespace: str
    owner: str
    pods: tuple[str, ...]
    claims: tuple[str, ...]
    replicas: int
    scaled_to: int | None = None

    def __str__(self) -> str:
        """Say which data is lost, why that helps, and which commands do it."""
        each = "in this order, each Ready before the next" if self.scaled_to is None else "together"
        why = (
            f"The data of {name_list(self.claims)} is lost: restore it from other replicas or a backup. New volumes "
            "are made where the scheduler places the pods; on the model every node that it may pick leads to a "
            f"placement that satisfies all hard constraints. Delete these pods with their claims, {each}:"
        )
        return visible_lines([why, *self._commands()])

    def _commands(self) -> Iterator[str]:
        where = f"kubectl -n {self.namespace}"
        if self.scaled_to is None:
            each = len(self.claims) // len(self.pods)
            for number, pod in enumerate(self.pods):
                if number:
                    before = self.pods[number - 1]
                    yield f"  {where} wait --for=create pod/{before} --timeout=10m"  # else the next may find no pod
                    yield f"  {where} wait --for=condition=Ready pod/{before} --timeout=10m"
                yield f"  {where} delete pvc {' '.join(self.claims[number * each :][:each])} --wait=false"
                yield f"  {where} delete pod {pod}"
        else:
            yield f"  {where} scale statefulset {self.owner} --replicas {self.scaled_to}"
            yield f"  {where} delete pvc {' '.join(self.claims)}"
            yield f"  {where} scale statefulset {self.owner} --replicas {self.replicas}"


class NoClaimRecipe(NamedTuple):
    """Why no claims are known whose deletion helps."""

    immediate: tuple[str, ...] = ()
    """The storage classes of the claims that bind a volume before their pod has a node."""
    missing: tuple[str, ...] = ()
    """Replicas that do not exist, or are being deleted."""
    unready: tuple[str, ...] = ()
    """Replicas that are not Ready, if new claims for only these replicas are not enough."""
    autoscaler: str = ""
    """The HorizontalPodAutoscaler that would undo the scale-down that would help."""

    def __str__(self) -> str:
        """Say what was tried, and why it does not help."""
        if self.immediate:
            return (
                f"StorageClass {name_list(self.immediate)} binds a volume before its pod has a node, wherever that is: "
                "use one with volumeBindingMode WaitForFirstConsumer"
            )
        if self.missing:
            return (
                f"{_down(self.missing, 'is missing', 'are missing')} or being deleted: no replica is given up while "
                "another is missing. Wait until the StatefulSet has created all of them"
            )
        if self.unready:
            alone = "new claims alone do not help"
            down = _down(self.unready, f"is not Ready, and its {alone}", f"are not Ready, and their {alone}")
            return f"{down}: no healthy replica is given up while another is down. Repair what is not Ready first"
        if self.autoscaler:
            return (
                f"a scale-down with new claims would help, but HorizontalPodAutoscaler {self.autoscaler} would undo "
                "it: delete that first, and create it again afterwards"
            )
        return (
            f"neither new claims of up to {_MOST_PODS} pods nor a scale-down with new claims are certain to end in a "
            "placement that satisfies all hard constraints"
        )


def _down(pods: Sequence[str], one: str, several: str) -> str:
    return f"pod {pods[0]} {one}" if len(pods) == 1 else f"pods {name_list(pods)} {several}"


def find_claim_recipe(
    workload: Reference, view: View, assessment: Assessment, plan: Plan
) -> ClaimRecipe | NoClaimRecipe | None:
    """Return how to repair a StatefulSet that the volumes of its claims pin; None if they do not pin it."""
    if not _is_pinned(workload, plan):
        return None
    for group in assessment.groups:
        for member in group.spread.members:
            owner = member.owner
            if member.reference != workload or owner is None or owner.kind != "StatefulSet" or owner.template is None:
                continue
            waits = any(view.where(pod) is None for pod in member.pods)
            if owner.template.claim_templates and (group.violated or waits):
                return _Search(owner, member.pods, group, view).find()
    return None


def _is_pinned(workload: Reference, plan: Plan) -> bool:
    """Return whether volumes prevent every eviction that would repair a workload."""
    if any(eviction.workload == workload for eviction in plan.fates.evictions):
        return False
    refusals = [refused.refusal for refused in plan.refusals if refused.workload == workload]
    refusals += [
        component.refusal
        for component in plan.components
        if workload in component.workloads and component.refusal is not None
    ]
    return any(isinstance(refusal, (VolumePinned, PendingPodWithVolumes)) for refusal in refusals)


class _Search:
    """The search for one StatefulSet."""

    def __init__(self, owner: Workload, pods: Sequence[Pod], group: EvaluatedGroup, view: View) -> None:
        self._owner = owner
        self._group = group
        self._pods = sorted(pods, key=lambda pod: pod_ordinal(pod.name))
        self._unready = [pod for pod in self._pods if not pod.ready]
        self._templates = owner.template.claim_templates if owner.template is not None else ()
        self._view = view
        given_up = {(pod.namespace, claim) for pod in pods for claim in self._claims(pod)}
        self._claims_now = [claim for claim in view.snapshot.claims if (claim.namespace, claim.name) in given_up]
        self._supposed = _suppose_new_claims(view, given_up)
        self._states = 0

    def find(self) -> ClaimRecipe | NoClaimRecipe:
        """Return the first recipe that is certain."""
        classes = self._view.snapshot.storage_class
        immediate = {
            claim.storage_class
            for claim in self._claims_now
            if claim.storage_class not in classes or not classes[claim.storage_class].delayed
        }
        if immediate:
            return NoClaimRecipe(immediate=tuple(sorted(immediate)))
        present = {pod_ordinal(pod.name) for pod in self._pods}
        missing = [ordinal for ordinal in self._owner.ordinals if ordinal not in present]
        if missing:
            return NoClaimRecipe(missing=tuple(f"{self._owner.name}-{ordinal}" for ordinal in missing))
        for chosen in self._choices():
            if self._ends_well(self._supposed, (), chosen):
                return self._recipe(chosen)
        if self._unready:
            return NoClaimRecipe(unready=tuple(pod.name for pod in self._unready))
        self._states = 0
        for number in range(1, len(self._pods) + 1):
            highest = self._pods[-number:]
            if self._ends_well(self._remove(highest, self._supposed), highest, ()):
                owner = self._owner
                for scaler in self._view.snapshot.autoscalers_of.get((owner.namespace, owner.kind, owner.name), ()):
                    return NoClaimRecipe(autoscaler=f"{scaler.namespace}/{scaler.name}")
                return self._recipe(highest, scaled_to=pod_ordinal(highest[0].name) - owner.first_ordinal)
        return NoClaimRecipe()

    def _choices(self) -> Iterator[Sequence[Pod]]:
        """Yield pods to delete one by one: those that are not Ready and up to three more, highest ordinals first.

        Of sets of pods whose nodes have equal values of the constraints' keys, only the one with the highest ordinals
        is tried.
        """
        healthy = [pod for pod in self._pods[::-1] if pod.ready]
        most = 0 if any(self._view.where(pod) is not None for pod in self._unready) else _MOST_PODS
        for number in range(0 if self._unready else 1, most + 1):
            seen: set[tuple[tuple[str, ...], ...]] = set()
            for more in combinations(healthy, number):
                domains = tuple(sorted(self._domains(self._view.where(pod) or "") for pod in more))
                if domains not in seen:
                    seen.add(domains)
                    yield [*self._unready, *more]

    def _recipe(self, chosen: Sequence[Pod], scaled_to: int | None = None) -> ClaimRecipe:
        return ClaimRecipe(
            namespace=self._owner.namespace,
            owner=self._owner.name,
            pods=tuple(pod.name for pod in chosen),
            claims=tuple(claim for pod in chosen for claim in self._claims(pod)),
            replicas=self._owner.replicas,
            scaled_to=scaled_to,
        )

    def _claims(self, pod: Pod) -> Sequence[str]:
        return [f"{template}-{pod.name}" for template in self._templates]

    def _domains(self, node: str) -> tuple[str, ...]:
        """Return the domains of a node; nodes in the same domains are interchangeable."""
        values = self._view.nodes.values
        return tuple(values(evaluated.topology_key).get(node, "") for evaluated in self._group.hard)

    def _ends_well(self, state: View, missing: Sequence[Pod], left: Sequence[Pod]) -> bool:
        """Return whether all pods are placed in the end and hard constraints satisfied, for all scheduler choices.

        The `missing` pods are placed first; then the first of the pods that are `left` is deleted.
        """
        self._states += 1
        if self._states > _MOST_STATES:
            return False
        if not missing:
            if not left:
                return self._is_satisfied(state)
            return self._ends_well(self._remove(left[:1], state), left[:1], left[1:])
        made = replacement(missing[0], self._supposed)
        if isinstance(made, Unpredictable):
            return False
        alike = {self._domains(node): node for node in sorted(feasible(made, state))}
        return bool(alike) and all(
            self._ends_well(state.with_placed(made, node), missing[1:], left) for node in alike.values()
        )

    def _remove(self, pods: Sequence[Pod], state: View) -> View:
        placed = [pod for pod in pods if state.where(pod) is not None]
        return state.without(placed) if placed else state

    def _is_satisfied(self, state: View) -> bool:
        sample = self._group.spread.sample
        return not any(counts(evaluated.constraint, sample, state).violated for evaluated in self._group.hard)


def _suppose_new_claims(view: View, given_up: set[tuple[str, str]]) -> View:
    """Return the cluster as if these claims were new: without their volumes, which no other pod gets, either."""
    snapshot = view.snapshot
    claims = tuple(
        structs.replace(claim, volume="", bound=False, selected_node="", deleted=False)
        if (claim.namespace, claim.name) in given_up
        else claim
        for claim in snapshot.claims
    )
    volumes = tuple(volume for volume in snapshot.volumes if volume.claim not in given_up)
    return View(replace(snapshot, claims=claims, volumes=volumes), view.profile)
