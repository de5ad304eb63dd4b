"""What caused a violation: the change that the controller observed, else what the snapshot shows, else unknown.

The scheduler enforces a hard constraint whenever it places a pod. So the cause of a violation came later: pods or nodes
disappeared, nodes were added, labels changed, or pods were placed while other counted pods still existed.

The cause found when a violation is first seen remains its cause while the violation lasts, unless the snapshot
contradicts it: if all lost nodes of a domain are back, their loss is not the cause, even if it was recorded. A loss
before the workload existed, or a return before its pods existed, is no cause. Neither is a loss or return later than
the violation; to show this order, an unknown cause, or a soft constraint as the cause, is stored, too. Without a memory
the pods show the order if none is missing and all were created before the loss.

A required term of podAntiAffinity is enforced, too, and pods or nodes that come or go cannot violate it. Changed labels
can, or a program that binds pods without the scheduler, which leaves no trace. Anything may violate a preferred term,
like a limit.

A domain that has lost its last node no longer appears in counts, but the memory has it. For the pods that may use the
domain, its loss is the cause of later violations, although their replacements are new pods.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Final

from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.assessment.assess import Assessment, EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.controllers import PodController
from rebalancer.assessment.known_domains import may_use_domain
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.creation.replacement import NODE_LABELS
from rebalancer.model.moments import ALWAYS
from rebalancer.model.moves import ObservedChange, PlanningMemory, ZoneSeen, make_token
from rebalancer.model.nodes import Node
from rebalancer.model.pods import REVISION_LABELS
from rebalancer.model.reasons import NOT_FOUND, State, ViolationCause
from rebalancer.scheduling.feasibility import admitted_by_labels
from rebalancer.scheduling.pod_topology_spread import Counts, DomainCounts, counts
from rebalancer.scheduling.spread_constraints import constraints_of
from rebalancer.scheduling.view import View
from rebalancer.tracking.changes import CHANGE_LIFETIME, domain_subject

Causes = Mapping[str, ViolationCause]
"""Causes of what is violated, by `constraint_token`, `limit_token` and `term_token`."""

MOST_STORED: Final = 1_000
"""Up to this many causes are stored between cycles; others are searched for again in each cycle."""

_COMING_AND_GOING: Final = frozenset(
    {ViolationCause.NODE_LOST, ViolationCause.ZONE_LOST, ViolationCause.DOMAIN_RETURNED}
)

_MOST_DOMAINS: Final = 64
"""Up to this many of the emptiest domains are visited; a single domain with a known change is enough."""


def constraint_token(group: EvaluatedGroup, evaluated: EvaluatedConstraint) -> str:
    """Return a short name of a group's constraint, the same in every cycle."""
    return make_token(f"{group.spread.name} {evaluated.constraint.key} {evaluated.constraint.when_unsatisfiable}")


def limit_token(limit: EvaluatedLimit) -> str:
    """Return a short name of a limit, the same in every cycle."""
    return make_token(limit.name)


def term_token(term: EvaluatedTerm) -> str:
    """Return a short name of a term of podAntiAffinity, the same in every cycle."""
    return make_token(term.name)


def find_causes(assessment: Assessment, view: View, memory: PlanningMemory) -> Causes:
    """Find the cause of every violated constraint, limit and term."""
    finder = _CauseFinder(view, memory)
    causes: dict[str, ViolationCause] = {}
    for group in assessment.groups:
        for evaluated in (*group.hard, *group.soft):
            if evaluated.counts.violated:
                token = constraint_token(group, evaluated)
                causes[token] = finder.constraint_cause(token, group, evaluated)
    for limit in assessment.limits:
        if limit.state is not State.SATISFIED:
            token = limit_token(limit)
            causes[token] = finder.limit_cause(token, limit)
    for term in (*assessment.anti_affinity, *assessment.preferred):
        if term.violated:
            token = term_token(term)
            causes[token] = finder.term_cause(token, term)
    return causes


def causes_to_store(
    causes: Causes, assessment: Assessment, view: View, memory: PlanningMemory
) -> tuple[tuple[str, ViolationCause], ...]:
    """Return the causes to store: causes that the next cycle may no longer be able to see.

    An unknown cause of a hard constraint or limit is stored if its emptiest domains were whole when the violation was
    first seen.
    """
    finder = _CauseFinder(view, memory)
    found = [(token, cause) for token, cause in causes.items() if cause not in NOT_FOUND]
    nothing = sorted(
        (token, causes[token])
        for token, key, counts in _enforced(assessment)
        if causes.get(token) in NOT_FOUND and finder.was_violated_while_whole(token, key, counts)
    )
    return tuple(sorted([*sorted(found), *nothing][:MOST_STORED]))


def _enforced(assessment: Assessment) -> Iterator[tuple[str, str, DomainCounts]]:
    """Yield each violated hard constraint and each limit that is not satisfied: its token, key and counts."""
    for group in assessment.groups:
        for one in group.hard:
            if one.counts.violated:
                yield constraint_token(group, one), one.constraint.key, one.counts.by_domain
    for limit in assessment.limits:
        if limit.state is not State.SATISFIED:
            yield limit_token(limit), limit.topology_key, limit.counts


class _CauseFinder:
    """Finds causes in one cycle, from the memory and the snapshot."""

    def __init__(self, view: View, memory: PlanningMemory) -> None:
        self._view = view
        self._known = dict(memory.causes)
        lasting = [change for change in memory.changes if not self._is_undone(change)]
        self._changes: dict[str, ViolationCause] = {change.subject: change.cause for change in lasting}
        """The newest change of each subject."""
        self._relabelled = {change.subject for change in lasting if change.cause is ViolationCause.LABELS_CHANGED}
        """Subjects whose labels changed, regardless of later changes."""
        self._lost = {change.subject for change in lasting if change.cause is ViolationCause.NODE_LOST}
        """The domains that still lack lost nodes, even if another of their nodes has returned since."""
        self._order = {change.subject: (change.at, place) for place, change in enumerate(lasting)}
        self._seen_at = max((zone.last for zone in memory.zones), default=ALWAYS)
        self._gone = [
            zone for zone in memory.zones if zone.last < self._seen_at and zone.zone not in view.nodes.groups(zone.key)
        ]
        """The domains that have lost their last node."""

    def constraint_cause(self, token: str, group: EvaluatedGroup, evaluated: EvaluatedConstraint) -> ViolationCause:
        if not evaluated.constraint.hard:
            return ViolationCause.SOFT_CONSTRAINT
        members = group.spread.members
        key, counts = evaluated.constraint.key, evaluated.counts.by_domain
        return self._cause_of(token, key, counts, members)

    def limit_cause(self, token: str, limit: EvaluatedLimit) -> ViolationCause:
        members = [part.member for part in limit.parts]
        cause = self._cause_of(token, limit.topology_key, limit.counts, members)
        if cause is ViolationCause.UNKNOWN and self._soft_constraint_violated(limit):
            return ViolationCause.SOFT_CONSTRAINT
        return cause

    def term_cause(self, token: str, term: EvaluatedTerm) -> ViolationCause:
        if not term.weight:
            known = self._known.get(token, ViolationCause.UNKNOWN)
            return self._find_relabelling(term) if known in NOT_FOUND else known
        key, counts, members = term.term.topology_key, self._count_participants(term), term.members
        cause = self._cause_of(token, key, counts, members)
        return ViolationCause.SOFT_CONSTRAINT if cause is ViolationCause.UNKNOWN else cause

    def _find_relabelling(self, term: EvaluatedTerm) -> ViolationCause:
        """Return the changed labels if they made pods conflict that the scheduler kept apart, else an unknown cause."""
        subjects = {str(member.reference) for member in term.members}
        subjects.update(domain_subject(term.term.topology_key, conflict.domain) for conflict in term.conflicts)
        if not subjects.isdisjoint(self._relabelled) or any(map(_is_relabelled, term.members)):
            return ViolationCause.LABELS_CHANGED
        return ViolationCause.UNKNOWN

    def _count_participants(self, term: EvaluatedTerm) -> DomainCounts:
        """Count the pods that a term concerns, in all domains with a node that its owners' pods select."""
        nodes, key = self._view.nodes, term.term.topology_key
        values = nodes.values(key)
        placed = (pod.node for participants in term.participants for pod in participants.pods if pod.node is not None)
        filled = Counter(values[node] for node in placed if node in values)
        samples = (member.sample for member in term.members if member.sample is not None)
        selected = list(dict.fromkeys(admitted_by_labels(sample.spec.node_affinity, self._view) for sample in samples))
        admitting = selected[0] if len(selected) == 1 else frozenset[str]().union(*selected)

        def make() -> Mapping[str, frozenset[str]]:
            return {value: names for value, names in nodes.groups(key).items() if not names.isdisjoint(admitting)}

        return DomainCounts(self._view.memo(("domains that are selected", key, admitting), make), filled)

    def _soft_constraint_violated(self, limit: EvaluatedLimit) -> bool:
        """Return whether a violated soft constraint would, if it held, enforce the limit."""
        worst = limit.worst
        if worst is None or limit.state is State.INFEASIBLE:
            return False
        free = [part for part in limit.parts if self._violates_soft_only(part.member, limit, worst)]
        if not free or limit.cap is None:
            return bool(free)
        # No soft constraint would have moved the other pods out of the domain.
        held = [pod for part in limit.parts if part not in free for pod in part.pods]
        return sum(limit.stands_in(pod, worst) for pod in held) <= limit.cap

    def _violates_soft_only(self, member: PodController, limit: EvaluatedLimit, worst: str) -> bool:
        """Return whether the limit's worst domain violates a soft constraint of a controller, and no hard one."""
        sample = member.sample
        if sample is None:
            return False
        over = [
            constraint
            for listed in constraints_of(sample, self._view)
            for constraint in listed
            if constraint.key == limit.topology_key
        ]
        broken = {
            constraint.hard
            for constraint in over
            if _is_broken(counts(constraint, sample, self._view), worst, empty=limit.min_pods is not None)
        }
        return broken == {False}

    def _cause_of(self, token: str, key: str, counts: DomainCounts, members: Sequence[PodController]) -> ViolationCause:
        """Return the stored cause, else the cause found now; if the stored cause is unknown, it was not a loss."""
        known = self._known_cause(token, key, counts, members)
        if known is not None and known not in NOT_FOUND:
            return known
        before = known is not None
        return (
            self._observed_cause(key, counts, members, was_violated=before)
            or self._visible_cause(key, counts, members, was_violated=before)
            or ViolationCause.UNKNOWN
        )

    def _known_cause(
        self, token: str, key: str, counts: DomainCounts, members: Sequence[PodController]
    ) -> ViolationCause | None:
        """Return the stored cause, if the snapshot does not contradict it."""
        known = self._known.get(token)
        if known is ViolationCause.ZONE_LOST:
            return known if any(self._lost_zones(key, members)) else None
        if known is not ViolationCause.NODE_LOST or any(
            self._lacks_nodes(key, one) for one in _emptiest_domains(counts)
        ):
            return known
        return None

    def was_violated_while_whole(self, token: str, key: str, counts: DomainCounts) -> bool:
        """Return whether a violation without a known cause existed before any node of its emptiest domains went.

        Pods may have left a node that was being removed and was lost only later.
        """
        return token in self._known or not any(
            self._lacks_nodes(key, value) or any(node.leaving for node in self._nodes_of(key, value))
            for value in _emptiest_domains(counts)
        )

    def _lacks_nodes(self, key: str, value: str) -> bool:
        """Return whether nodes of a domain are missing: lost nodes are not back, or none takes pods."""
        return domain_subject(key, value) in self._lost or not self._is_whole(key, value)

    def _is_undone(self, change: ObservedChange) -> bool:
        """Return whether the nodes that a domain lost are back; a new node replaces a deleted one."""
        if change.cause is not ViolationCause.NODE_LOST:
            return False
        key, _, value = change.subject.partition("=")
        return self._is_whole(key, value) and (
            not change.deleted or any(node.created > change.at for node in self._nodes_of(key, value))
        )

    def _is_whole(self, key: str, value: str) -> bool:
        """Return whether a domain has nodes, and all of them take pods."""

        def make() -> tuple[bool]:
            nodes = self._nodes_of(key, value)
            return (bool(nodes) and all(node.takes_pods for node in nodes),)

        return self._view.memo(("is whole", key, value), make)[0]

    def _nodes_of(self, key: str, value: str) -> list[Node]:
        return [self._view.nodes.by_name[name] for name in self._view.nodes.groups(key).get(value, ())]

    def _observed_cause(
        self, key: str, counts: DomainCounts, members: Sequence[PodController], *, was_violated: bool
    ) -> ViolationCause | None:
        """Return the newest observed change that affects these pods and domains."""
        lost = None if was_violated else self._zone_lost(key, members)
        newest, cause = self._newest_change(key, counts, members, was_violated=was_violated)
        return ViolationCause.ZONE_LOST if lost is not None and (newest is None or lost >= newest) else cause

    def _zone_lost(self, key: str, members: Sequence[PodController]) -> datetime | None:
        """Return when a domain that some of these pods may use was recently lost (the last loss), else None."""
        gone = self._lost_zones(key, members)
        lost = (self._lost_at(zone) for zone in gone if self._seen_at - zone.last <= CHANGE_LIFETIME)
        return max(lost, default=None)

    def _lost_zones(self, key: str, members: Sequence[PodController]) -> Iterator[ZoneSeen]:
        """Yield the domains that were lost since these workloads exist, and that any of their pods may use."""
        samples = [member.sample for member in members if member.sample is not None] if self._gone else []
        since = _exist_since(members) if samples else ALWAYS
        for zone in self._gone:
            if (
                zone.key == key
                and self._lost_at(zone) >= since
                and any(may_use_domain(sample, key, zone.zone) for sample in samples)
            ):
                yield zone

    def _lost_at(self, zone: ZoneSeen) -> datetime:
        """Return when the loss of a domain was observed, or else when the domain was last seen."""
        subject = domain_subject(zone.key, zone.zone)
        is_known = self._changes.get(subject) is ViolationCause.NODE_LOST
        return max(zone.last, self._order[subject][0]) if is_known else zone.last

    def _newest_change(
        self, key: str, counts: DomainCounts, members: Sequence[PodController], *, was_violated: bool
    ) -> tuple[datetime | None, ViolationCause | None]:
        """Return the newest change of these workloads and domains, and when it was observed."""
        if not self._changes:
            return None, None
        subjects = {str(member.reference) for member in members}
        subjects.update(domain_subject(key, value) for value in _emptiest_domains(counts))
        bearing = [subject for subject in subjects if subject in self._changes and self._concerns(subject, members)]
        most = max(counts.filled.values(), default=0)
        fullest = (domain_subject(key, value) for value, held in counts.filled.items() if held == most)
        # Nodes that joined a domain by a label change brought their pods with them.
        bearing += [subject for subject in fullest if self._changes.get(subject) is ViolationCause.LABELS_CHANGED]
        if was_violated:
            bearing = [subject for subject in bearing if self._changes[subject] not in _COMING_AND_GOING]
        if not bearing:
            return None, None
        last = max(bearing, key=self._order.__getitem__)
        return self._order[last][0], self._changes[last]

    def _concerns(self, subject: str, members: Sequence[PodController]) -> bool:
        """Return whether a change may have led to where these pods are.

        A loss before their workloads existed cannot be the cause, nor a return before these pods existed.
        """
        cause, (at, _) = self._changes[subject], self._order[subject]
        if cause is ViolationCause.NODE_LOST:
            return _exist_since(members) <= at
        if cause is ViolationCause.DOMAIN_RETURNED:
            return any(pod.created < at for member in members for pod in member.pods if pod.node)
        return True

    def _were_lost(self, key: str, values: Iterable[str], members: Sequence[PodController]) -> bool:
        """Return whether a node of domains that take no pods may have lost pods of these workloads.

        The workloads lost nothing on nodes that were cordoned before they existed, nor if all their pods are older than
        the loss and on other nodes.
        """
        since = _exist_since(members)
        nodes = [node for value in values for node in self._nodes_of(key, value)]
        lost = [node.lost_since for node in nodes if node.lost_since is None or node.lost_since >= since]
        known = [moment for moment in lost if moment is not None]
        return bool(lost) and (len(known) < len(lost) or not _are_older(members, min(known), {n.name for n in nodes}))

    # Many branches: the causes are tried in one order, strongest evidence first.
    def _visible_cause(
        self, key: str, counts: DomainCounts, members: Sequence[PodController], *, was_violated: bool
    ) -> ViolationCause | None:
        """Return the cause that the snapshot alone shows."""
        emptiest = list(_emptiest_domains(counts))
        since = [self._serving_since(key, value) for value in emptiest]
        serving = [moment for moment in since if moment is not None]
        if since and not serving and not was_violated and self._were_lost(key, emptiest, members):
            return ViolationCause.NODE_LOST
        if _has_several_revisions(members):
            return ViolationCause.ROLLOUT
        if any(_is_relabelled(member) for member in members):
            return ViolationCause.LABELS_CHANGED
        youngest = max((pod.created for member in members for pod in member.pods if pod.node), default=None)
        if youngest is not None and serving and not was_violated and all(moment > youngest for moment in serving):
            return ViolationCause.DOMAIN_RETURNED
        return None

    def _serving_since(self, key: str, value: str) -> datetime | None:
        """Return since when a domain has had a node that takes pods; None if it has none."""

        def make() -> tuple[datetime | None]:
            taking = [node for node in self._nodes_of(key, value) if node.takes_pods]
            return (min((max(node.created, node.ready_since or node.created) for node in taking), default=None),)

        return self._view.memo(("taking pods since", key, value), make)[0]


def _exist_since(members: Iterable[PodController]) -> datetime:
    """Return since when the first of these workloads exists."""
    tops = [(member.top or member.owner, member.pods) for member in members]
    begun = [[top.created] if top is not None else [pod.created for pod in pods] for top, pods in tops]
    return min(chain.from_iterable(begun), default=ALWAYS)


def _are_older(members: Iterable[PodController], moment: datetime, nodes: Collection[str]) -> bool:
    """Return whether all wanted pods have existed since before a moment, on nodes other than these."""
    return all(
        member.owner is not None
        and len(member.pods) >= (member.top or member.owner).replicas
        and all(pod.created < moment and pod.node is not None and pod.node not in nodes for pod in member.pods)
        for member in members
    )


def _is_broken(seen: Counts, value: str, *, empty: bool) -> bool:
    """Return whether a domain holds more pods than a constraint allows or, with `empty`, fewer."""
    if value not in seen.by_domain:
        return False
    skew = seen.maximum - seen.by_domain[value] if empty else seen.skew_of(value)
    return skew > seen.constraint.max_skew


def _emptiest_domains(counts: DomainCounts) -> Iterator[str]:
    """Yield the domains that hold the fewest pods."""
    filled = counts.filled
    least = min(filled.values(), default=0) if len(filled) == len(counts) else 0
    number = 0
    for value in counts if not least else filled:
        if filled.get(value, 0) == least:
            yield value
            number += 1
            if number == _MOST_DOMAINS:
                return


def _has_several_revisions(members: Iterable[PodController]) -> bool:
    """Return whether a workload has pods of several templates."""
    seen: dict[str, set[str]] = {}
    for member in members:
        if member.owner is None:
            continue
        top = (member.top or member.owner).uid
        revisions = {pod.labels.get(key, "") for key in REVISION_LABELS for pod in member.pods if key in pod.labels}
        seen.setdefault(top, set()).update(revisions)
    return any(len(revisions) > 1 for revisions in seen.values())


def _is_relabelled(member: PodController) -> bool:
    """Return whether a running pod lacks a label of its template."""
    template = member.owner.template if member.owner is not None else None
    if template is None:
        return False
    made = {item for item in template.labels.items() if item[0] not in NODE_LABELS}
    return any(not made <= pod.labels.items() for pod in {id(pod.labels): pod for pod in member.pods}.values())
