"""Templates whose pods may be placed on nodes of several architectures or operating systems.

kube-scheduler does not know the platform of an image. It considers only the labels of nodes, even if a pod has
`spec.os`. On a node of another platform than its image, a pod does not start, and it stays on that node.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.ground import Ground
from rebalancer.lint.manifest import Manifest
from rebalancer.lint.remedies import Remedies
from rebalancer.model.affinity import NodeAffinity
from rebalancer.model.nodes import ARCHITECTURE, SYSTEM
from rebalancer.model.pods import Pod
from rebalancer.model.words import name_list, plural
from rebalancer.scheduling.feasibility import admitted_by_labels, admitted_by_taints

_NOUNS: Final = {SYSTEM: "operating systems", ARCHITECTURE: "architectures"}


def check_platforms(ground: Ground, remedies: Remedies, at_risk: Collection[Manifest]) -> Iterator[Finding]:
    """Yield the manifests that name no platform and whose pods may go to nodes of several platforms.

    The pods of manifests `at_risk` do not all come back after the loss of some zone, whatever the platform.
    """
    groups = ground.now.nodes.groups
    mixed = [key for key in _NOUNS if len(groups(key)) > 1]
    for manifest in ground.by_workload.values() if mixed else ():
        owner = ground.find_owner(manifest)
        pod = ground.make_pod(owner) if owner is not None and manifest.replicas else None
        for key in mixed if isinstance(pod, Pod) else ():
            assert isinstance(pod, Pod)
            counts = _count_nodes(pod, key, ground)
            if len(counts) > 1 and not _names(key, pod.spec.node_affinity):
                yield _describe(manifest, key, counts, pod.spec.os, remedies, is_at_risk=manifest in at_risk)


def _count_nodes(pod: Pod, key: str, ground: Ground) -> Counter[str]:
    """Return how many nodes have each value of a label, among the nodes that labels and taints allow."""
    view, spec = ground.now, pod.spec
    nodes = admitted_by_labels(spec.node_affinity, view) & admitted_by_taints(spec.tolerations, view)
    return Counter({value: len(those & nodes) for value, those in view.nodes.groups(key).items() if those & nodes})


def _names(key: str, affinity: NodeAffinity) -> bool:
    """Return whether required affinity selects each of its nodes by the value of this label, too."""
    terms = affinity.required or ()
    return bool(terms) and all(any(one.key == key for one in term.expressions) for term in terms)


def _describe(
    manifest: Manifest, key: str, counts: Counter[str], system: str, remedies: Remedies, *, is_at_risk: bool
) -> Finding:
    assert manifest.template is not None
    ordered = counts.most_common()
    wanted = system if key == SYSTEM else ""
    if not wanted and ordered[0][1] > ordered[1][1]:
        wanted = ordered[0][0]
    which = name_list(f"{plural(number, 'node')} with {value}" for value, number in sorted(counts.items()))
    return Finding(
        rule=Rule.MIXED_PLATFORMS,
        severity=Severity.WARNING if key == SYSTEM else Severity.INFO,
        manifest=manifest,
        path=(*manifest.template, "spec"),
        message=f"its pods may go to nodes of several {_NOUNS[key]}, and the template names no {key}: {which}. An "
        "image that is not made for one of them does not start there; select what it is made for",
        patch=remedies.select_nodes(manifest, key, wanted, is_at_risk=is_at_risk) if wanted in counts else (),
    )
