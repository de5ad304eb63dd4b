"""Node affinity, pod affinity and anti-affinity, taints and tolerations."""

from enum import StrEnum

from msgspec import Struct, field

from rebalancer.model.labels import NO_LABELS, Labels, LabelSelector, SelectorRequirement


class NodeSelectorTerm(Struct, frozen=True, gc=False, cache_hash=True):
    """Requirements on a node's labels and fields, all of which must hold; without any the term selects nothing."""

    expressions: tuple[SelectorRequirement, ...] = ()
    fields: tuple[SelectorRequirement, ...] = ()


class PreferredNodeTerm(Struct, frozen=True, gc=False):
    """A node selector term with its weight, 1 to 100."""

    weight: int
    term: NodeSelectorTerm


class NodeAffinity(Struct, frozen=True, gc=False, kw_only=True, cache_hash=True):
    """`nodeSelector` and node affinity together: a pod's requirements on a node's labels.

    `required` None: no required affinity. An empty tuple of terms selects no node.
    """

    selector: Labels = NO_LABELS
    required: tuple[NodeSelectorTerm, ...] | None = None
    preferred: tuple[PreferredNodeTerm, ...] = ()


class TermKind(StrEnum):
    """Whether a term must hold, or only counts in the scheduler's scores."""

    REQUIRED = "Required"
    PREFERRED = "Preferred"


class PodAffinityTerm(Struct, frozen=True, gc=False, kw_only=True, cache_hash=True):
    """A term of pod affinity or anti-affinity.

    If `namespaces` is empty and `namespace_selector` is None (null), the term means the pod's own namespace; an empty
    `namespace_selector` means all namespaces.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PreferredPodTerm(Struct, frozen=True, gc=False):
    """A pod affinity term with its weight, 1 to 100."""

    weight: int
    term: PodAffinityTerm


class UnreadTerms(Struct, frozen=True, gc=False, kw_only=True, cache_hash=True):
    """Pods that a pod's required anti-affinity may select, if its terms are not read (`PodSpec.unread`).

    These are pods of every namespace if `everywhere`, of the pod's own namespace if `own`, and of `namespaces`. Each
    has one of `labels`: a key with a value, or with any value (None). None in `labels` stands for pods with any labels.
    """

    everywhere: bool
    own: bool
    namespaces: frozenset[str]
    labels: frozenset[tuple[str, str | None] | None]


class PodAffinity(Struct, frozen=True, gc=False, kw_only=True, cache_hash=True):
    """Required and preferred terms of affinity, and of anti-affinity; `unread` is all that is known of unread terms."""

    required: tuple[PodAffinityTerm, ...] = ()
    preferred: tuple[PreferredPodTerm, ...] = ()
    anti_required: tuple[PodAffinityTerm, ...] = ()
    anti_preferred: tuple[PreferredPodTerm, ...] = ()
    unread: UnreadTerms | None = None


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(Struct, frozen=True, gc=False):
    """A taint of a node."""

    key: str
    effect: TaintEffect
    value: str = ""

    def __str__(self) -> str:
        """Name the taint as messages do, without its effect."""
        return f"{self.key}={self.value}" if self.value else self.key


class Toleration(Struct, frozen=True, gc=False, kw_only=True, cache_hash=True, omit_defaults=True):
    """A toleration of a pod: empty `effect` means any, empty `key` with Exists means every taint."""

    key: str = ""
    operator: str = "Equal"
    """As in the spec: Equal, Exists, and Lt and Gt, which an alpha feature gate enables."""
    value: str = ""
    effect: str = ""
    seconds: int | None = field(default=None, name="tolerationSeconds")
    """How many seconds a NoExecute taint is tolerated, None: forever."""
