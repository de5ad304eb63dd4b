"""Small clusters with required anti-affinity, drawn: a few workloads in two namespaces on nodes that may lack a key."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from hypothesis import strategies as st
from msgspec import structs

from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.cluster import Namespace
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.pods import OwnerReference, Pod, PodPhase, PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload
from tests.scheduling.build import HOSTNAME, NOW, ZONE, node, pod, snapshot

KEYS: Final = (HOSTNAME, ZONE)
HASH: Final = "pod-template-hash"


def a_snapshot(seed: int) -> Snapshot:
    """Draw a cluster of up to three workloads."""
    random = Random(seed)
    nodes = [
        node(f"n{number}", {ZONE: random.choice("ab")} if random.random() < 0.8 else {})
        for number in range(random.randint(1, 4))
    ]
    if random.random() < 0.3:  # one without a host name
        nodes[0] = structs.replace(nodes[0], labels=Labels({ZONE: "a"}))
    owners: list[Workload] = []
    pods: list[Pod] = []
    common = _a_term(random)
    for app in "abc"[: random.randint(1, 3)]:
        made, own = _a_workload(app, random, [one.name for one in nodes], common)
        owners += made
        pods += own
    namespaces = (Namespace(name="x", labels=Labels({"team": "x"})), Namespace(name="y", labels=Labels({"team": "y"})))
    return snapshot(nodes, pods, workloads=tuple(owners), namespaces=namespaces)


def _a_workload(
    app: str, random: Random, nodes: Sequence[str], common: PodAffinityTerm
) -> tuple[list[Workload], list[Pod]]:
    """Draw a Deployment of up to two revisions, a StatefulSet, or pods of nobody; `common` is a term of several."""
    namespace, kind = random.choice("xy"), random.choice(("Deployment", "Deployment", "StatefulSet", "Pod"))
    labels = {"app": app, "tier": random.choice("fb")}
    revisions = 2 if kind == "Deployment" and random.random() < 0.5 else 1
    owners: list[Workload] = []
    top = _an_owner("Deployment", namespace, app)
    terms = [random.choice((common, _a_term(random))) for _ in range(random.choice((0, 1, 1, 2)))]
    pods: list[Pod] = []
    if kind == "Deployment":
        owners.append(top)
    for revision in map(str, range(revisions)):
        own = {**labels, HASH: revision}
        # What the template of a revision declares; the API server has merged its matchLabelKeys.
        declared = terms if revision == "0" or random.random() < 0.7 else [_a_term(random)]
        affinity = PodAffinity(anti_required=tuple(_merge(one, own) for one in declared))
        owner = None
        if kind != "Pod":
            below = _an_owner("ReplicaSet" if kind == "Deployment" else kind, namespace, f"{app}-{revision}")
            if kind == "Deployment":
                below = structs.replace(below, owner=_reference(top))
            owners.append(below)
            owner = _reference(below)
        pods += [
            _a_pod(f"{app}-{revision}-{number}", namespace, own, affinity, owner, random, nodes)
            for number in range(random.randint(0, 3))
        ]
    return owners, pods


def _a_pod(
    name: str,
    namespace: str,
    labels: Mapping[str, str],
    affinity: PodAffinity,
    owner: OwnerReference | None,
    random: Random,
    nodes: Sequence[str],
) -> Pod:
    on = random.choice(nodes) if random.random() < 0.95 else random.choice((None, "gone"))
    phase = PodPhase.PENDING if on is None else random.choice((PodPhase.RUNNING,) * 9 + (PodPhase.SUCCEEDED,))
    deleted = NOW if random.random() < 0.2 else None
    spec = PodSpec(pod_affinity=affinity)
    return pod(labels, on, spec=spec, namespace=namespace, name=name, phase=phase, deleted=deleted, owner=owner)


def _a_term(random: Random) -> PodAffinityTerm:
    """Draw a term as a template has it."""
    apps = [LabelSelector.of({"app": app}) for app in "abc"]
    tiers = [LabelSelector.of({"tier": tier}) for tier in "fb"]
    selector = random.choice([None, LabelSelector.of({}), *apps, *apps, *tiers])
    return PodAffinityTerm(
        topology_key=random.choice(KEYS),
        selector=selector,
        namespaces=random.choice(((), (), (), ("x",), ("y",), ("x", "y"))),
        namespace_selector=random.choice((None, None, None, LabelSelector.of({}), LabelSelector.of({"team": "x"}))),
        match_label_keys=random.choice(((), (), (HASH,))),
    )


def _merge(term: PodAffinityTerm, labels: Mapping[str, str]) -> PodAffinityTerm:
    """Return the term as the API server writes it into a pod: its selector has the pod's values of the keys."""
    if term.selector is None:
        return structs.replace(term, match_label_keys=())
    return structs.replace(term, selector=term.selector.narrowed({key: labels[key] for key in term.match_label_keys}))


def _an_owner(kind: str, namespace: str, name: str) -> Workload:
    return Workload(
        group="apps",
        kind=kind,
        namespace=namespace,
        name=name,
        uid=f"{kind}/{namespace}/{name}",
        selector=LabelSelector.of({"app": name.partition("-")[0]}),
        replicas=1,
        created=NOW,
    )


def _reference(owner: Workload) -> OwnerReference:
    return OwnerReference(group=owner.group, kind=owner.kind, name=owner.name, uid=owner.uid)


clusters = st.integers(min_value=0, max_value=2**32).map(a_snapshot)
