"""Owners of other groups' kinds: moved where the policy lists them, while they are at rest and their pods alike."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from rebalancer.model.affinity import Toleration
from rebalancer.model.facts import Fact
from rebalancer.model.labels import Labels
from rebalancer.model.pods import OwnerReference, Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import PodTemplate, Workload
from rebalancer.planning.diagnosis.obstacles import PodsStay
from rebalancer.planning.scope.eligibility import OwnerKindNotListed, OwnerRollingOut, OwnerUnknown
from rebalancer.planning.scope.movable import DefinitionsDiffer
from rebalancer.planning.scope.owners import LowerOrdinalNotReady
from rebalancer.policy.names import Owner
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.simulator import ZONE
from tests.build import a_cluster
from tests.planning.clusters import owners, planned, pods, policy

CLONES = ("CloneSet", "apps.kruise.io")


def foreign(*, template: bool = True, kind: str = "CloneSet", **fields: Any) -> Snapshot:
    """Return four pods of a foreign owner, three of them in zone a and one in b; zone c is empty."""
    builder = a_cluster("abc", 1)
    builder.deployment("web", on={"a-1": 3, "b-1": 1}, spread={ZONE: 1}, namespace="shop")
    snapshot = builder.snapshot()
    below = next(owner for owner in snapshot.workloads if owner.kind == "ReplicaSet")
    labels = Labels({key: value for key, value in snapshot.pods[0].labels.items() if "hash" not in key})
    assert below.template is not None
    made = structs.replace(
        below,
        group="apps.kruise.io",
        kind=kind,
        name="web",
        owner=None,
        revision="",
        template=structs.replace(below.template, labels=labels) if template else None,
        **fields,
    )
    reference = OwnerReference(group=made.group, kind=made.kind, name=made.name, uid=made.uid)
    only = replace(snapshot, workloads=(made,))
    return pods(only, lambda pod: structs.replace(pod, owner=reference, labels=labels))


def listed(*kinds: tuple[str, str]) -> Any:
    """Return a policy that lists these kinds."""
    rules = policy()
    kinds_listed = tuple(Owner(kind, group) for kind, group in kinds)
    eligibility = rules.eligibility.model_copy(update={"owners": (*rules.eligibility.owners, *kinds_listed)})
    return rules.model_copy(update={"eligibility": eligibility})


def outcome(snapshot: Snapshot, *kinds: tuple[str, str]) -> tuple[list[str], set[Fact]]:
    """Return the evicted pods, and why others stay."""
    plan = planned(snapshot, listed(*kinds))
    facts = [refused.refusal for refused in plan.refusals]
    facts += [component.refusal for component in plan.components if component.refusal is not None]
    return [one.pod.name for one in plan.fates.going], {
        fact.cause if isinstance(fact, PodsStay) else fact for fact in facts
    }


def changed(snapshot: Snapshot, change: Callable[[Pod], Pod], *, last: int) -> Snapshot:
    """Change the last pods of a snapshot, by name."""
    names = sorted(pod.name for pod in snapshot.pods)[-last:]
    return pods(snapshot, lambda pod: change(pod) if pod.name in names else pod)


class TestListed:
    @pytest.mark.parametrize("template", [True, False])
    def test_a_listed_kind_is_repaired(self, template: bool) -> None:
        evicted, _ = outcome(foreign(template=template), CLONES)
        assert len(evicted) == 1

    def test_a_kind_of_a_name_of_kubernetes_is_listed_with_its_group(self) -> None:
        snapshot = foreign(kind="StatefulSet.apps.kruise.io")
        assert outcome(snapshot)[1] == {OwnerKindNotListed("StatefulSet.apps.kruise.io")}
        assert len(outcome(snapshot, ("StatefulSet", "apps.kruise.io"))[0]) == 1

    def test_one_that_is_not_listed_stays_whether_it_was_read_or_not(self) -> None:
        known = foreign()
        for snapshot in (known, replace(known, workloads=())):
            assert outcome(snapshot) == ([], {OwnerKindNotListed("CloneSet.apps.kruise.io")})

    @pytest.mark.parametrize("known_by", ["kind", "one", "nothing"])
    def test_one_that_could_not_be_read_says_why(self, known_by: str) -> None:
        known = foreign()
        named = {"kind": "CloneSet.apps.kruise.io", "one": "CloneSet.apps.kruise.io shop/web"}
        unread = {named.get(known_by, "CloneSet.apps.kruise.io shop/other"): "no right"}
        snapshot = replace(known, workloads=(), unread_owners=unread)
        why = "it is not among what was read" if known_by == "nothing" else "no right"
        assert outcome(snapshot, CLONES) == ([], {OwnerUnknown("CloneSet", "web", why)})


class TestAtRest:
    """Its status may say nothing: its pods do."""

    def test_one_with_fewer_pods_than_it_wants_waits(self) -> None:
        snapshot = foreign(replicas=5, current=5, updated=5)
        assert OwnerRollingOut("CloneSet", 4, 5, 4) in outcome(snapshot, CLONES)[1]

    @pytest.mark.parametrize("key", ["controller-revision-hash", "pod-template-hash"])
    def test_one_with_pods_of_two_revisions_waits(self, key: str) -> None:
        later = foreign().taken_at

        def revised(pod: Pod) -> Pod:
            return structs.replace(pod, labels=Labels({**pod.labels, key: "new"}), created=later)

        facts = outcome(changed(foreign(), revised, last=1), CLONES)[1]
        assert facts == {OwnerRollingOut("CloneSet", 4, 4, 1)}

    def test_one_with_pods_of_another_template_waits(self) -> None:
        tolerations = (Toleration(key="dedicated", operator="Exists"),)

        def change(owner: Workload) -> Workload:
            assert isinstance(owner.template, PodTemplate)
            spec = structs.replace(owner.template.spec, tolerations=tolerations)
            return structs.replace(owner, template=structs.replace(owner.template, spec=spec))

        assert outcome(owners(foreign(), change), CLONES) == ([], {OwnerRollingOut("CloneSet", 4, 4, 0)})

    def test_one_with_pods_of_another_image_waits(self) -> None:
        """Where its status says nothing, a rollout is seen there."""

        def change(owner: Workload) -> Workload:
            assert isinstance(owner.template, PodTemplate)
            spec = structs.replace(owner.template.spec, images=("new",))
            return structs.replace(owner, template=structs.replace(owner.template, spec=spec))

        assert outcome(owners(foreign(), change), CLONES)[1] == {OwnerRollingOut("CloneSet", 4, 4, 0)}

    def test_one_that_creates_its_pods_in_order_waits_for_the_lower_ones(self) -> None:
        numbered = foreign(template=False)
        names = {pod.uid: f"zk-{at}" for at, pod in enumerate(numbered.pods)}
        snapshot = pods(numbered, lambda pod: structs.replace(pod, name=names[pod.uid], ready=names[pod.uid] != "zk-1"))
        in_order = owners(snapshot, lambda owner: structs.replace(owner, ordered=True))
        assert outcome(snapshot, CLONES)[0] == ["zk-1"], "the one that is not Ready is the cheapest"
        evicted, facts = outcome(in_order, CLONES)
        assert evicted == ["zk-1"]
        assert LowerOrdinalNotReady("CloneSet", "web-1", "is not Ready") in facts

    def test_volumes_that_the_template_does_not_name_are_not_guessed(self) -> None:
        evicted, facts = outcome(pods(foreign(), lambda pod: structs.replace(pod, claims=("data",))), CLONES)
        assert evicted == []
        assert any(isinstance(fact, Unpredictable) and "volumes that the template" in str(fact) for fact in facts)

    def test_pods_that_are_defined_differently_are_not_planned_as_alike(self) -> None:
        def special(pod: Pod) -> Pod:
            return structs.replace(pod, spec=structs.replace(pod.spec, priority=7))

        snapshot = foreign(template=False)
        first = min(pod.name for pod in snapshot.pods)
        evicted, facts = outcome(changed(snapshot, special, last=3), CLONES)
        assert evicted == [first]
        assert facts == {DefinitionsDiffer("CloneSet", first)}
