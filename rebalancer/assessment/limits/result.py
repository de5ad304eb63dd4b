"""An evaluated limit: the counts by domain, what is allowed, whether it is satisfied, and a message."""

from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from functools import cached_property
from itertools import count

from msgspec import Struct

from rebalancer.assessment.guarantees import guaranteed_skew, least_under, most_per_domain
from rebalancer.assessment.limit_groups import LimitGroup, LimitGroupPart, format_key
from rebalancer.model.labels import Labels, Operator
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason, State
from rebalancer.policy import WORKLOAD, Limit, LimitAction, Severity
from rebalancer.scheduling.pod_topology_spread import DomainCounts
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View


@dataclass(frozen=True, slots=True)
class Largest:
    """The domain with the most pods, of several the first by name; `share` is its part of the total."""

    domain: str
    count: int
    share: Fraction


class EvaluatedLimit(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """One limit on one set of pods with its counts."""

    gathered: LimitGroup
    rule: Limit
    key: Labels
    """Identifies the set: the key of the limit group, finer where the limit divides the group.

    It includes the larger domain if the limit is evaluated within a larger domain.
    """
    parts: tuple[LimitGroupPart, ...]
    counts: DomainCounts
    """The pods by domain: every declared or eligible domain, and every other domain with a pod."""
    total: int
    existing: int
    """How many domains have a node."""
    possible: int
    """How many domains have a node, or are known to exist without one."""
    cap: int | None
    """The most pods that a domain may hold; None for maxSkew and minPods."""
    view: View

    def __eq__(self, other: object) -> bool:
        """Return whether two limits are equal and count the same pods; their views may differ."""
        if not isinstance(other, EvaluatedLimit):
            return NotImplemented
        compared = ("name", "rule", "parts", "counts", "total", "existing", "possible", "cap")
        return all(getattr(self, name) == getattr(other, name) for name in compared)

    def __ne__(self, other: object) -> bool:
        """Return the opposite: without it, msgspec compares by identity."""
        return not self == other

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def group(self) -> str:
        return self.gathered.policy_group.name

    @property
    def limit(self) -> str:
        return self.rule.name

    @property
    def namespace(self) -> str:
        """The pods' namespace."""
        return self.gathered.namespace

    @property
    def topology_key(self) -> str:
        """The key of the domains."""
        return self.rule.topology_key

    @property
    def max_skew(self) -> int | None:
        """The largest difference allowed; None for other limits."""
        return self.rule.max_skew

    @property
    def min_pods(self) -> int | None:
        """The fewest pods that each domain must hold; None for other limits."""
        return self.rule.min_pods

    @property
    def severity(self) -> Severity:
        """The severity of a violation."""
        return self.rule.severity

    @property
    def action(self) -> LimitAction:
        """The action on a violation."""
        return self.rule.action

    @property
    def for_(self) -> timedelta:
        """How long a violation must last before a pod is evicted because of it."""
        return self.rule.for_

    @property
    def name(self) -> str:
        """A name that stays the same from cycle to cycle."""
        return f"limit {self.group}/{self.limit} {self.namespace} {format_key(self.key)}"

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """The pods that the limit counts, bound or pending."""
        return tuple(pod for part in self.parts for pod in part.pods)

    def stands_in(self, pod: Pod, domain: str) -> bool:
        """Return whether a pod is in a domain."""
        return pod.node is not None and self.view.nodes.values(self.topology_key).get(pod.node) == domain

    # Counts

    @cached_property
    def largest(self) -> Largest | None:
        """The domain with the most pods; None without domains."""
        filled = self.counts.filled
        if filled:
            count = max(filled.values())
            domain = min(value for value, number in filled.items() if number == count)
        elif self.counts:
            domain, count = min(self.counts), 0
        else:
            return None
        return Largest(domain, count, Fraction(count, self.total) if self.total else Fraction(0))

    @property
    def maximum(self) -> int:
        """The greatest count of a domain."""
        return max(self.counts.filled.values(), default=0)

    @property
    def minimum(self) -> int:
        """The least count of a domain."""
        filled = self.counts.filled
        return min(filled.values(), default=0) if len(filled) == len(self.counts) else 0

    @cached_property
    def worst(self) -> str | None:
        """The domain that violates the limit, or would first: the emptiest for minPods, else the fullest."""
        if self.min_pods is not None and self.counts:
            return min(value for value in self.counts if self.counts[value] == self.minimum)
        return self.largest.domain if self.largest is not None else None

    @property
    def headroom(self) -> int:
        """How many more (minPods: fewer) pods the worst domain may hold; negative if the limit is violated."""
        if self.cap is not None:
            return self.cap - self.maximum
        if self.max_skew is not None:
            return self.max_skew - (self.maximum - self.minimum)
        return self.minimum - (self.min_pods or 0) if self.counts else 0

    # Evaluation

    @cached_property
    def state(self) -> State:
        """The state; planning may find a Violated limit to be Unfixable, for example for lack of nodes in a domain."""
        if self.reason is Reason.NO_CAPACITY:
            return State.UNFIXABLE
        if self.reason is not None:
            return State.INFEASIBLE
        return State.VIOLATED if self.headroom < 0 else State.SATISFIED

    @property
    def unsatisfiable(self) -> bool:
        """Whether it is within its bound now although no placement of all its pods satisfies it."""
        return self.state is not State.SATISFIED and self.headroom >= 0

    @property
    def reason(self) -> Reason | None:
        """Why no placement of this many pods can satisfy it, over all domains or over those with nodes."""
        if not self.total:
            return None
        if self.cap is not None and self.cap * self.possible < self.total:
            return Reason.TOO_FEW_DOMAINS if self.cap else Reason.NO_ARRANGEMENT
        if self.min_pods is not None and self.min_pods * len(self.counts) > self.total:
            return Reason.NO_ARRANGEMENT
        if self.min_pods is not None and self.possible < len(self.counts):
            return Reason.TOO_FEW_DOMAINS
        if self.headroom < 0 and self.deserted and not self.improvable:
            return Reason.NO_CAPACITY
        return None

    @cached_property
    def deserted(self) -> tuple[str, ...]:
        """The domains without a node and without pods, sorted."""
        filled = self.counts.filled
        if self.existing == len(self.counts):
            return ()
        return tuple(sorted(value for value, nodes in self.counts.domains.items() if not nodes and value not in filled))

    @property
    def improvable(self) -> bool:
        """Whether evictions can bring the limit nearer to its bound, even if it cannot be satisfied."""
        goal = self.goal
        if goal is None:
            return self.headroom < 0
        if self.min_pods is None:
            return self.maximum > goal
        missing = frozenset(self.deserted)
        return min((self.counts[value] for value in self.counts if value not in missing), default=0) < goal

    @cached_property
    def goal(self) -> int | None:
        """The target of a repair: the cap or, if no placement meets the cap, the least possible maximum.

        For minPods it is the minimum or, if no placement meets that, the greatest possible minimum. For maxSkew it is
        None, unless a domain without nodes counts: then maxSkew is a cap.
        """
        if self.min_pods is not None:
            return min(self.min_pods, self.total // self.existing) if self.existing else None
        cap = self.cap if self.cap is not None or not self.deserted else self.max_skew
        return max(cap, -(-self.total // self.existing)) if cap is not None and self.existing else None

    @cached_property
    def guaranteed(self) -> bool:
        """Whether a violation is impossible while the pods' own hard constraints are satisfied."""
        allowed = self.cap if self.cap is not None else self.max_skew
        if self.rule.within is not None and self.rule.max_share is not None:
            return False  # the total of the share is the count of the larger domain
        if self.min_pods is not None or self.max_skew is not None:
            even = guaranteed_skew(self.parts, self.topology_key, len(self.counts), self.view)
            if even is not None and self.min_pods is not None:
                return least_under(self.total, len(self.counts), even) >= self.min_pods
            if even is not None and even <= (self.max_skew or 0):
                return True
        return allowed is not None and most_per_domain(self.parts, self.topology_key, self.total, self.view) <= allowed

    @cached_property
    def unenforceable(self) -> str:
        """Why no pod is evicted for the limit: the replacement would not be counted; "" if pods may be evicted.

        Labels that are set at run time, such as a role, are not on the pod that the owner creates next.
        """
        required = sorted(_required_labels(self))
        for part in self.parts:
            owner, made = part.member.owner, part.member.next_pod
            if owner is None or isinstance(made, Unpredictable):
                labels = owner.template.labels if owner is not None and owner.template is not None else None
            else:
                labels = made.labels
            if labels is None:
                return f"the next pod of {part.member.reference} is not known"
            for label in required:
                if label not in labels:
                    owner_name = part.member.reference
                    return f"the template of {owner_name} lacks the label {label}: a replacement would not carry it"
            moved = [label for label in required if label in self.key and labels[label] != self.key[label]]
            if moved:
                return f"the template of {part.member.reference} has another value of {moved[0]} than these pods"
            if self.rule.selector is not None and not self.rule.selector.compiled.matches(labels):
                return f"the selector does not match the template of {part.member.reference}"
        return ""

    @property
    def enforceable(self) -> bool:
        """Whether a replacement would be counted in place of its victim."""
        return not self.unenforceable

    @property
    def message(self) -> str:
        """The counts, the limit, and the reason if it is infeasible or unenforceable, in one sentence."""
        text = self._counts_text
        if self.reason is not None:
            text += f"; {self._infeasible_text}"
        if self.action is LimitAction.EVICT and self.state is not State.SATISFIED and not self.enforceable:
            text += f"; no pod is evicted for it: {self.unenforceable}"
        return text

    @property
    def sentence(self) -> str:
        """The message, which begins with the violating domain, or else with why no placement satisfies the limit.

        A zone is lost: each of 2 zones may hold at most 4 of 9 pods, and so far holds 3.
        """
        if self.reason is None or self.headroom < 0:
            return self.message
        return f"{self._infeasible_text}; now {self._counts_text}"

    @property
    def _counts_text(self) -> str:
        rule, largest = self.rule, self.largest
        if largest is None:
            return f"no node that these pods may use has the label {rule.topology_key}"
        if rule.min_pods is not None:
            return f"{rule.topology_key} {self.worst} holds {self.minimum} of {self.total}, minPods is {rule.min_pods}"
        if rule.max_skew is not None:
            emptiest = f"the emptiest {self.minimum}, maxSkew is {rule.max_skew}"
            return f"{rule.topology_key} {largest.domain} holds {largest.count} of {self.total}, {emptiest}"
        percent = f" ({round(100 * largest.share)}%)" if rule.max_share is not None else ""
        share = f", which allows {self.cap}" if rule.max_share is not None else ""
        held = f"{rule.topology_key} {largest.domain} holds {largest.count} of {self.total}{percent}"
        return f"{held}, the limit is {rule.bound}{share}"

    @property
    def _infeasible_text(self) -> str:
        if self.reason is Reason.NO_CAPACITY:
            return f"no node of {self.rule.topology_key} {', '.join(self.deserted)} exists: add one"
        rule, number = self.rule, self.possible
        places = f"{number} domain{'' if number == 1 else 's'} of {rule.topology_key}"
        if self.cap is not None and self.cap:
            needed = -(-self.total // self.cap)
            best = f"at best one holds {self.goal}" if self.goal is not None else "check topologyKey and domains"
            return f"{self.total} pods need {needed} domains, there are {places}; {best}"
        if rule.max_share is not None:
            enough = next(pods for pods in count(self.total) if rule.max_share.cap(pods))
            return f"one pod of {self.total} is beyond {rule.bound} already, from {enough} pods on it is not"
        if self.reason is Reason.NO_ARRANGEMENT:
            return f"{len(self.counts)} domains need {len(self.counts) * (rule.min_pods or 0)} pods"
        missing = len(self.counts) - number
        return f"{missing} of the domains {'has' if missing == 1 else 'have'} no node"


def _required_labels(limit: EvaluatedLimit) -> set[str]:
    """Return the labels that a pod must carry to be counted by a limit."""
    group = limit.gathered.policy_group
    keys = {*group.group_by, *(limit.rule.group_by or ())} - {WORKLOAD}
    for selector in (group.selector, limit.rule.selector):
        if selector is not None:
            required = selector.compiled.requirements
            keys |= {requirement.key for requirement in required if requirement.operator is not Operator.DOES_NOT_EXIST}
    return keys
