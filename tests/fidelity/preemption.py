"""Preemption by the real scheduler and by the model, in a control plane where nothing else runs.

Victims stay, terminating, since no kubelet deletes them: the state that the second pod of a scene meets has pods that
are terminating, and mostly one that is nominated for a node.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import PODS
from rebalancer.decoding.lists import decode
from rebalancer.model.pods import Pod
from rebalancer.scheduling.predict import Prediction, predict
from tests.control_plane.accounts import ensure_namespace
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest, object_path
from tests.control_plane.servers import Options
from tests.fidelity.arena import STILL, Arena
from tests.fidelity.preemption_scenes import priority_classes
from tests.fidelity.reading import read_kinds
from tests.fidelity.scenes import OTHER_NAMESPACE, Scene
from tests.fidelity.scheduler_log import MODULES, SchedulerLog, ScheduleTimeoutError

PREEMPTION_MODULES: Final = f"{MODULES},preemption=5,executor=2,default_preemption=5"
BUDGETS: Final = tuple(
    f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets" for namespace in ("default", OTHER_NAMESPACE)
)
QUIET_SECONDS: Final = 0.3
"""A pod whose victims are terminating is tried again at once, if at all."""


@dataclass(kw_only=True)
class Attempt:
    """What the scheduler logs of its first attempt to place a pod."""

    pod: str
    landed: bool = False
    failed: bool = False
    target: str = ""
    """The node for which it is nominated."""
    victims: dict[str, set[str]] = field(default_factory=dict)
    """The pods that would go, by node, of every node that the dry run has reached."""


class PreemptionLog(SchedulerLog):
    """Reads what is said about preemption, too."""

    attempts: dict[str, Attempt]
    _now: Attempt | None = None

    def _take(self, message: str, fields: dict[str, Any]) -> None:
        super()._take(message, fields)
        known = self.__dict__.setdefault("attempts", {})
        match message:
            case "Attempting to schedule pod":
                self._now = None
                if fields["pod"] not in known:
                    self._now = known[fields["pod"]] = Attempt(pod=fields["pod"])
            case "Successfully bound pod to node":  # binding takes its time: another pod may be tried meanwhile
                known[fields["pod"]].landed = True
            case "Unable to schedule pod; no fit; waiting" if self._now is not None:
                self._now.failed = True
            case "the target node for the preemption is determined" if self._now is not None:
                self._now.target = fields["node"]
            case "Pods are potential preemption victims on node" if self._now is not None:
                for one in json.loads(fields["pods"]):
                    self._now.victims.setdefault(fields["node"], set()).add(f"{one['namespace']}/{one['name']}")
            case "Pod is a potential preemption victim on node" if self._now is not None:
                self._now.victims.setdefault(fields["node"], set()).add(fields["pod"])


@dataclass(kw_only=True)
class PreemptionTrial:
    """One pod that both have decided on."""

    seed: int
    prediction: Prediction
    attempt: Attempt
    wrong: list[str]


class PreemptionArena(Arena):
    """A control plane for scenes of preemption."""

    log: PreemptionLog

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self.log = PreemptionLog(plane.log("kube-scheduler"))
        self.log.attempts = {}
        plane.api.create_all(priority_classes())

    def preempt(self, scene: Scene) -> Iterator[PreemptionTrial]:
        """Set a scene, place its newcomers one after the other, clear it away."""
        self._set(scene)
        self._still = read_kinds(self.api, STILL, self._intern)
        for _, manifest in scene.newcomers:
            trial = self._decide(scene.seed, manifest)
            if trial is not None:
                yield trial
        for collection in BUDGETS:
            self._delete_all(collection)
        self._clear()
        self.log.attempts.clear()

    def _decide(self, seed: int, manifest: Manifest) -> PreemptionTrial | None:
        """Return None for a pod that waits for a volume which nobody makes: the scheduler says nothing of it."""
        view = self.view()
        before = {str(pod) for pod in view.snapshot.pods if pod.terminating or pod.preempted}
        pod = decode(PODS, json.dumps(self.api.create(manifest)).encode(), Interner())
        assert isinstance(pod, Pod), pod
        name = str(pod)

        def decided() -> bool:
            attempt = self.log.attempts.get(name)
            return attempt is not None and (attempt.landed or attempt.failed)

        claims = [view.snapshot.claim.get((pod.namespace, claim)) for claim in pod.claims]
        waits = any(claim is not None and not claim.bound for claim in claims)
        try:
            self.log.wait(decided, f"what becomes of {name}", timeout=2 if waits else 20)
        except ScheduleTimeoutError:
            if not waits:
                raise
            self._remove(manifest)
            return None
        attempt = self.log.attempts[name]
        awaited = attempt.victims.get(attempt.target, set()) - before
        carried_out = self._is_carried_out(manifest, attempt.target, awaited)
        time.sleep(QUIET_SECONDS)
        prediction = predict(pod, view)
        return PreemptionTrial(
            seed=seed,
            prediction=prediction,
            attempt=attempt,
            wrong=[f"seed {seed}, {name}: {text}" for text in _differences(prediction, attempt, carried_out)],
        )

    def _is_carried_out(self, manifest: Manifest, target: str, victims: AbstractSet[str]) -> bool:
        """Wait until the API server shows the pod as nominated, and its victims as terminating and preempted."""
        for _ in range(200):
            nominated = self.api.get(object_path(manifest)).get("status", {}).get("nominatedNodeName", "")
            shown = {str(one) for one in self.view().snapshot.pods if one.preempted and one.terminating}
            if victims <= shown and (not target or nominated == target):
                return True
            time.sleep(0.02)
        return False


def _differences(prediction: Prediction, attempt: Attempt, carried_out: bool) -> Iterator[str]:
    outlook = prediction.preemption
    if attempt.landed or outlook is None:
        if attempt.landed != (outlook is None):
            yield f"model feasible on {sorted(prediction.feasible)}, scheduler landed: {attempt.landed}"
        return
    theirs = attempt.target, frozenset(attempt.victims.get(attempt.target, ()))
    ours = {(one.node, frozenset(map(str, one.victims))) for one in outlook.outcomes} or {("", frozenset[str]())}
    if theirs not in ours and outlook.complete:
        yield f"model {[(node, sorted(pods)) for node, pods in ours]} ({outlook.obstacle}), scheduler {theirs}"
    if not carried_out:
        yield f"the API server does not show what the log says: {theirs}"


@contextlib.contextmanager
def preemption_arena() -> Iterator[PreemptionArena]:
    """Start a control plane of its own for scenes of preemption."""
    with ControlPlane(Options(scheduler_modules=PREEMPTION_MODULES)) as plane:
        ensure_namespace(plane.api, OTHER_NAMESPACE, labels={"team": "other"})
        with plane.without("kube-controller-manager", "kwok"):
            yield PreemptionArena(plane)
