"""Scenes as the model sees them, without a control plane: for properties that need rich clusters, not the scheduler."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from typing import Any

from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import KINDS, PODS, ResourceKind
from rebalancer.decoding.lists import decode, make_snapshot
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Fault, Snapshot
from tests.control_plane.resources import Manifest
from tests.fidelity.reading import SCENE_KINDS
from tests.fidelity.scenes import Scene

TAKEN_AT = datetime(2026, 1, 1, tzinfo=UTC)


def decoded(scene: Scene) -> tuple[Snapshot, list[Pod]]:
    """Return the scene's cluster and its newcomers."""
    intern = Interner()
    named = {kind.name: kind for kind in SCENE_KINDS}
    objects: dict[str, list[Any]] = {kind.field: [] for kind in SCENE_KINDS}
    for position, manifest in enumerate((*scene.others, *scene.nodes, *scene.pods)):
        kind = named[manifest["kind"]]
        objects[kind.field].append(_object(kind, manifest, f"u{position}", scene, intern))
    newcomers = [
        _object(PODS, manifest, f"new{position}", scene, intern)
        for position, (_, manifest) in enumerate(scene.newcomers)
    ]
    return make_snapshot(objects, taken_at=TAKEN_AT, known=[kind.name for kind in KINDS]), newcomers


def _object(kind: ResourceKind, manifest: Manifest, uid: str, scene: Scene, intern: Interner) -> Any:
    made = copy.deepcopy(manifest)
    made["metadata"]["uid"] = uid
    if manifest["kind"] == "Pod" and made["metadata"]["name"] in scene.terminating:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    decoded = decode(kind, json.dumps(made).encode(), intern)
    assert not isinstance(decoded, Fault), decoded
    return decoded
