"""What happens to drawn clusters on the real servers: deployed, rolled out, drained, and one zone of each lost.

The clusters lie side by side. Before each of these steps lint says what it will do, of each cluster alone.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from rebalancer.adapters.kubernetes.listing import read_once
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.lint.check import lint
from rebalancer.lint.finding import Finding
from rebalancer.lint.ground import Ground
from tests.control_plane.api import ApiError, TimedOutError, in_parallel
from tests.control_plane.layout import lay_out
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest, key_of, object_path
from tests.control_plane.settling import condition
from tests.lint.drawn_clusters import Cluster
from tests.lint.experiment import (
    ALONE,
    DEPLOYED,
    DRAINED,
    ROLLED_OUT,
    ZONE_LOST,
    Step,
    name_causes,
    names_zone,
    title_of,
)

QUIET: Final = 12.0
"""A pod that no node admits is tried again after ten seconds at the latest when something has changed."""

SETTLED: Final = 2.0
"""Where nothing waits and every rollout is done nothing can move any more."""

PATIENCE: Final = 300.0


class Linted:
    """The clusters, their nodes laid out."""

    def __init__(self, plane: ControlPlane, clusters: Sequence[Cluster]) -> None:
        self.plane: Final = plane
        self.clusters = {one.name: one for one in clusters}
        lay_out(plane, [node for one in clusters for node in one.nodes], settle=False, timeout=120)
        self._refused: dict[str, dict[str, str]] = defaultdict(dict)

    def lint(self, drained: Mapping[str, Sequence[str]] | None = None) -> Mapping[str, Sequence[Finding]]:
        """Return what lint says of each cluster as it is."""
        snapshot = read_once(connect(kubeconfig=str(self.plane.kubeconfig())), datetime.now(UTC))
        said = {}
        for name, one in self.clusters.items():
            manifests = one.manifests
            ground = Ground(one.part_of(snapshot), manifests)
            said[name] = lint(manifests, ground, (drained or {}).get(name, ()), name)
        return said

    def deploy(self) -> Iterator[Step]:
        """Make all objects, those of a cluster in their order."""
        alone = {name: lint(one.manifests) for name, one in self.clusters.items()}
        said = self.lint()
        in_parallel(self._make, self.clusters.values())
        self.wait_at_rest()
        for name, findings in ((ALONE, alone), (DEPLOYED, said)):
            yield self._see(name, findings)

    def _make(self, cluster: Cluster) -> None:
        for manifest in cluster.objects:
            try:
                self.plane.api.create(manifest)
            except ApiError as error:
                self._refused[cluster.name][title_of(manifest)] = _shorten(error)

    def roll_out(self, number: int) -> Step:
        """Change the image of a workload of each cluster that has so many: its rollout ends, or is at rest."""
        chosen: dict[str, Manifest] = {}
        for name, one in self.clusters.items():
            there = [made for made in one.workloads if self._is_there(name, made)]
            if number < len(there):
                chosen[name] = there[number]
        before = self._find_short()
        for name, made in chosen.items():
            self.clusters[name] = self.clusters[name].with_new_image(made["metadata"]["name"])
        said = self.lint()
        in_parallel(self._change, [(name, made["metadata"]["name"]) for name, made in chosen.items()])
        self.wait_at_rest()
        objects = {name: [title_of(made)] for name, made in chosen.items()}
        return self._see(ROLLED_OUT, said, objects=objects, before=before)

    def _see(self, name: str, said: Mapping[str, Sequence[Finding]], **fields: Any) -> Step:
        """Return a step with the clusters as they are."""
        short, undone = self._find_short(), self._find_undone()
        return Step(name, said, short=short, undone=undone, refused=self._refused, **fields)

    def _is_there(self, name: str, manifest: Manifest) -> bool:
        return title_of(manifest) not in self._refused[name]

    def _change(self, chosen: tuple[str, str]) -> None:
        name, app = chosen
        (made,) = [one for one in self.clusters[name].workloads if one["metadata"]["name"] == app]
        containers = made["spec"]["template"]["spec"]["containers"]
        self.plane.api.patch(object_path(made), {"spec": {"template": {"spec": {"containers": containers}}}})

    def drain(self) -> Step:
        """Drain one node of each cluster that has pods, and open it again."""
        pods = self._by_node()
        nodes: dict[str, Sequence[str]] = {}
        for name, one in self.clusters.items():
            held = [node["metadata"]["name"] for node in one.nodes if pods.get(node["metadata"]["name"])]
            if held:
                nodes[name] = [Random(name).choice(held)]
        drained = [node for those in nodes.values() for node in those]
        held_by = {name: {owner_of(pod) for node in those for pod in pods[node]} for name, those in nodes.items()}
        before, said = self._find_short(), self.lint(nodes)
        self._cordon(drained, closed=True)
        stayed = self._evict(frozenset(drained))
        if not stayed:
            self.wait_at_rest()
        step = self._see(DRAINED, said, objects=nodes, before=before, held=held_by, stayed=stayed)
        self._cordon(drained, closed=False)
        self.wait_at_rest()
        return step

    def _cordon(self, nodes: Iterable[str], *, closed: bool) -> None:
        in_parallel(
            lambda node: self.plane.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": closed or None}}),
            nodes,
        )

    def _evict(self, nodes: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """Evict all pods there, again and again, until none is left or nothing moves and all are refused."""
        deadline, since, seen = time.monotonic() + PATIENCE, time.monotonic(), frozenset[object]()
        while time.monotonic() < deadline:
            pods = self.plane.api.list("/api/v1/pods")
            there = [pod for pod in pods if pod["spec"].get("nodeName") in nodes]
            if not there:
                return {}
            left = [pod for pod in there if not is_ending(pod)]
            answers = in_parallel(self._ask, left)
            now = _state(pods)
            if now != seen or any(map(_moves, pods)) or not all(answers):
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > QUIET:
                stayed: dict[str, dict[str, str]] = defaultdict(dict)
                for pod, answer in zip(left, answers, strict=True):
                    stayed[pod["metadata"]["namespace"]][owner_of(pod)] = answer
                return stayed
            time.sleep(0.5)
        raise TimedOutError(f"evictions still go on after {PATIENCE:g} s")

    def _ask(self, pod: Manifest) -> str:
        """Request an eviction, and return why it is refused, "" where it is not."""
        namespace, name = key_of(pod)
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
        }
        try:
            self.plane.api.create(eviction, path=f"/api/v1/namespaces/{namespace}/pods/{name}/eviction")
        except ApiError as error:
            return _shorten(error)
        return ""

    def lose_zones(self) -> Step:
        """Delete a zone of each cluster, one that lint warns of where there is one, with its pods."""
        before, said = self._find_short(), self.lint()
        chosen: dict[str, str] = {}
        for name, one in self.clusters.items():
            zones = sorted({one.zone_of(node["metadata"]["name"]) for node in one.nodes})
            warned = [zone for zone in zones if any(names_zone(found, zone) for found in said[name])]
            chosen[name] = Random(name).choice(warned or zones)
        nodes = {name: self.clusters[name].nodes_of(zone) for name, zone in chosen.items()}
        lost = sorted(node for those in nodes.values() for node in those)
        for node in Random(len(lost)).sample(lost, len(lost)):
            self.plane.api.delete(f"/api/v1/nodes/{node}")
            self._delete_pods({node})
        time.sleep(1)
        while self._delete_pods(lost):  # the scheduler may bind a pod to a node whose end it has not seen
            time.sleep(1)
        self.wait_at_rest()
        objects = {name: [zone] for name, zone in chosen.items()}
        return self._see(ZONE_LOST, said, objects=objects, before=before)

    def _delete_pods(self, nodes: Collection[str]) -> int:
        """Delete the pods of nodes that are gone, and return how many there were."""
        there = [pod for pod in self.plane.api.list("/api/v1/pods") if pod["spec"].get("nodeName") in nodes]
        for pod in there:
            path = object_path({"apiVersion": "v1", "kind": "Pod", **pod})
            self.plane.api.delete(path, grace_seconds=0, missing_ok=True)
        return len(there)

    def _by_node(self) -> Mapping[str, Sequence[Manifest]]:
        by_node: dict[str, list[Manifest]] = defaultdict(list)
        for pod in self.plane.api.list("/api/v1/pods"):
            if not is_ending(pod) and pod["spec"].get("nodeName"):
                by_node[pod["spec"]["nodeName"]].append(pod)
        return by_node

    def wait_at_rest(self) -> None:
        """Wait until nothing moves any more, whatever waits for a node."""
        deadline, since, seen = time.monotonic() + PATIENCE, time.monotonic(), frozenset[object]()
        while True:
            pods = self.plane.api.list("/api/v1/pods")
            now = _state(pods)
            is_whole = not self._find_undone() and all(condition(pod, "Ready") == "True" for pod in pods)
            if now != seen or any(map(_moves, pods)):
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > (SETTLED if is_whole else QUIET):
                return
            if time.monotonic() > deadline:
                raise TimedOutError(f"not at rest after {PATIENCE:g} s")
            time.sleep(0.3)

    def _find_undone(self) -> Mapping[str, Mapping[str, str]]:
        """Return the workloads that have not as many Ready pods of their template as wanted, and no other ones."""
        undone: dict[str, dict[str, str]] = defaultdict(dict)
        for kind, ready in (("Deployment", "availableReplicas"), ("StatefulSet", "readyReplicas")):
            for one in self.plane.api.list(f"/apis/apps/v1/{kind.lower()}s"):
                status, wanted = one.get("status", {}), one["spec"]["replicas"]
                numbers = [status.get(name, 0) for name in ("replicas", "updatedReplicas", ready)]
                is_seen = status.get("observedGeneration") == one["metadata"]["generation"]
                if not is_seen or numbers != [wanted] * len(numbers):
                    namespace, name = key_of(one)
                    undone[namespace][f"{kind} {namespace}/{name}"] = f"{numbers} of {wanted}"
        return undone

    def _find_short(self) -> Mapping[str, Mapping[str, str]]:
        """Return the workloads that have fewer pods on nodes than wanted, with what keeps one of them off."""
        placed, reasons = Counter[tuple[str, str]](), dict[tuple[str, str], str]()
        for pod in self.plane.api.list("/api/v1/pods"):
            key = pod["metadata"]["namespace"], owner_of(pod)
            if not is_ending(pod):
                placed[key] += bool(pod["spec"].get("nodeName"))
                if not pod["spec"].get("nodeName"):
                    reasons[key] = _why_pending(pod)
        short: dict[str, dict[str, str]] = defaultdict(dict)
        for name, one in self.clusters.items():
            for manifest in one.workloads:
                key = name, title_of(manifest)
                if self._is_there(name, manifest) and placed[key] < manifest["spec"]["replicas"]:
                    short[name][key[1]] = reasons.get(key, "not created")
        return short


def owner_of(pod: Manifest) -> str:
    """Return the workload of a pod, which is named by a label."""
    (owner,) = pod["metadata"]["ownerReferences"]
    kind = "StatefulSet" if owner["kind"] == "StatefulSet" else "Deployment"
    name = owner["name"] if kind == "StatefulSet" else owner["name"].rpartition("-")[0]
    return f"{kind} {pod['metadata']['namespace']}/{name}"


def is_ending(pod: Manifest) -> bool:
    """Return whether a pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def _state(pods: Iterable[Manifest]) -> frozenset[object]:
    return frozenset(
        (pod["metadata"]["uid"], pod["spec"].get("nodeName"), condition(pod, "Ready"), is_ending(pod)) for pod in pods
    )


def _moves(pod: Manifest) -> bool:
    """Return whether a pod is about to be scheduled, to become Ready or to go."""
    on = pod["spec"].get("nodeName")
    return is_ending(pod) or condition(pod, "Ready" if on else "PodScheduled") != ("True" if on else "False")


def _shorten(error: ApiError) -> str:
    causes = error.body.get("details", {}).get("causes") or [{}]
    what = causes[0].get("field") or causes[0].get("reason") or str(error.body.get("message", ""))[:60]
    return f"{error.code} {what}"


def _why_pending(pod: Manifest) -> str:
    """Return what the scheduler says of a pod, without the nodes of the other clusters."""
    (said,) = [str(one.get("message")) for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
    return name_causes(said.partition("preemption")[0])
