"""NothingStartsThere: a node does not start, or rejects, the pods that were bound to it lately.

It is reported whether or not anything is to be repaired: the scheduler goes on to choose the node, for every new pod.
"""

from collections.abc import Iterable, Iterator

from rebalancer.assessment.controllers import find_reference
from rebalancer.assessment.findings.finding import Finding
from rebalancer.assessment.starts import NodeWithoutStarts
from rebalancer.model.reasons import FindingKind
from rebalancer.scheduling.view import View


def start_findings(nodes: Iterable[NodeWithoutStarts], view: View) -> Iterator[Finding]:
    """Yield one finding for each node, with the workloads of the pods that do not start there."""
    for node in nodes:
        if not node.owner:
            yield Finding(
                kind=FindingKind.NOTHING_STARTS_THERE,
                object=f"Node {node.refusal.node}",
                message=node.refusal.sentence,
                workloads=tuple(sorted({find_reference(pod, view) for pod in node.pods})),
            )
