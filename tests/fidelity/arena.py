"""A control plane in which scenes are set and pods placed, one after the other.

Controllers and kubelets do not run: nothing changes but what the scene says, so that both sides see the same state.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import KINDS, PODS
from rebalancer.decoding.lists import decode
from rebalancer.model.cluster import Version
from rebalancer.model.pods import Pod
from rebalancer.scheduling.predict import Prediction, predict
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile
from rebalancer.scheduling.view import View
from tests.control_plane.accounts import ensure_namespace
from tests.control_plane.api import in_parallel
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest, object_path
from tests.control_plane.servers import Options
from tests.fidelity.comparison import differences
from tests.fidelity.reading import SCENE_KINDS, Objects, read_kinds, read_version, view_of
from tests.fidelity.scenes import OTHER_NAMESPACE, Scene
from tests.fidelity.scheduler_log import MODULES, Decision, SchedulerLog, ScheduleTimeoutError

COLLECTIONS: Final = (
    "/api/v1/namespaces/default/pods",
    f"/api/v1/namespaces/{OTHER_NAMESPACE}/pods",
    "/api/v1/namespaces/default/persistentvolumeclaims",
    f"/api/v1/namespaces/{OTHER_NAMESPACE}/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/csidrivers",
    "/api/v1/namespaces/default/services",
    "/apis/apps/v1/namespaces/default/replicasets",
    "/api/v1/nodes",
    "/api/v1/namespaces/default/events",
    f"/api/v1/namespaces/{OTHER_NAMESPACE}/events",
)
MOVING: Final = tuple(kind for kind in KINDS if kind.field in {"pods", "claims", "volumes"})
STILL: Final = tuple(kind for kind in SCENE_KINDS if kind not in MOVING)
"""Kinds that do not change while a scene lasts."""
UNSEEN_SECONDS: Final = 0.05
"""Time for kinds whose arrival the scheduler does not log."""

FORGETS_AT_ONCE: Final = Version(1, 35)
FORGOTTEN_SECONDS: Final = 1.5
"""Before that release, VolumeBinding looks once a second whether the pod still exists for whose volume it waits."""


@dataclass(kw_only=True)
class Trial:
    """One pod placed by both."""

    seed: int
    family: str
    kind: str
    prediction: Prediction
    decision: Decision
    view: View
    wrong: list[str]

    @property
    def several_zones(self) -> bool:
        """Whether the zone is a question at all."""
        return len(self.view.nodes.groups("topology.kubernetes.io/zone")) > 1


class Arena:
    """One control plane, ready for scenes."""

    def __init__(self, plane: ControlPlane, profile: Profile = DEFAULT_PROFILE) -> None:
        self.api = plane.api
        self.profile = profile
        self.version = read_version(plane.api)
        self.log = SchedulerLog(plane.log("kube-scheduler"))
        self._intern = Interner()
        self._still: Objects = {}

    def play(self, scene: Scene) -> Iterator[Trial]:
        """Set a scene, place its newcomers one after the other, clear it away."""
        self._set(scene)
        self._still = read_kinds(self.api, STILL, self._intern)
        for kind, manifest in scene.newcomers:
            trial = self._place(scene, kind, manifest)
            if trial is not None:
                yield trial
        self._clear()

    def _set(self, scene: Scene) -> None:
        self.log.events.clear()
        in_parallel(self._create, [other for other in scene.others if "persistent" not in other["kind"].lower()])
        in_parallel(self._create, [other for other in scene.others if "persistent" in other["kind"].lower()])
        nodes = in_parallel(self._create_node, scene.nodes)
        in_parallel(self.api.replace, nodes)
        pods = in_parallel(self._create, scene.pods)
        dying = [pod for pod in pods if pod["metadata"]["name"] in scene.terminating]
        in_parallel(
            lambda manifest: self.api.delete(object_path(manifest | {"kind": "Pod", "apiVersion": "v1"})), dying
        )
        names = [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods]
        changed = [*dying, *(pod for pod in scene.pods if "status" in pod)]
        changed_names = [f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}" for manifest in changed]
        events = self.log.events

        def seen() -> bool:
            return (
                all(events["Update event for node", node["metadata"]["name"]] for node in nodes)
                and all(events["Add event for scheduled pod", name] for name in names)
                and all(events["Update event for scheduled pod", name] for name in changed_names)
            )

        self.log.wait(seen, "the scene")
        time.sleep(UNSEEN_SECONDS)

    def _create(self, manifest: Manifest) -> Manifest:
        made = self.api.create(manifest)
        if "status" in manifest:
            self.api.replace({**made, "status": manifest["status"], **_typed(manifest)}, subresource="status")
        return made

    def _create_node(self, manifest: Manifest) -> Manifest:
        """Create a node and return it without the taint that every new node gets until it is ready."""
        made = self.api.create(manifest)
        return {**made, "spec": manifest["spec"], **_typed(manifest)}

    def _place(self, scene: Scene, kind: str, manifest: Manifest) -> Trial | None:
        view = self.view()
        made = self.api.create(manifest)
        pod = decode(PODS, json.dumps(made).encode(), Interner())
        assert isinstance(pod, Pod), pod
        name = str(pod)
        waits = any(
            not claim.bound for claim in (view.snapshot.claim.get((pod.namespace, c)) for c in pod.claims) if claim
        )

        def decided() -> bool:
            decision = self.log.decisions.get(name)
            # A pod whose volume is yet to be made is scored, and then waits for that in vain.
            return decision is not None and (decision.over or (waits and bool(decision.totals)))

        try:
            self.log.wait(decided, f"what becomes of {name}", timeout=3 if waits else 20)
        except ScheduleTimeoutError:
            if not waits:
                raise
            self._remove(manifest, waits=True)
            return None
        decision = self.log.decisions.pop(name)
        prediction = predict(pod, view)
        trial = Trial(
            seed=scene.seed,
            family=scene.family,
            kind=kind,
            prediction=prediction,
            decision=decision,
            view=view,
            wrong=differences(prediction, decision, view),
        )
        if decision.landing and len(scene.newcomers) > 1:
            self.log.wait(lambda: bool(self.log.events["Add event for scheduled pod", name]), f"that {name} is placed")
        else:
            self._remove(manifest, waits=waits)
        return trial

    def _remove(self, manifest: Manifest, *, waits: bool = False) -> None:
        """Delete a pod, and wait until the scheduler knows; one that `waits` for its volume takes a node until then."""
        self.api.delete(object_path(manifest), grace_seconds=0)
        time.sleep(FORGOTTEN_SECONDS if waits and self.version < FORGETS_AT_ONCE else UNSEEN_SECONDS)

    def view(self) -> View:
        """Read the cluster as the program would."""
        objects = {**self._still, **read_kinds(self.api, MOVING, self._intern)}
        return view_of(objects, self.version, self.profile)

    def _clear(self) -> None:
        gone = [node["metadata"]["name"] for node in self.api.list("/api/v1/nodes")]
        in_parallel(self._delete_all, COLLECTIONS)
        for collection in COLLECTIONS:
            if "persistent" in collection:
                in_parallel(self._let_go, [(collection, item) for item in self.api.list(collection)])
        events = self.log.events
        self.log.wait(lambda: all(events["Delete event for node", name] for name in gone), "the end of the scene")
        time.sleep(UNSEEN_SECONDS)

    def _delete_all(self, collection: str) -> None:
        self.api.request("DELETE", collection, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})

    def _let_go(self, entry: tuple[str, Manifest]) -> None:
        collection, manifest = entry
        self.api.patch(f"{collection}/{manifest['metadata']['name']}", {"metadata": {"finalizers": None}})


def _typed(manifest: Manifest) -> Manifest:
    return {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"]}


@contextlib.contextmanager
def arena(profile: Profile = DEFAULT_PROFILE, profiles: tuple[dict[str, Any], ...] = ()) -> Iterator[Arena]:
    """Start a control plane of its own for scenes."""
    with ControlPlane(Options(scheduler_modules=MODULES, scheduler_profiles=profiles)) as plane:
        ensure_namespace(plane.api, OTHER_NAMESPACE, labels={"team": "other"})
        with plane.without("kube-controller-manager", "kwok"):
            yield Arena(plane, profile)
