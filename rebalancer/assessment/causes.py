"""What led to a violation: as the controller saw it happen, else what one snapshot shows, else unknown.

The scheduler holds a hard constraint whenever it places a pod. So what violates it came after: pods went, nodes went or
came, labels changed, or pods were placed while others that counted were still there. What is found when a violation is
first seen stays its cause while it lasts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Final

from rebalancer.assessment.assess import Assessment, EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.controllers import PodController
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.moves import Memory
from rebalancer.model.reasons import State, ViolationCause
from rebalancer.scheduling.pod_topology_spread import Counts, DomainCounts, counts
from rebalancer.scheduling.replacement import NODE_LABELS, REVISION_LABELS
from rebalancer.scheduling.spread_constraints import constraints_of
from rebalancer.scheduling.view import View
from rebalancer.tracking.changes import domain_subject

Causes = Mapping[str, ViolationCause]
"""Causes of what is violated, by `constraint_token` and `limit_token`."""

MOST_STORED: Final = 1_000
"""Causes that are kept between cycles; those beyond are found anew each time."""


def constraint_token(group: EvaluatedGroup, judged: EvaluatedConstraint) -> str:
    """Name a constraint of a group in few characters, the same from cycle to cycle."""
    return _token(f"{group.group.name} {judged.constraint.key} {judged.constraint.when_unsatisfiable}")


def limit_token(limit: EvaluatedLimit) -> str:
    """Name a limit likewise."""
    return _token(limit.name)


def _token(name: str) -> str:
    return blake2b(name.encode(), digest_size=8).hexdigest()


def find_causes(assessment: Assessment, view: View, memory: Memory) -> Causes:
    """Find the cause of every violated constraint and limit."""
    seeking = _Seeking(view, memory)
    found: dict[str, ViolationCause] = {}
    for group in assessment.groups:
        for judged in (*group.hard, *group.soft):
            if judged.counts.violated:
                token = constraint_token(group, judged)
                found[token] = seeking.of_constraint(token, group, judged)
    for limit in assessment.limits:
        if limit.state is not State.SATISFIED:
            token = limit_token(limit)
            found[token] = seeking.of_limit(token, limit)
    return found


def causes_to_store(found: Causes) -> tuple[tuple[str, ViolationCause], ...]:
    """Return the causes to keep: those that may not be seen again when the next cycle looks."""
    lasting = {ViolationCause.UNKNOWN, ViolationCause.SOFT_CONSTRAINT}
    return tuple(sorted((token, cause) for token, cause in found.items() if cause not in lasting)[:MOST_STORED])


class _Seeking:
    """What is known of causes in one cycle."""

    def __init__(self, view: View, memory: Memory) -> None:
        self._view = view
        self._known = dict(memory.causes)
        self._changes: dict[str, ViolationCause] = {each.subject: each.cause for each in memory.changes}
        """The newest change of each subject, the newest last."""
        self._order = {each.subject: place for place, each in enumerate(memory.changes)}

    def of_constraint(self, token: str, group: EvaluatedGroup, judged: EvaluatedConstraint) -> ViolationCause:
        if not judged.constraint.hard:
            return ViolationCause.SOFT_CONSTRAINT
        members = group.group.members
        return self._known.get(token) or self._found(judged.constraint.key, judged.counts.by_domain, members)

    def of_limit(self, token: str, limit: EvaluatedLimit) -> ViolationCause:
        members = [part.member for part in limit.parts]
        found = self._known.get(token) or self._found(limit.topology_key, limit.counts, members)
        if found is ViolationCause.UNKNOWN and self._softly(limit):
            return ViolationCause.SOFT_CONSTRAINT
        return found

    def _softly(self, limit: EvaluatedLimit) -> bool:
        """Say whether a soft constraint over the key that could have kept the limit does not hold now."""
        worst = limit.worst
        if worst is None or limit.state is State.INFEASIBLE:
            return False
        free = [part for part in limit.parts if self._breaks(part.member, limit, worst)]
        if not free or limit.cap is None:
            return bool(free)
        # What the other pods hold of the domain, no soft constraint would have changed.
        held = [pod for part in limit.parts if part not in free for pod in part.pods]
        return sum(limit.stands_in(pod, worst) for pod in held) <= limit.cap

    def _breaks(self, member: PodController, limit: EvaluatedLimit, worst: str) -> bool:
        """Say whether the limit's worst domain breaks a soft constraint of a member, and no hard one."""
        sample = member.sample
        if sample is None:
            return False
        over = [
            each for listed in constraints_of(sample, self._view) for each in listed if each.key == limit.topology_key
        ]
        broken = {
            each.hard
            for each in over
            if _broken(counts(each, sample, self._view), worst, empty=limit.min_pods is not None)
        }
        return broken == {False}

    def _found(self, key: str, counts: DomainCounts, members: Sequence[PodController]) -> ViolationCause:
        return self._seen(key, counts, members) or self._shown(key, counts, members) or ViolationCause.UNKNOWN

    def _seen(self, key: str, counts: DomainCounts, members: Sequence[PodController]) -> ViolationCause | None:
        """Return the newest change that bears on these pods and domains."""
        if not self._changes:
            return None
        subjects = {str(member.reference) for member in members}
        subjects.update(domain_subject(key, value) for value in _emptiest(counts))
        bearing = [subject for subject in subjects if subject in self._changes]
        most = max(counts.filled.values(), default=0)
        fullest = (domain_subject(key, value) for value, held in counts.filled.items() if held == most)
        # Nodes that came to a domain by their label brought their pods along.
        bearing += [each for each in fullest if self._changes.get(each) is ViolationCause.LABELS_CHANGED]
        return self._changes[max(bearing, key=self._order.__getitem__)] if bearing else None

    def _shown(self, key: str, counts: DomainCounts, members: Sequence[PodController]) -> ViolationCause | None:
        """Return what the snapshot alone shows."""
        since = [self._since(key, value) for value in _emptiest(counts)]
        if since and all(moment is None for moment in since):
            return ViolationCause.NODE_LOST
        if _several_revisions(members):
            return ViolationCause.ROLLOUT
        if any(_relabelled(member) for member in members):
            return ViolationCause.LABELS_CHANGED
        youngest = max((pod.created for member in members for pod in member.pods if pod.node), default=None)
        later = youngest is not None and all(moment is None or moment > youngest for moment in since)
        if later and since:
            return ViolationCause.DOMAIN_RETURNED
        return None

    def _since(self, key: str, value: str) -> datetime | None:
        """Return since when a domain has had a node that takes pods; None while it has none."""

        def make() -> tuple[datetime | None]:
            nodes = map(self._view.nodes.by_name.__getitem__, self._view.nodes.groups(key).get(value, ()))
            taking = [node for node in nodes if node.ready and not node.unschedulable]
            return (min((max(node.created, node.ready_since or node.created) for node in taking), default=None),)

        return self._view.memo(("taking pods since", key, value), make)[0]


def _broken(seen: Counts, value: str, *, empty: bool) -> bool:
    """Say whether a domain holds more than a constraint allows, or with `empty` less."""
    if value not in seen.by_domain:
        return False
    skew = seen.maximum - seen.by_domain[value] if empty else seen.skew_of(value)
    return skew > seen.constraint.max_skew


_MOST_EMPTY: Final = 64
"""Of the emptiest domains that are looked at: one suffices to tell."""


def _emptiest(counts: DomainCounts) -> Iterator[str]:
    """Yield domains that hold least."""
    filled = counts.filled
    least = min(filled.values(), default=0) if len(filled) == len(counts) else 0
    found = 0
    for value in counts if not least else filled:
        if filled.get(value, 0) == least:
            yield value
            found += 1
            if found == _MOST_EMPTY:
                return


def _several_revisions(members: Iterable[PodController]) -> bool:
    """Say whether pods of several templates of one workload are there."""
    seen: dict[str, set[str]] = {}
    for member in members:
        if member.owner is None:
            continue
        top = (member.top or member.owner).uid
        revisions = {pod.labels.get(key, "") for key in REVISION_LABELS for pod in member.pods if key in pod.labels}
        seen.setdefault(top, set()).update(revisions)
    return any(len(each) > 1 for each in seen.values())


def _relabelled(member: PodController) -> bool:
    """Say whether a running pod lacks a label that it was made with."""
    template = member.owner.template if member.owner is not None else None
    if template is None:
        return False
    made = {item for item in template.labels.items() if item[0] not in NODE_LABELS}
    return any(not made <= pod.labels.items() for pod in {id(pod.labels): pod for pod in member.pods}.values())
