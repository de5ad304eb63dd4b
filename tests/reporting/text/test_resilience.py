"""Changes in the text of `rebalancer resilience`."""

from typing import Any

from rebalancer.documents.resilience import resilience_document
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import ZONE
from rebalancer.reporting.text.resilience import resilience_text
from rebalancer.resilience.changed import Change, ChangedConstraint, MoreNodes
from rebalancer.resilience.changes import Changes
from rebalancer.resilience.loss import OnNodesNotReady
from rebalancer.resilience.reason import StaysTerminating
from rebalancer.resilience.rows import LostDomain, Remaining
from tests.build import a_cluster

LOSSES = [LostDomain(key=ZONE, value="a", phase=Phase.GONE, nodes=1, rows=())]


def changes_text(*changes: Change, complete: bool = True, left: int = 0, **fields: Any) -> str:
    """Return what is below the sentence for all."""
    workload = Reference("shop", "Deployment", "web")
    found = Changes(workload=workload, group="apps", changes=changes, complete=complete, **fields)
    nodes = {one.name: one for one in a_cluster("ab").snapshot().nodes}
    document = resilience_document([ZONE], 1, LOSSES, 1, [found], left, nodes)
    return resilience_text(document).partition("\n\n")[2]


def test_nodes_are_added_beside_constraints() -> None:
    """Each part is named; the command is of the constraints alone, on lines of its own."""
    constraint = ChangedConstraint(index=0, key=ZONE, max_skew=2)
    nodes = (MoreNodes(number=1, like="a-1"), MoreNodes(number=2, like="b-1"))
    assert changes_text(Change(constraints=(constraint,), nodes=nodes)) == (
        "shop/web comes back whole with maxSkew 2 on its constraint over zone and 1 node more like a-1 in zone a "
        "and 2 nodes more like b-1 in zone b:\n"
        "kubectl -n shop patch deployment web --type=json -p \\\n"
        '  \'[{"op":"add","path":"/spec/template/spec/topologySpreadConstraints/0/maxSkew","value":2}]\'\n'
        "One change of a service is enough. With a larger maxSkew its pods may stand so unevenly from then on. A patch "
        "starts a rollout, which places all pods anew: run this command again after it.\n"
    )


def test_nodes_alone_need_no_command() -> None:
    text = changes_text(Change(nodes=(MoreNodes(number=2, like="a-1"),)))
    assert text == "shop/web comes back whole with 2 nodes more like a-1 in zone a.\n"


def test_what_was_not_tried_is_said() -> None:
    """A search that ended, and workloads that none was made for."""
    assert changes_text(complete=False, left=3) == (
        "shop/web: the search for changes ended before all were tried.\n"
        "Changes of 3 more workloads were not searched for, or not shown: name one of them.\n"
    )
    assert changes_text().startswith(
        "shop/web: with its pods where they are now, none of these changes is proved to make it whole: "
    )


def test_an_obstacle_is_named_instead_of_changes_that_were_not_tried() -> None:
    """Nothing is denied of them."""
    assert changes_text(obstacle=StaysTerminating(1), silent=2) == (
        "shop/web: no change makes it whole for certain: a StatefulSet does not replace pods that are terminating: its "
        "1 lost pod stays so until its Node object is deleted (kubectl delete node, once it is off for certain).\n"
    )


def test_changes_say_which_nodes_are_taken_to_stay_silent() -> None:
    """Also where none is needed then."""
    assert changes_text(Change(), silent=1) == (
        "1 node is not Ready. Changes are computed for the time when the pods there have been deleted and replaced, if "
        "it stays so.\nshop/web comes back whole without a change.\n"
    )


def test_between_the_bounds_not_only_the_order_decides() -> None:
    """Whether nodes that are not Ready come back does, too: the column beside it says so."""
    row = Remaining(
        workload=Reference("shop", "Deployment", "web"),
        wanted=6,
        now=2,
        guaranteed=2,
        possible=6,
        reason=OnNodesNotReady(2),
    )
    losses = [LostDomain(key=ZONE, value="a", phase=Phase.GONE, nodes=1, rows=(row,))]
    text = resilience_text(resilience_document([ZONE], 1, losses, 1))
    assert "of 1 workload 1 may come back whole.\n" in text
    assert "2 pods are on other nodes that are not Ready, and the outcome depends on whether those come back" in text
    assert "the order of deletions and placements decides, or what WHY NOT ALL names." in text
