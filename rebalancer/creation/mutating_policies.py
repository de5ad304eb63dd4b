"""Mutating admission policies that may change an owner's next pod in a way that no pod shows yet.

A policy changes pods by expressions, which are not evaluated. As with webhooks, the newest pod of the template shows
the effect. But the snapshot says when the policy or its binding was last changed, and an older pod says nothing about
that change. Match conditions and parameters may keep a policy from a pod; the newest pod shows that, too. Nothing shows
that a deleted policy gave the newest pod its node selector. The first move that lands elsewhere reveals it.

Source: `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy` (matching, mutating).
"""

from datetime import timedelta
from typing import Final

from rebalancer.model.creation import NewPods
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.scheduling.unpredictable import Unpredictable

_IN_FORCE: Final = timedelta(seconds=10)
"""For this long after a change an API server may admit pods by the old version; 1 to 2 seconds are usual."""


def find_unshown_policy(new: Pod, witness: Pod | None, snapshot: Snapshot) -> Unpredictable | None:
    """Return why a future pod is not predicted, if a policy newer than its witness may change it.

    `witness` is the pod from which the new pod was predicted, None if that was the template.
    """
    for bound in snapshot.bound_policies:
        if not (_matches(bound.policy.pods, new, snapshot) and _matches(bound.binding.pods, new, snapshot)):
            continue
        changed, way_out = bound.last_change(), "Restart a pod of it"
        if changed is None:
            way_out += "; of a file, kubectl has to print policy and binding with --show-managed-fields"
        elif witness is not None and witness.created > changed + _IN_FORCE:
            continue
        return Unpredictable(
            Reason.NOT_PREDICTABLE,
            f"MutatingAdmissionPolicy {bound.policy.name} (binding {bound.binding.name}) may change its replacement, "
            f"and no pod of the template is known to be younger than these. {way_out}",
        )
    return None


def _matches(pods: NewPods | None, new: Pod, snapshot: Snapshot) -> bool:
    """Return whether a policy may match a pod; the labels of a namespace may not be known."""
    if pods is None or not pods.objects.matches(new.labels):
        return False
    namespace = snapshot.namespace.get(new.namespace)
    return namespace is None or pods.namespaces.matches(namespace.labels)
