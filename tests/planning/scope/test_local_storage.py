"""Pods with data on their node stay, unless the policy or the cluster-autoscaler's annotations let them go."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.model.labels import NO_LABELS, Labels
from rebalancer.model.moments import Clock
from rebalancer.model.pods import LocalStorage, LocalVolume, Pod
from rebalancer.model.reasons import Reason, State
from rebalancer.planning.scope.eligibility import EligibilityChecker, LocalVolumes
from rebalancer.policy.sections import Eligibility
from tests.drawing import examples
from tests.planning.clusters import planned, pods, policy, returned

SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
CACHE = LocalVolume("cache", LocalStorage.EMPTY_DIR)
LOGS = LocalVolume("logs", LocalStorage.HOST_PATH)
SCRATCH = LocalVolume("scratch", LocalStorage.EPHEMERAL)
SNAPSHOT = returned()


def changed(volumes: Sequence[LocalVolume], annotations: Mapping[str, str] | None = None) -> Pod:
    notes = Labels(annotations) if annotations else NO_LABELS
    return structs.replace(SNAPSHOT.pods[0], local_volumes=tuple(volumes), annotations=notes)


def rules(**permissions: str) -> Eligibility:
    return Eligibility.model_validate({"minAge": "0s", "localStorage": permissions})


def checker(eligibility: Eligibility) -> EligibilityChecker:
    return EligibilityChecker(SNAPSHOT, policy(eligibility=eligibility), Clock(SNAPSHOT.taken_at))


@pytest.mark.parametrize("volume", [CACHE, LOGS, SCRATCH])
def test_each_kind_is_refused_by_default_and_counted_all_the_same(volume: LocalVolume) -> None:
    """No pod is evicted, the constraint stays violated, and Allow for this kind alone lets all of them go."""
    snapshot = pods(SNAPSHOT, lambda pod: structs.replace(pod, local_volumes=(volume,)))
    plan = planned(snapshot)
    assert plan.fates.going == ()
    assert {refused.refusal for refused in plan.refusals if refused.pod} == {LocalVolumes((volume,))}
    assert {refused.reason for refused in plan.refusals} == {Reason.LOCAL_STORAGE}
    assert (plan.components[0].state, plan.components[0].reason) == (State.UNFIXABLE, Reason.LOCAL_STORAGE)
    assert len(planned(snapshot, policy(eligibility=rules(**{volume.kind: "Allow"}))).fates.going) == 4
    others = {kind.value: "Allow" for kind in LocalStorage if kind is not volume.kind}
    assert planned(snapshot, policy(eligibility=rules(**others))).fates.going == ()


def test_only_the_pods_with_such_volumes_stay() -> None:
    """Half of each node's pods have an emptyDir: the others are evicted, and their number is the minimum."""
    staying = {pod.uid for pod in SNAPSHOT.pods[::2]}
    plan = planned(
        pods(SNAPSHOT, lambda pod: structs.replace(pod, local_volumes=(CACHE,)) if pod.uid in staying else pod)
    )
    assert len(plan.fates.going) == 4
    assert staying.isdisjoint(eviction.pod.uid for eviction in plan.fates.going)


@pytest.mark.parametrize(
    ("annotations", "held"),
    [
        ({SAFE: "true"}, ()),
        ({SAFE: "True"}, (CACHE, LOGS)),
        ({SAFE_VOLUMES: "cache,logs"}, ()),
        ({SAFE_VOLUMES: "cache,logs,other"}, ()),
        ({SAFE_VOLUMES: "cache"}, (LOGS,)),
        ({SAFE_VOLUMES: "cache, logs"}, (LOGS,)),
        ({SAFE_VOLUMES: ""}, (CACHE, LOGS)),
        ({"team": "shop"}, (CACHE, LOGS)),
    ],
)
def test_the_autoscalers_annotations(annotations: dict[str, str], held: tuple[LocalVolume, ...]) -> None:
    """They are read as the cluster-autoscaler reads them: only "true", names between commas, and all must be listed."""
    refusal = checker(rules()).refuse_pod(changed([CACHE, LOGS], annotations))
    assert refusal == (LocalVolumes(held) if held else None)


def test_only_volumes_of_refused_kinds_need_to_be_listed() -> None:
    eligible = checker(rules(hostPath="Allow"))
    assert eligible.refuse_pod(changed([CACHE, LOGS], {SAFE_VOLUMES: "cache"})) is None
    assert eligible.refuse_pod(changed([CACHE, LOGS], {SAFE_VOLUMES: "logs"})) is not None


@pytest.mark.parametrize("safe", [{SAFE: "true"}, {SAFE_VOLUMES: "cache"}])
def test_the_annotations_lift_nothing_else(safe: dict[str, str]) -> None:
    """Neither `exclude` nor `minAge` nor the owner's number of replicas."""
    pod = changed([CACHE], safe)
    assert checker(rules()).refuse_pod(pod) is None
    excluded = checker(rules()).refuse_pod(changed([CACHE], {**safe, "rebalancer.dev/exclude": "true"}))
    assert excluded is not None
    assert excluded.reason is Reason.EXCLUDED
    young = checker(Eligibility(min_age=timedelta(days=300))).refuse_pod(pod)
    assert young is not None
    assert young.reason is Reason.TOO_YOUNG
    alone = planned(
        pods(SNAPSHOT, lambda pod: structs.replace(pod, local_volumes=(CACHE,), annotations=Labels(safe))),
        policy(eligibility=Eligibility(min_age=timedelta(0), min_replicas=13)),
    )
    assert {refused.reason for refused in alone.refusals} == {Reason.TOO_FEW_REPLICAS}


NAMES = ("a", "b", "c")
VOLUMES = st.lists(st.builds(LocalVolume, st.sampled_from(NAMES), st.sampled_from(LocalStorage)), max_size=3)
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        SAFE: st.sampled_from(["true", "yes", ""]),
        SAFE_VOLUMES: st.lists(st.sampled_from(NAMES)).map(",".join),
        "rebalancer.dev/exclude": st.sampled_from(["true", "false"]),
    },
)


@examples(300)  # a policy is made for each example
@given(
    drawn=st.lists(st.tuples(VOLUMES, ANNOTATIONS), min_size=1, max_size=3),
    allowed=st.sets(st.sampled_from(LocalStorage)),
)
def test_a_pod_stays_exactly_where_a_refused_volume_is_not_declared_safe(
    drawn: list[tuple[list[LocalVolume], dict[str, str]]], allowed: set[LocalStorage]
) -> None:
    """Counted volume by volume; the quick test of many pods says what the test of each pod says."""
    eligible = checker(rules(**{kind.value: "Allow" for kind in allowed}))
    stays = []
    for volumes, notes in drawn:
        listed = notes.get(SAFE_VOLUMES, "").split(",")
        held = [volume for volume in volumes if volume.kind not in allowed and volume.name not in listed]
        excluded = notes.get("rebalancer.dev/exclude") == "true"
        stays.append(excluded or (bool(held) and notes.get(SAFE) != "true"))
    made = [changed(volumes, notes) for volumes, notes in drawn]
    assert [eligible.refuse_pod(pod) is not None for pod in made] == stays
    assert eligible.are_all_movable(made) == (not any(stays))


def test_the_quick_test_accepts_equal_pods_with_allowed_volumes() -> None:
    """A cluster of pods with an emptyDir is not slower to plan once the policy allows their eviction."""
    alike = [changed([CACHE])] * 3
    assert checker(rules(emptyDir="Allow")).are_all_movable(alike)
    assert not checker(rules()).are_all_movable(alike)
    assert not checker(rules(hostPath="Allow")).are_all_movable([changed([]), changed([CACHE])])
