"""NothingStartsThere: a node does not start, or rejects, the pods that were bound to it lately.

It is reported whether or not anything is to be repaired: the scheduler goes on to choose the node, for every new pod.
"""

from collections.abc import Iterable, Iterator

from rebalancer.assessment.controllers import stray_reference
from rebalancer.assessment.findings.finding import Finding
from rebalancer.assessment.starts import NodeWithoutStarts
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import FindingKind
from rebalancer.model.workloads import reference_of
from rebalancer.scheduling.view import View


def start_findings(nodes: Iterable[NodeWithoutStarts], view: View) -> Iterator[Finding]:
    """Yield one finding for each node, with the workloads of the pods that do not start there."""
    for node in nodes:
        yield Finding(
            kind=FindingKind.NOTHING_STARTS_THERE,
            object=f"Node {node.refusal.node}",
            message=node.refusal.sentence,
            workloads=tuple(sorted({_reference(pod, view) for pod in node.pods})),
        )


def _reference(pod: Pod, view: View) -> Reference:
    top = view.snapshot.top_owner_of(pod)
    return reference_of(top) if top is not None else stray_reference(pod)
