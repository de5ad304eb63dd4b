"""The zones of a cluster of many nodes: how its nodes divide, and where the pods of violated workloads are and move."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from rebalancer.documents.document import CamelCaseStruct, Number


class NodeMark(StrEnum):
    """What there is to say of a node; of several the first in this order."""

    LOST = "lost"
    """It is gone, without having been drained; the controller has seen it before."""
    NOT_READY = "not ready"
    CORDONED = "cordoned"
    SETTLING = "settling"
    LOSING = "losing"
    """A pod on it moves, or is decided to."""
    RECEIVING = "receiving"
    """A replacement is on it, or may land on it and on three others at most."""
    UNCHANGED = "unchanged"


class ZoneEntry(CamelCaseStruct, frozen=True, kw_only=True):
    """A domain of the zones' key; the zone "" has the nodes without the key.

    `marks` counts its nodes, each once. `settlesAt` is when its last settling node has settled if nothing changes.

    `pods` are the pods on its nodes of the workloads that are violated or move. `staying` pods stay, as far as is
    known. The eviction of `moving` pods is under way, or may go now. `waiting` pods are to be evicted: the eviction is
    decided and waits, or they are above the bound of a workload that is repaired, and it is decided later. `blocked`
    pods cannot move: no budget ever allows it, or they are above the bound of a workload that cannot be repaired. The
    sum of these four is `pods` and the number of pods already evicted.

    `arriving` are the replacements of decided evictions that may land in it, no more than the bounds leave room for. A
    replacement that may land in several zones counts in each. `above` is how many pods are above the bounds of their
    workloads. `goal` is the most that it may hold once repaired, null where no workload has a bound. It is the sum of
    these bounds, and of the present pods of workloads without a bound.
    """

    name: str
    marks: Mapping[NodeMark, Annotated[int, Meta(ge=1)]]
    settles_at: datetime | None
    pods: Number
    staying: Number
    moving: Number
    waiting: Number
    blocked: Number
    arriving: Number
    above: Number
    goal: Number | None


class ZonesDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """The zones that hold most such pods, at most 24, by name; `moreZones` is the number of others.

    `key` is the topology key whose domains they are, "" where all nodes are in one. `nodes` counts the nodes of all
    zones, without lost ones.
    """

    key: str
    nodes: Number
    zones: tuple[ZoneEntry, ...]
    more_zones: Number
