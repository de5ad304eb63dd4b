"""The Map document: where the pods of violated workloads are, against their bounds, and where pods are to move.

Zones are side by side, and their nodes are columns. A lane is a workload, or several that a rule counts together.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta

from rebalancer.documents.document import (
    API_VERSION,
    CamelCaseStruct,
    Number,
    Text,
    WorkloadName,
)
from rebalancer.planning.fates import Fate, Never, Waits


class NodeState(StrEnum):
    """Whether a node takes pods; if several states apply, the worst, in this order."""

    LOST = "lost"
    """The controller has seen the node before; it is gone without having been drained."""
    NOT_READY = "not ready"
    CORDONED = "cordoned"
    SETTLING = "settling"
    """The node, a lost node near it, or its domain has changed lately, so no replacement may land on it yet."""
    READY = "ready"


CLOSED: Final = "closed"
"""The word for a node in the state `settling`, which may be Ready for long while its zone has lost a node."""


def node_word(state: NodeState) -> str:
    """Return the word shown for a node in a state."""
    return CLOSED if state is NodeState.SETTLING else state.value


class DomainState(StrEnum):
    """The pods of a domain against its bounds."""

    ABOVE = "above"
    """The domain holds more pods than it may hold once repaired."""
    SHORT = "short"
    """It holds fewer pods than it must hold once repaired."""
    ROOM = "room"
    """It may hold more pods."""
    FULL = "full"
    """It holds the most pods that it may hold."""


class MoveKind(StrEnum):
    """Whether a pod moves."""

    MOVING = "moving"
    """The pod's eviction is under way (without a step), or may go now."""
    WAITING = "waiting"
    """Its eviction is decided and waits."""
    BLOCKED = "blocked"
    """Its eviction is decided, and no budget ever allows it: waiting does not help."""


def move_kind(fate: Fate) -> MoveKind:
    """Return whether a pod moves, given the fate of its eviction."""
    if isinstance(fate, Never):
        return MoveKind.BLOCKED
    return MoveKind.WAITING if isinstance(fate, Waits) else MoveKind.MOVING


class MapNode(CamelCaseStruct, frozen=True, kw_only=True, omit_defaults=True):
    """A node. `until` is when a settling node has settled if nothing changes."""

    name: Text
    state: NodeState
    until: datetime | None = None


class MapLoss(CamelCaseStruct, frozen=True, kw_only=True):
    """What a zone has lost: at `at` all nodes that took pods (`whole`), or some of its nodes since `at`.

    `nodes` no longer take pods. They held `pods` when they were last seen, without pods of DaemonSets.
    """

    at: datetime
    whole: bool
    nodes: Number
    pods: Number


class MapZone(CamelCaseStruct, frozen=True, kw_only=True):
    """A domain of the map's key with its nodes, by name; the zone "" has the nodes without the key.

    `lost` is null unless the zone lacks nodes. Nodes that are gone stay listed in the state lost, unless they are in
    another zone now.

    Of `of` nodes, `ready` are Ready and not cordoned, and `cordoned` are Ready and cordoned. `folded` counts the nodes
    that are not in `nodes`, by state.

    `back` is when a zone that was lost as a whole came back, within the last hour, as far as the controller has seen;
    null where it has lost nodes since then. `unsettledUntil` is when replacements may land in it again if nothing
    changes, null unless it loses nodes; `unsettledAtMost`: it may be earlier.
    """

    name: str
    nodes: tuple[MapNode, ...]
    folded: Mapping[NodeState, Annotated[int, Meta(ge=1)]]
    ready: Number
    of: Number
    back: datetime | None
    unsettled_until: datetime | None
    unsettled_at_most: bool = False
    lost: MapLoss | None = None
    cordoned: Number = 0


class MapDomain(CamelCaseStruct, frozen=True, kw_only=True):
    """The pods of a domain that a rule counts, and the fewest and the most that it may hold once repaired.

    `max` is null where nothing bounds it.
    """

    pods: Number
    min: Number
    max: Number | None
    state: DomainState


class MapRule(CamelCaseStruct, frozen=True, kw_only=True):
    """A constraint, or a limit of the policy, that counts a lane's pods.

    `what` names it: `zone, maxSkew 1`, or `limit brokers/zone (at most 2/5)`. `state` and `reason` are as in the
    report. `domains` lists the most important domains, thirty at most; `moreDomains` is the number of others. `since`
    is when the controller first saw the violation by the lane's workloads, null if it has not.
    """

    topology_key: Text
    what: Text
    state: Text
    reason: str | None
    domains: Mapping[str, MapDomain]
    more_domains: Number
    since: datetime | None


class MapMove(CamelCaseStruct, frozen=True, kw_only=True, omit_defaults=True):
    """A pod that moves or will move from `node` in `zone`, and where its replacement may land.

    `step` is the number of its repair in the plan. It is no order, because repairs take turns. It is left out for a
    blocked eviction, and for an eviction under way that is no longer in the plan. `reason` is what an eviction waits
    for.

    `landed` is the node that the replacement is on already. `toNodes` are the nodes on which it may land, left out if
    they are more than four or not known. `toZones` are the domains of the map's key in which it may land, left out if
    not known.
    """

    step: Annotated[int, Meta(ge=1)] | None = None
    pod: Text
    node: str
    zone: str
    kind: MoveKind
    reason: str | None = None
    landed: str | None = None
    to_nodes: tuple[str, ...] = ()
    to_zones: tuple[str, ...] = ()


class MapLane(MapRule, frozen=True, kw_only=True):
    """Workloads that a rule counts together: the rule, their first violated one, and the pods that it counts.

    `zones` are these pods by domain of the map's key, in all zones if the rule's own key is another. `nodes` are these
    pods by node, for the nodes that the map lists. `moves` are in the order of the plan, moves in flight first, thirty
    at most; `moreMoves` is the number of others.

    `others` are the other rules of these workloads, only in a map of chosen workloads. `stuck`: the figures count the
    workloads as not repairable; false while a workload moves, because that is not known yet.
    """

    namespace: Text
    workloads: tuple[WorkloadName, ...]
    zones: Mapping[str, Number]
    nodes: Mapping[str, Annotated[int, Meta(ge=1)]]
    moves: tuple[MapMove, ...]
    more_moves: Number
    others: tuple[MapRule, ...]
    stuck: bool = False


class MapDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """A map of the violated workloads and of those with moves, or of chosen ones.

    `key` is the topology key whose domains are the zones, "" if all nodes are in one. If there are many nodes, only
    those that a lane concerns are listed, or none if these are too many. `lanes` begin with most pods above their
    bounds. `more` is the number of lanes that are not shown, `moreZones` that of zones.
    """

    api_version: str = API_VERSION
    kind: str = "Map"
    at: datetime | None
    key: str
    zones: tuple[MapZone, ...]
    more_zones: Number
    lanes: tuple[MapLane, ...]
    more: Number
