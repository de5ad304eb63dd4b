"""What the cluster has lost, as a part of the Status document."""

from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Final

from rebalancer.account.losses import Loss
from rebalancer.documents.document import CamelCaseStruct, Number, Text

_MOST: Final = 5
_MOST_NODES: Final = 10


class LossStatus(CamelCaseStruct, frozen=True, kw_only=True):
    """A domain, `value` of `topologyKey`, that has lost nodes: all that took pods at `at` (`whole`), or some since.

    Of `had` nodes that took pods, `lost` no longer do. They held `pods` when they were last seen, without pods of
    DaemonSets; `nodes` are the first ten of them. `left` nodes take pods now, new ones among them. The domain is
    `empty` when it has no node. `elsewhere` are the domains that now have the lost nodes.

    Because of the loss, `constraints` and `limits` over its key are violated. Of these limits, `unsatisfiable` are
    within their bounds now, but no placement of all their pods satisfies them. `hopeless`: until nodes are back, no
    placement satisfies any violated limit or constraint.

    `repairAt` is when the first repair begins if nothing changes, null if a repair is under way or no time is known.
    `settling`: this repair waits for nodes or domains to settle.
    """

    topology_key: Text
    value: str
    at: datetime
    whole: bool
    empty: bool = False
    lost: Number
    had: Number
    left: Number = 0
    pods: Number
    nodes: tuple[str, ...]
    elsewhere: tuple[str, ...] = ()
    constraints: Number = 0
    limits: Number = 0
    unsatisfiable: Number = 0
    hopeless: bool = False
    repair_at: datetime | None = None
    settling: bool = False


def loss_status(losses: Iterable[Loss]) -> tuple[LossStatus, ...]:
    """Convert the first losses to their entries."""
    return tuple(
        LossStatus(
            topology_key=one.lack.lost.key,
            value=one.lack.lost.value,
            at=one.lack.at,
            whole=one.lack.whole,
            empty=one.lack.empty,
            lost=one.lack.number,
            had=one.lack.lost.had,
            left=one.lack.left,
            pods=one.lack.lost.pods,
            nodes=tuple(node.name for node in one.lack.lost.nodes[:_MOST_NODES]),
            elsewhere=tuple(one.elsewhere[:_MOST]),
            constraints=one.consequences.constraints,
            limits=one.consequences.limits,
            unsatisfiable=one.consequences.unsatisfiable,
            hopeless=one.consequences.hopeless,
            repair_at=one.begin.at if one.begin is not None else None,
            settling=one.begin is not None and one.begin.settling,
        )
        for one in islice(losses, _MOST)
    )
