"""Templates whose newest pod does not start: the replacement of a Ready pod would not start either.

The newest pod of a template is the witness for its replacements. While it cannot pull its image, lacks a Secret or
ConfigMap, or has crashed since it was made, no Ready pod of that template goes. The wait ends when the witness is Ready
or gone, or an equally new pod of the template is Ready.

Example: the image of a Deployment has been deleted from its registry. Its pods keep running, since their nodes have the
image. A pod that was made three days ago waits with ImagePullBackOff, and so would every replacement on a node without
the image.

If a later pod is Ready on another node, the fault of an earlier pod may be its node's. A later pod on the same node
shows nothing of the sort: that node has started the template, so the image or object has gone since. If pods of several
owners do not start on one node, and on no other, the fault is that node's. The fault may also be the node's if the node
has made no sandbox for a pod. Both cases are left to `assessment.starts`.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Final

from rebalancer.model.facts import Refusal
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot

_CRASH: Final = "CrashLoopBackOff"
_LACKING: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError"}
)
"""Waiting reasons of a container whose image, Secret or ConfigMap is missing."""


class TemplateDoesNotStart(Refusal):
    """The newest pod of a template does not start: `failure` is why, `message` what its kubelet says."""

    reason = Reason.TEMPLATE_DOES_NOT_START
    ends = "when pod {self.pod}, or a later one of the same template, is Ready"
    pod: str
    node: str
    failure: str
    message: str
    since: datetime

    def __str__(self) -> str:
        said = f"{self.failure}: {self.message}" if self.message else self.failure
        return (
            f"{self.pod} on node {self.node}, the newest pod of the same template, has not started since "
            f"{self.since:%Y-%m-%d %H:%M:%SZ} ({said}), so a replacement may not start either. Repair what {self.pod} "
            f"lacks, or the template; delete {self.pod} if its node is to blame"
        )


class TemplateStarts:
    """Which templates of one snapshot do not start."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[tuple[str, str], TemplateDoesNotStart | None] = {}

    @cached_property
    def _failing(self) -> Mapping[str, frozenset[str]]:
        """The owners with pods that do not start, by node."""
        found: dict[str, set[str]] = {}
        starting = (pod for pod in self._snapshot.pods if pod.starting_since is not None and pod.owner is not None)
        for pod in starting:
            if _get_failure(pod) or pod.unstarted_since is not None:
                assert pod.owner is not None, "filtered above"
                found.setdefault(pod.node or "", set()).add(pod.owner.uid)
        return {node: frozenset(owners) for node, owners in found.items()}

    def find_concerned(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Return which of some pods may be refused: none if every template starts."""
        return pods if self._failing else ()

    def refuse(self, pod: Pod) -> TemplateDoesNotStart | None:
        """Return why a Ready pod must not go because its template does not start; None if it may go."""
        if not self._failing or not pod.ready or pod.owner is None:
            return None
        key = pod.owner.uid, pod.revision
        if key not in self._known:
            alike = [one for one in self._snapshot.pods_of.get(pod.owner.uid, ()) if one.revision == pod.revision]
            self._known[key] = self._judge(alike)
        return self._known[key]

    def _judge(self, pods: Iterable[Pod]) -> TemplateDoesNotStart | None:
        living = [pod for pod in pods if not pod.terminating and not pod.finished]
        failing = [pod for pod in living if _get_failure(pod) and not self._is_of_node(pod)]
        if not failing:
            return None
        witness = max(failing, key=lambda pod: (pod.created, pod.name))
        later = [pod for pod in living if pod.ready and pod.created >= witness.created]
        failure = _get_failure(witness)
        if later and (failure == _CRASH or all(pod.node != witness.node for pod in later)):
            return None
        assert witness.starting_since is not None, "a pod that was Ready once has no failure here"
        return TemplateDoesNotStart(
            witness.name, witness.node or "", failure, witness.start_message, witness.starting_since
        )

    def _is_of_node(self, pod: Pod) -> bool:
        """Return whether the fault is the node's: pods of several owners fail there, and on no other node."""
        node = self._snapshot.node.get(pod.node or "")
        if node is None or not node.ready:
            return True
        here = self._failing[node.name]
        elsewhere = frozenset[str]().union(*(owners for name, owners in self._failing.items() if name != node.name))
        return len(here) > 1 and here.isdisjoint(elsewhere)


def _get_failure(pod: Pod) -> str:
    """Return why a pod has not started yet, "" if nothing shows that its template does not start."""
    if pod.starting_since is None:
        return ""
    if pod.start_failure in _LACKING or pod.start_failure == _CRASH:
        return pod.start_failure
    return _CRASH if pod.restarts else ""
