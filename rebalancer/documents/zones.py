"""The zones of a cluster of many nodes: how its nodes divide, and where the pods of violated workloads are and move."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from rebalancer.documents.document import CamelCaseStruct, Number


class NodeMark(StrEnum):
    """The state of a node; if several apply, the first in this order."""

    LOST = "lost"
    """The controller has seen the node before; it is gone without having been drained."""
    NOT_READY = "not ready"
    CORDONED = "cordoned"
    SETTLING = "settling"
    LOSING = "losing"
    """A pod on the node moves, or its eviction is decided."""
    RECEIVING = "receiving"
    """A replacement is on the node, or may land on it and on at most three other nodes."""
    UNCHANGED = "unchanged"


class ZoneEntry(CamelCaseStruct, frozen=True, kw_only=True):
    """A domain of the zones' key; the zone "" has the nodes without the key.

    `marks` counts its nodes, each once. `settlesAt` is when the last of its settling nodes has settled if nothing
    changes.

    `pods` counts the pods on its nodes of workloads that are violated or move. `staying` pods stay, as far as is known.
    The eviction of `moving` pods is under way, or may go now. `waiting` pods are to be evicted: the eviction is decided
    and waits, or they are above the bound of a workload that is repaired, and it is decided later. `blocked` pods
    cannot move: no budget ever allows it, or they are above the bound of a workload that cannot be repaired. The sum of
    these four is `pods` and the number of pods already evicted.

    `arriving` counts the replacements of decided evictions that may land in it, up to the room that the bounds leave. A
    replacement that may land in several zones counts in each. `above` is how many pods are above the bounds of their
    workloads. `goal` is the most pods that the zone may hold once repaired, null if no workload has a bound. It is the
    sum of the bounds, and of the present pods of workloads without a bound.
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
    """Up to 24 zones with the most pods of workloads that are violated or move, by name; `moreZones` counts the rest.

    `key` is the topology key whose domains they are, "" where all nodes are in one. `nodes` counts the nodes of all
    zones, without lost ones.
    """

    key: str
    nodes: Number
    zones: tuple[ZoneEntry, ...]
    more_zones: Number
