"""The test cluster as the program would see it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import KINDS, OPTIONAL_KINDS, ResourceKind
from rebalancer.decoding.lists import decode_items, make_snapshot, open_page
from rebalancer.model.cluster import Version
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile
from rebalancer.scheduling.view import View
from tests.control_plane.api import Api, in_parallel

Objects = dict[str, list[Any]]

SCENE_KINDS: Final = (*KINDS, *(kind for kind in OPTIONAL_KINDS if kind.field == "csi_drivers"))
"""The kinds that a scene may have objects of."""


def read_kinds(api: Api, kinds: Sequence[ResourceKind], intern: Interner) -> Objects:
    """Read all objects of some kinds, by the snapshot's field."""
    objects: Objects = {kind.field: [] for kind in kinds}
    for kind, document in zip(kinds, in_parallel(lambda kind: api.get(kind.path), kinds), strict=True):
        page = decode_items(kind, open_page(json.dumps(document).encode()), intern)
        assert not page.faults, page.faults
        objects[kind.field] += page.objects
    return objects


def read_version(api: Api) -> Version:
    """Read the release of the API server, which the scheduler has too."""
    return Version.parse(api.get("/version")["gitVersion"])


def view_of(objects: Objects, version: Version, profile: Profile = DEFAULT_PROFILE) -> View:
    """Put objects of every kind together."""
    known = [kind.name for kind in KINDS]
    return View(make_snapshot(objects, taken_at=datetime.now(UTC), known=known, version=version), profile)


def read_view(api: Api) -> View:
    """Read the whole cluster."""
    return view_of(read_kinds(api, KINDS, Interner()), read_version(api))
