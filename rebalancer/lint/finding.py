"""A finding: a rule, the file and field, the fact with its numbers, and the smallest change that removes it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from rebalancer.lint.manifest import Manifest, Path
from rebalancer.model.worded import Worded


class Severity(StrEnum):
    """How bad a finding is.

    An error means that something will be refused or get stuck; a warning, that it will under a condition that it names.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(Severity).index(self)


class Rule(Worded):
    """The rules. `sentence` says on the page of rules what a rule finds."""

    @property
    def help(self) -> str:
        """The address of the project's page that explains the rule."""
        return f"docs/lint.md#{self.value}"

    UNREADABLE = (
        "unreadable",
        (
            "An object of a known kind that the API server would refuse: a field has a wrong type. As a warning: a key "
            "is there twice."
        ),
    )
    REFUSED_VALUE = (
        "refused-value",
        (
            "A number or a percentage is out of range, or two fields exclude each other: the API server refuses the "
            "object."
        ),
    )
    REFUSED_BY_LIMIT_RANGE = (
        "refused-by-limit-range",
        (
            "A LimitRange of the namespace refuses the pods of a template: the workload is accepted, and no new pod is "
            "created. A warning where the LimitRange is among the manifests, or a webhook may change the pods."
        ),
    )
    DUPLICATE_OBJECT = (
        "duplicate-object",
        "Two manifests have the same kind, namespace and name: where both are deployed, the last one is in force.",
    )
    SELECTOR_MISSES_TEMPLATE = (
        "selector-misses-template",
        "A workload's selector does not match the labels of its own template: the API server refuses it.",
    )
    SPREAD_MISSES_PODS = (
        "spread-misses-own-pods",
        (
            "A spread constraint's selector does not match the pods that carry it: each of them counts as none, and "
            "where the constraint is hard, other pods decide whether it finds a node."
        ),
    )
    MISSPELT_KEY = (
        "misspelt-key",
        (
            "A topology key is nearly a well-known one, or an outdated one: no node may have it, and a hard constraint "
            "then admits no node."
        ),
    )
    DUPLICATE_CONSTRAINT = (
        "duplicate-constraint",
        "Two constraints have the same topologyKey and whenUnsatisfiable: the API server refuses the object.",
    )
    MIN_DOMAINS_WITHOUT_HARD = (
        "min-domains-without-do-not-schedule",
        "minDomains stands in a constraint that is not DoNotSchedule: the API server refuses the object.",
    )
    CONTRADICTORY_CONSTRAINTS = (
        "contradictory-constraints",
        "Rules of one template exclude each other for this number of replicas: some pods never find a node.",
    )
    ROLLOUT_WEDGES = (
        "rollout-wedges",
        (
            "A rolling update cannot go on: no node takes the next new pod, and no further old one may be taken away. "
            "Without a cluster: anti-affinity or a host port keeps a surge pod off the domains of the old ones, or a "
            "hard spread constraint does while another domain is empty. In a cluster its steps are played: an error "
            "where every way wedges, a warning where some way does."
        ),
    )
    MISSING_MATCH_LABEL_KEYS = (
        "missing-match-label-keys",
        (
            "A hard constraint counts the pods of all revisions together: after a rolling update the new ones alone "
            "may be skewed."
        ),
    )
    ANTI_AFFINITY_DOMAINS = (
        "anti-affinity-domains",
        "Required anti-affinity allows one pod in a domain: there must be as many domains as replicas.",
    )
    BUDGET_ALLOWS_NOTHING = (
        "budget-allows-nothing",
        (
            "A PodDisruptionBudget never allows an eviction: no drain of a node with such a pod ends, and nothing is "
            "repaired."
        ),
    )
    MISSING_DOMAINS = (
        "missing-domains",
        "No node of the cluster has a topology key: a hard rule over it admits no node, another one does nothing.",
    )
    NO_PLACEMENT = (
        "no-placement",
        (
            "Not every pod finds a node of the cluster as it is: an error where this is proved, whatever "
            "kube-scheduler chooses, a warning where it is not certain that all do."
        ),
    )
    NO_PLACEMENT_AT_MOST = (
        "no-placement-at-most",
        "An autoscaler may choose more replicas than find a node of the cluster as it is.",
    )
    NOT_WITHOUT_A_ZONE = (
        "not-without-a-zone",
        "Once the nodes of a zone are gone, not every pod finds another one, whatever kube-scheduler chooses.",
    )
    MIXED_PLATFORMS = (
        "mixed-platforms",
        (
            "The pods may go to nodes of several architectures (a note) or operating systems (a warning), and the "
            "template names none. The change selects those of `spec.os`, else of most nodes: whether the image is made "
            "for them must be known first."
        ),
    )
    VIOLATES_OTHERS = (
        "violates-others",
        (
            "A hard constraint of a workload that is in no manifest counts the new pods, too; it is satisfied now and "
            "violated once these are deployed: an error where no placement of them satisfies it, a warning where the "
            "likeliest one does not. Of a limit of the policy that counts pods of such a workload, too: a warning."
        ),
    )
    TAKES_EVICTIONS = (
        "takes-evictions",
        (
            "Pods of today violate a limit of the policy, which starts no rollout: how many evictions repair that. Of "
            "constraints that differ from the live workload's: its rollout places the pods anew, or keeps some back."
        ),
    )
    DRAIN_NEVER_ENDS = (
        "drain-never-ends",
        (
            "A drain of the named nodes does not end: a budget never lets a pod go, or keeps more pods than find a "
            "node elsewhere. A warning where it lets none go as long as no other pod becomes Ready."
        ),
    )
    DRAIN_LEAVES_FEWER = (
        "drain-leaves-fewer",
        "After a drain of the named nodes not every pod finds another node, or nobody creates it anew.",
    )
    LIMIT_IMPOSSIBLE = (
        "limit-impossible",
        (
            "No placement of the pods keeps a limit of the policy: an error where the number of domains is known, or "
            "where the limit allows none of the pods in a domain. As a note: how many domains it takes."
        ),
    )
    LIMIT_NOT_GUARANTEED = (
        "limit-not-guaranteed",
        (
            "No hard constraint of the pods guarantees a limit of the policy: kube-scheduler may place more of them in "
            "one domain than the limit allows. The change is the constraint that guarantees it."
        ),
    )
    SIZES_BEYOND_LIMIT = (
        "sizes-beyond-limit",
        (
            "Some numbers of pods that an autoscaler may choose, or the written one, have no placement within a limit "
            "of the policy and the constraint that guarantees it: they violate the limit, or leave pods without a node."
        ),
    )
    SIZES_WITHOUT_PLACEMENT = (
        "sizes-without-placement",
        (
            "Hard constraints over zones and over smaller domains leave some numbers of pods without a placement that "
            "pods reach one by one."
        ),
    )
    GROUPS_DEADLOCK = (
        "groups-deadlock",
        (
            "Groups of pods, each with anti-affinity to its own, can block each other under the constraint that "
            "guarantees a limit: a pod stays pending, although other choices of kube-scheduler place all of them."
        ),
    )
    SCALE_DOWN_SKEW = (
        "scale-down-skew",
        (
            "A scale-down of a StatefulSet deletes the pods with the highest ordinals, whatever their domains: what it "
            "leaves may violate maxSkew, or a limit of the policy."
        ),
    )
    DRAIN_ORDER = (
        "drain-order",
        (
            "Some pods of a drain have to wait for others: their budget lets only some go at once (a note), or keeps "
            "the last ones unless another workload goes later (a warning)."
        ),
    )
    DRAIN_DELETES_DATA = (
        "drain-deletes-data",
        (
            "Pods of a drain have emptyDir volumes: kubectl drain refuses without --delete-emptydir-data, and with it "
            "their data is deleted. A note."
        ),
    )
    BUDGETS_OVERLAP = (
        "budgets-overlap",
        "Two PodDisruptionBudgets select the same pods: the API server refuses every eviction of them.",
    )


class Operation(NamedTuple):
    """An operation of a JSON Patch (RFC 6902) against the document; `remove` has no value."""

    op: str
    path: Path
    value: Any = None

    def pointer_in(self, manifest: Manifest) -> str:
        """Return the path as a JSON Pointer (RFC 6901) in the document that contains the object."""
        steps = (*manifest.prefix, *self.path)
        return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a rule says about a manifest, at the line of `path`; `patch` is the smallest change, empty if none helps.

    For rules about limits, `numbers` are the numbers of the message by name, and `sizes` are the numbers of pods that
    the message lists.
    """

    rule: Rule
    severity: Severity
    manifest: Manifest
    path: Path
    message: str
    patch: tuple[Operation, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()

    @property
    def line(self) -> int:
        """The line of the field that the finding is about."""
        return self.manifest.find_line(self.path)


def sort_findings(findings: Iterable[Finding]) -> Sequence[Finding]:
    """Return findings ordered by file, line and rule, without those that a comment turns off."""
    kept = (one for one in findings if one.rule not in one.manifest.ignores)
    return sorted(kept, key=lambda one: (one.manifest.file, one.line, one.severity.rank, one.rule, one.message))


def set_field(manifest: Manifest, path: Path, value: Any) -> tuple[Operation, ...]:
    """Return the operations that set a field, and that create the missing objects around it."""
    for length in range(1, len(path)):
        if manifest.find(path[:length]) is None:
            for step in reversed(path[length:]):
                value = {step: value}
            return (Operation("add", path[:length], value),)
    return (Operation("replace" if manifest.find(path) is not None else "add", path, value),)
