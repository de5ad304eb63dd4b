"""What happens to a drawn cluster in the simulator: deployed, every workload rolled out, a node drained, a zone lost.

Objects that the API server refuses are left out: the simulator refuses none.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any, Final

from rebalancer.adapters.files.snapshots import read_snapshot
from rebalancer.lint.check import lint
from rebalancer.lint.finding import Finding, Severity
from rebalancer.lint.ground import Ground
from rebalancer.lint.strategy import read_rolling_update
from rebalancer.model.cluster import Version
from rebalancer.model.moves import Reference
from rebalancer.model.pods import REVISION_LABELS, Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.ports import EvictionResult
from rebalancer.scheduling.rejections import count_rejections, reject_nodes
from rebalancer.scheduling.view import View
from rebalancer.simulator import START, RollingUpdate, SimulatedCluster
from tests.control_plane.resources import Manifest, namespace_of
from tests.lint.build import patched
from tests.lint.drawn_clusters import HASH, Cluster, draw_cluster
from tests.lint.experiment import (
    ALONE,
    DEPLOYED,
    DRAINED,
    REFUSED,
    ROLLED_OUT,
    ZONE_LOST,
    Step,
    name_causes,
    names_zone,
    title_of,
)
from tests.tracking.build import move

LONGEST: Final = timedelta(hours=1)
"""After that nothing moves in any of these clusters."""

CREATED: Final = "2025-12-01T00:00:00Z"


class Simulated:
    """A drawn cluster in the simulator, with what lint says of it; an object may have a finding's patch."""

    def __init__(self, seed: int, fixed: Finding | None = None) -> None:
        drawn = draw_cluster(seed)
        if fixed is not None:
            title = fixed.manifest.title
            objects = (patched(one, fixed) if title_of(one) == title else one for one in drawn.objects)
            drawn = replace(drawn, objects=tuple(objects))
        refused = {found.manifest.title for found in lint(drawn.manifests) if is_refused(found)}
        self.cluster: Final = replace(
            drawn, objects=tuple(one for one in drawn.objects if title_of(one) not in refused)
        )
        self.name: Final = drawn.name
        self.workloads = self.cluster.workloads
        self._manifests = self.cluster
        self.simulated = SimulatedCluster(make_snapshot(replace(self.cluster, objects=())), seed=seed)
        self._seed = seed

    def run(self) -> Iterator[Step]:
        """Do all steps."""
        alone, said = lint(self.cluster.manifests), self._lint()
        self.simulated = SimulatedCluster(make_snapshot(self.cluster), seed=self._seed)
        self._wait()
        for name, findings in ((ALONE, alone), (DEPLOYED, said)):
            yield self._see(name, findings)
        for made in self.workloads:
            yield self._roll_out(made)
        if held := sorted({str(pod.node) for pod in self._snapshot.pods if pod.node is not None}):
            yield self._drain(Random(self.name).choice(held))
        else:
            yield Step(DRAINED, {})
        yield self._lose_zone()

    @property
    def _snapshot(self) -> Snapshot:
        return self.simulated.snapshot(self.simulated.now)

    def _lint(self, *drained: str) -> Sequence[Finding]:
        manifests = self._manifests.manifests
        return lint(manifests, Ground(self._snapshot, manifests), drained, self.name)

    def _wait(self) -> None:
        until = self.simulated.now + LONGEST
        while (due := self.simulated.next_due) is not None and due <= until:
            self.simulated.advance((due - self.simulated.now).total_seconds())

    def _see(self, name: str, said: Sequence[Finding], **fields: Any) -> Step:
        """Return a step with the cluster as it is."""
        known = {key: {self.name: value} for key, value in fields.items()}
        return Step(name, {self.name: said}, short={self.name: self._find_short()}, undone=self._find_undone(), **known)

    def _roll_out(self, made: Manifest) -> Step:
        before = self._find_short()
        self._manifests = self._manifests.with_new_image(made["metadata"]["name"])
        said = self._lint()
        (manifest,) = [one for one in self._manifests.manifests.workloads if one.title == title_of(made)]
        assert manifest.workload is not None
        assert manifest.workload.template is not None
        update = read_rolling_update(manifest)
        # A Deployment that is recreated loses all its pods first.
        rolling = RollingUpdate(update.surge, update.unavailable) if update else RollingUpdate(0, manifest.replicas)
        reference = Reference(self.name, manifest.kind, manifest.name)
        self.simulated.roll_out(reference, manifest.workload.template, rolling)
        self._wait()
        return self._see(ROLLED_OUT, said, objects=[title_of(made)], before=before)

    def _drain(self, node: str) -> Step:
        before, said = self._find_short(), self._lint(node)
        held = {self._title(pod) for pod in self._there(node)}
        self.simulated.nodes.cordon(node)
        stayed = self._evict(node)
        self._wait()
        step = self._see(DRAINED, said, objects=[node], before=before, held=held, stayed=stayed)
        self.simulated.nodes.uncordon(node)
        self._wait()
        return step

    def _there(self, node: str) -> Sequence[Pod]:
        return [pod for pod in self._snapshot.pods if pod.node == node]

    def _evict(self, node: str) -> Mapping[str, str]:
        """Evict all pods there, again and again, until none is left or all are refused and nothing moves."""
        while there := self._there(node):
            left = [pod for pod in there if not pod.terminating]
            answers = {pod.name: self._ask(pod) for pod in left}
            if left and all(answers.values()) and self.simulated.next_due is None:
                return {self._title(pod): answers[pod.name] for pod in left}
            self.simulated.advance(5)
        return {}

    def _ask(self, pod: Pod) -> str:
        """Request an eviction, and return why it is refused, "" where it is not."""
        asked = move(pod.uid, self.simulated.now, namespace=pod.namespace, pod=pod.name, node=pod.node)
        return "" if self.simulated.evict(asked).result is EvictionResult.EVICTED else "refused"

    def _lose_zone(self) -> Step:
        before, said = self._find_short(), self._lint()
        zones = sorted({self.cluster.zone_of(node["metadata"]["name"]) for node in self.cluster.nodes})
        warned = [zone for zone in zones if any(names_zone(found, zone) for found in said)]
        zone = Random(self.name).choice(warned or zones)
        for node in self.cluster.nodes_of(zone):
            self.simulated.nodes.remove(node)
        self._wait()
        return self._see(ZONE_LOST, said, objects=[zone], before=before)

    def _title(self, pod: Pod) -> str:
        assert pod.owner is not None
        stateful = pod.owner.kind == "StatefulSet"
        name = pod.owner.name if stateful else pod.owner.name.rpartition("-")[0]
        return f"{'StatefulSet' if stateful else 'Deployment'} {pod.namespace}/{name}"

    def _by_title(self) -> Mapping[str, Sequence[Pod]]:
        found = defaultdict[str, list[Pod]](list)
        for pod in self._snapshot.pods:
            if not pod.terminating:
                found[self._title(pod)].append(pod)
        return found

    def _find_short(self) -> Mapping[str, str]:
        """Return the workloads that have fewer pods on nodes than wanted, with what keeps one of them off."""
        by_title, view = self._by_title(), View(self._snapshot)
        short = {}
        for made in self.workloads:
            pods = by_title.get(title_of(made), [])
            if sum(pod.node is not None for pod in pods) < made["spec"]["replicas"]:
                waiting = next((pod for pod in pods if pod.node is None), None)
                short[title_of(made)] = find_causes(waiting, view) if waiting is not None else "not created"
        return short

    def _find_undone(self) -> Mapping[str, Mapping[str, str]]:
        """Return the workloads that have not as many Ready pods of their template as wanted, and no other ones."""
        newest = {title: self._find_revision(title) for title in map(title_of, self.workloads)}
        by_title = self._by_title()
        undone = {}
        for made in self.workloads:
            title, wanted = title_of(made), made["spec"]["replicas"]
            pods = by_title.get(title, [])
            done = sum(
                pod.ready and any(pod.labels.get(key) == newest[title] for key in REVISION_LABELS) for pod in pods
            )
            if (len(pods), done) != (wanted, wanted):
                undone[title] = f"{done} of {wanted}"
        return {self.name: undone}

    def _find_revision(self, title: str) -> str:
        """Return the revision of a workload's template: the image of its pods says which it is."""
        kind, _, name = title.partition(" ")
        owned = [
            one
            for one in self._snapshot.workloads
            if (one.kind == kind == "StatefulSet" and f"{one.namespace}/{one.name}" == name)
            or (one.owner is not None and f"{one.namespace}/{one.owner.name}" == name)
        ]
        return max(owned, key=lambda one: one.created).revision


def is_refused(found: Finding) -> bool:
    """Return whether the API server refuses an object, as lint says."""
    return found.rule in REFUSED and found.severity is Severity.ERROR


def find_causes(pod: Pod, view: View) -> str:
    """Return what keeps a pod off all nodes, in the words of the tables."""
    return name_causes(" ".join(one.reason for one in count_rejections(reject_nodes(pod, view))))


def make_snapshot(cluster: Cluster) -> Snapshot:
    """Return a cluster's nodes and objects as the API server has them, before their pods are created."""
    objects = [*map(_as_ready, cluster.nodes), *cluster.objects]
    items = [made for one in objects for made in _store(one)]
    written = [_stamp(one, f"{number:08x}-0000-4000-8000-000000000000") for number, one in enumerate(items)]
    uids = {title_of(one): one["metadata"]["uid"] for one in written}
    for one in written:
        for owner in one["metadata"].get("ownerReferences", ()):
            owner["uid"] = uids[f"Deployment {cluster.name}/{owner['name']}"]
    data = json.dumps({"apiVersion": "v1", "kind": "List", "items": written}).encode()
    snapshot, _ = read_snapshot(data, version=Version(1, 37), at=START, source=cluster.name)
    return replace(snapshot, unknown=frozenset())


def _as_ready(node: Manifest) -> Manifest:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": CREATED}
    return {**node, "status": {**node["status"], "conditions": [ready]}}


def _store(made: Manifest) -> Iterator[Manifest]:
    """Yield an object, and the ReplicaSet of a Deployment."""
    yield json.loads(json.dumps(made))
    if made["kind"] != "Deployment":
        return
    metadata, spec = made["metadata"], json.loads(json.dumps(made["spec"]))
    spec.pop("strategy", None)
    spec["template"]["metadata"]["labels"][HASH] = "first"
    spec["selector"]["matchLabels"][HASH] = "first"
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": metadata["name"], "controller": True}
    yield {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-first",
            "namespace": namespace_of(made),
            "labels": spec["template"]["metadata"]["labels"],
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def _stamp(made: Manifest, uid: str) -> Manifest:
    made["metadata"] |= {"uid": uid, "creationTimestamp": CREATED, "generation": 1}
    if made["kind"] in {"Deployment", "ReplicaSet"}:
        made["status"] = {"observedGeneration": 1}
    if made["kind"] == "StatefulSet":
        made["status"] = {"observedGeneration": 1, "updateRevision": "first", "currentRevision": "first"}
    return made
