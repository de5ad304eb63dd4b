"""Differences between Kubernetes versions, as data.

Only changes of verdicts and scores from 1.30 on are here, with their release. Older rules are left out: counting of
pods on ineligible nodes (up to 1.23), minDomains behind a gate (up to 1.26), inclusion policies behind a gate (up to
1.25).
"""

from dataclasses import dataclass

from rebalancer.model.cluster import Version

EMPTY_SELECTOR_FIXED = Version(1, 38)
"""First version after the fix of kubernetes/kubernetes#141339; not released when this was written."""


@dataclass(frozen=True, kw_only=True)
class VersionRules:
    """The decisions of one version of kube-scheduler in which versions differ."""

    empty_selector_counts: bool
    """Whether `labelSelector: {}` of a spread constraint counts all pods of the namespace, or none."""
    tainted_domains_count: bool
    """Whether a domain counts for `minDomains` under `nodeTaintsPolicy: Honor` although all its nodes are tainted.

    Proposed for a later release (kubernetes/enhancements#6211); no release does.
    """
    balance_by_improvement: bool
    """Whether BalancedAllocation compares the node with and without the pod, or scores the node with the pod only."""
    balance_skips_idle: bool
    """Whether BalancedAllocation skips a pod without requests (kubernetes/kubernetes#130260)."""
    sidecars_score_as_init: bool
    """Whether LeastAllocated treats a running pod's sidecars as init containers: the maximum counts, not their sum."""
    status_resources_count: bool
    """Whether a resize in place counts on the pod's node, by the resources in the pod's status, or the spec alone."""
    ties_random: bool
    """Whether the winner among equal totals is drawn at random, or is the first in the scheduler's node order."""
    storage_scored: bool
    """Whether VolumeBinding scores nodes by how little of a volume is requested (StorageCapacityScoring, KEP 4049)."""
    devices_meet_resources: bool
    """Whether a DeviceClass may provide an extended resource (DRAExtendedResource, KEP 5004)."""
    drivers_required: bool
    """Whether a CSI driver may keep pods from nodes that do not have it (VolumeLimitScaling, KEP 5030)."""
    resizes_summed: bool
    """Whether a pod that is being resized counts the maximum of three sums, or the sum of each container's maximum."""
    taint_reason_short: bool
    """Whether TaintToleration's reason leaves out which taint it was (kubernetes/kubernetes#134740).

    The newest patch releases of 1.34 also leave it out, but only the major and minor release are known here.
    """
    unexamined_nodes_counted: bool
    """Whether the message of FailedScheduling counts the nodes that a pod's affinity by name leaves out."""
    first_violation_decides: bool
    """Whether preemption stops checking a pod's budgets after a violated budget, or subtracts the pod from all."""
    volume_reason: str
    """VolumeBinding's reason for a node from which a bound volume cannot be reached."""
    claim_reason: str
    """VolumeRestrictions' reason for a claim with ReadWriteOncePod that has its user."""


def get_version_rules(version: Version) -> VersionRules:
    """Return the rules of a version; unknown newer versions follow the newest known."""
    return VersionRules(
        empty_selector_counts=version >= EMPTY_SELECTOR_FIXED,
        tainted_domains_count=False,
        balance_by_improvement=version >= Version(1, 36),
        balance_skips_idle=version >= Version(1, 33),
        sidecars_score_as_init=version < Version(1, 32),
        status_resources_count=version >= Version(1, 33),
        ties_random=version < Version(1, 35) or version >= EMPTY_SELECTOR_FIXED,
        storage_scored=version >= Version(1, 37),
        devices_meet_resources=version >= Version(1, 36),
        drivers_required=version >= Version(1, 37),
        resizes_summed=version >= Version(1, 37),
        taint_reason_short=version >= Version(1, 35),
        unexamined_nodes_counted=version >= Version(1, 32),
        first_violation_decides=version >= Version(1, 37),
        volume_reason=(
            "node(s) didn't match PersistentVolume's node affinity"
            if version >= Version(1, 33)
            else "node(s) had volume node affinity conflict"
        ),
        claim_reason=(
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by"
            " another pod"
            if version >= Version(1, 34)
            else "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
        ),
    )
