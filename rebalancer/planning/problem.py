"""From a judged group to a problem that the search can solve, or the reason why it cannot be one.

What is solved here are groups of equal pods: one kind of next pod, constraints that all count the same pods, keys of
which one divides the other. Everything else is left alone, and says so.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from msgspec import structs

from rebalancer.assessment.groups import Group, Member
from rebalancer.assessment.judgement import Judged, JudgedGroup
from rebalancer.model.labels import LabelSelector
from rebalancer.model.pods import Pod
from rebalancer.model.verdicts import Reason
from rebalancer.model.workloads import Workload
from rebalancer.planning.arrangement import FREE, Bound
from rebalancer.planning.budgets import Ledger
from rebalancer.planning.eligibility import Eligibility, Refusal
from rebalancer.planning.layout import Layout, Site, Victim
from rebalancer.planning.room import Rooms, foreseeable
from rebalancer.policy import Policy, format_duration
from rebalancer.scheduling.feasibility import static_feasible
from rebalancer.scheduling.pod_topology_spread import ineffective
from rebalancer.scheduling.replacement import replacement
from rebalancer.scheduling.unpredictable import Unpredictable, unpredictable
from rebalancer.scheduling.view import View

NODE = ""
"""Stands for the key of the nodes' own level; no label has this name."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A group on its nodes. `pending` are pods that have no place yet, replacements still to be made among them.

    `refused` says of each pod that stays why it does; `receiving` are the nodes on which a replacement may land.
    """

    layout: Layout
    selector: LabelSelector
    sample: Pod
    pending: int
    refused: Mapping[str, tuple[Pod, Member, Refusal]]
    receiving: frozenset[str]
    unschedulable: frozenset[str]

    def cordoned(self, level: int, value: str) -> bool:
        """Say whether every node of a domain is cordoned: it is in maintenance as a whole."""
        nodes = [name for name, site in self.layout.sites.items() if site.domains[level] == value]
        return all(name in self.unschedulable for name in nodes)


class Rules:
    """What problems are made by: one view, one policy, one ledger of budgets."""

    def __init__(self, view: View, policy: Policy, ledger: Ledger) -> None:
        self.view = view
        self.policy = policy
        self.ledger = ledger
        self.eligibility = Eligibility(view.snapshot, policy)
        self.rooms = Rooms(view)
        self._nodes = view.nodes.by_name

    def problem(self, judged: JudgedGroup) -> Problem | Refusal:
        """Make the group's problem, or say why it is left alone as a whole."""
        effective = [each for each in judged.hard if self._counts_something(each)]
        refusal = self._unread(judged.group) or _different(effective) or self._members_differ(judged, effective)
        if refusal is not None:
            return refusal
        selector = effective[0].constraint.selector
        assert selector is not None
        sample, own = judged.group.sample, [pod for member in judged.group.members for pod in member.pods]
        members = [member.owner.uid for member in judged.group.members if member.owner is not None]
        # Volumes tie single pods, not the group: each pod's reach is looked at in `_pinned`.
        room = self.rooms.of(structs.replace(sample, claims=()), own, members)
        refusal = self._strangers(judged, selector) or self._in_motion(judged) or self._settling(room)
        if refusal is not None:
            return refusal
        levels = _levels(effective, self.view)
        if isinstance(levels, Refusal):
            return levels
        keys, bounds = levels
        movable, refused = self._movers(judged, room, selector)
        counts = effective[0].counts.by_node
        missing = sum(self._missing(member) for member in judged.group.members)
        useful = _most_useful(effective, sum(counts.values()) + missing)
        sites = [
            self._site(name, keys, counts.get(name, 0), room.get(name, 0), movable.get(name, []), useful)
            for name in sorted(effective[0].counts.eligible.nodes)
        ]
        return Problem(
            layout=Layout(sites, keys, bounds),
            selector=selector,
            sample=sample,
            pending=missing,
            refused=refused,
            receiving=frozenset(room),
            unschedulable=frozenset(each.name for each in self.view.snapshot.nodes if each.unschedulable),
        )

    def _counts_something(self, judged: Judged) -> bool:
        """Say whether the constraint can ever reject a node: a null selector, or `{}` on some versions, cannot."""
        return judged.constraint.selector is not None and not ineffective(judged.constraint, self.view)

    def _site(self, name: str, keys: Sequence[str], count: int, room: int, movable: list[Victim], useful: int) -> Site:
        """Describe a node. Room that no arrangement could use is left out, so that most nodes look alike."""
        labels = self.view.nodes.by_name[name].labels
        return Site(
            node=name,
            domains=tuple(labels[key] for key in keys[:-1]),
            last=labels.get(keys[-1], name),
            count=count,
            cap=max(count, min(count + room, useful)),
            movable=sorted(movable, key=lambda victim: victim.cost),
        )

    def _unread(self, group: Group) -> Refusal | None:
        """Refuse where an object could not be read that may count, or forbid: a pod, a budget, an owner, any node."""
        for fault in self.view.snapshot.faults:
            if fault.kind == "Node" or fault.namespace in {"", group.namespace}:
                return Refusal(Reason.NOT_PREDICTABLE, f"an object that may matter could not be read: {fault}")
        return None

    def _members_differ(self, judged: JudgedGroup, effective: Sequence[Judged]) -> Refusal | None:
        """Refuse groups whose next pods are not all alike, and those of which a member is in motion."""
        group = judged.group
        specs = set()
        for member in group.members:
            if member.owner is None:
                continue
            refusal = self.eligibility.of_member(member)
            if refusal is not None and refusal.reason is Reason.ROLLOUT_IN_PROGRESS:
                return refusal
            if not isinstance(member.next_pod, Unpredictable):
                specs.add(_asks(member.next_pod))
        if len(specs) > 1:
            return Refusal(Reason.NOT_PREDICTABLE, "its workloads ask for different resources, ports, nodes or company")
        if any(each.counts.self_match == 0 for each in effective):
            return Refusal(Reason.NOT_PREDICTABLE, "a constraint's selector does not match the workload's own pods")
        if not foreseeable(group.sample, self.view):
            return Refusal(Reason.NOT_PREDICTABLE, "its affinity to other pods moves with every placement")
        return None

    def _strangers(self, judged: JudgedGroup, selector: LabelSelector) -> Refusal | None:
        """Refuse while a pod of somebody else waits for a node that would change the counts."""
        own = {pod.uid for member in judged.group.members for pod in member.pods}
        namespace = judged.group.namespace
        members = {member.owner.uid for member in judged.group.members if member.owner is not None}
        for owner in self.view.snapshot.workloads_in.get(namespace, ()):
            if owner.uid not in members and _will_count(owner, selector, self.view):
                return Refusal(Reason.GROUP_IN_FLIGHT, f"{owner} has pods to create that count too")
        for pod in self.view.snapshot.pods_in.get(namespace, ()):
            if pod.waiting and pod.uid not in own and selector.matches(pod.labels):
                return Refusal(
                    Reason.GROUP_IN_FLIGHT, f"pod {pod.name} of another workload counts too and has no node yet"
                )
        return None

    def _in_motion(self, judged: JudgedGroup) -> Refusal | None:
        """Refuse while a pod of the group itself waits for a node that is not the scheduler's free choice.

        It may be held back (gates), or tied to fewer nodes than the others by its volumes.
        """
        for member in judged.group.members:
            lost = next((pod for pod in member.pods if pod.node is not None and pod.node not in self._nodes), None)
            if lost is not None:
                return Refusal(
                    Reason.GROUP_IN_FLIGHT, f"node {lost.node} is gone; pod {lost.name} is to be replaced first"
                )
            waiting = [pod for pod in member.pods if pod.node is None]
            for pod in waiting:
                unclear = unpredictable(pod, self.view)
                if unclear is not None:
                    return Refusal(Reason.GROUP_IN_FLIGHT, f"pod {pod.name} has no node yet: {unclear.message}")
            if self._missing(member) and any(pod.claims for pod in member.pods):
                return Refusal(
                    Reason.GROUP_IN_FLIGHT, f"a pod of {member.reference} with volumes of its own has no node yet"
                )
        return None

    def _settling(self, room: Iterable[str]) -> Refusal | None:
        settle, now = self.policy.nodes.settle, self.view.snapshot.taken_at
        for name in sorted(room):
            node = self.view.nodes.by_name[name]
            if node.deleted is not None:
                return Refusal(Reason.NODE_LEAVING, f"node {name} may take a replacement and is being deleted")
            if not node.ready:
                return Refusal(Reason.NODE_SETTLING, f"node {name} may take a replacement and is not Ready")
            since = node.ready_since
            if since is not None and now - since < settle:
                text = (
                    f"node {name} may take a replacement and has been Ready for {int((now - since).total_seconds())}s"
                )
                return Refusal(Reason.NODE_SETTLING, f"{text}, nodes.settle is {format_duration(settle)}")
        return None

    def _movers(
        self, judged: JudgedGroup, room: Mapping[str, int], selector: LabelSelector
    ) -> tuple[dict[str, list[Victim]], dict[str, tuple[Pod, Member, Refusal]]]:
        """Sort the group's pods into those that may move, by node, and those that stay, with the reason.

        A pod whose labels have been changed so that it is not counted is neither: moving it would repair nothing.
        """
        movable: dict[str, list[Victim]] = {}
        refused: dict[str, tuple[Pod, Member, Refusal]] = {}
        for member in judged.group.members:
            whole = self.eligibility.of_member(member)
            for pod in member.pods:
                if pod.node is None or not selector.matches(pod.labels):
                    continue
                refusal = whole or self.eligibility.of_pod(pod) or self.ledger.refusal(pod) or self._pinned(pod, room)
                if refusal is None:
                    movable.setdefault(pod.node, []).append(Victim(pod, member))
                else:
                    refused[pod.uid] = (pod, member, refusal)
        return movable, refused

    def _pinned(self, pod: Pod, room: Mapping[str, int]) -> Refusal | None:
        """Refuse a pod whose volumes reach less far than the group's room."""
        if not pod.claims:
            return None
        following = replacement(pod, self.view)
        if isinstance(following, Unpredictable):
            return Refusal(following.reason, following.message)
        reach = static_feasible(following, self.view, [pod])
        if set(room) <= reach:
            return None
        return Refusal(Reason.VOLUME_PINNED, f"its volumes reach {len(reach & set(room))} of {len(room)} nodes")

    def _missing(self, member: Member) -> int:
        """Count the pods without a place: waiting ones, and those that the owner has still to create."""
        placed = sum(1 for pod in member.pods if pod.node is not None)
        wanted = len(member.pods) if member.owner is None else member.owner.replicas
        return max(0, wanted - placed)


def _asks(pod: Pod) -> Hashable:
    """Return all that the scheduler's filters read of a pod, but for its spread and its own volumes."""
    spec = pod.spec
    return (
        spec.requests,
        spec.node_affinity.selector,
        spec.node_affinity.required,
        spec.pod_affinity,
        spec.tolerations,
        spec.host_ports,
        spec.scheduler,
        spec.priority,
        bool(pod.claims),
    )


def _will_count(owner: Workload, selector: LabelSelector, view: View) -> bool:
    """Say whether an owner has still to create pods that the selector counts."""
    if owner.kind == "Deployment" or owner.template is None or not selector.matches(owner.template.labels):
        return False
    pods = view.snapshot.pods_of.get(owner.uid, ())
    return owner.replicas > sum(1 for pod in pods if not pod.terminating and not pod.finished)


def _different(effective: Sequence[Judged]) -> Refusal | None:
    """Refuse constraints that count different pods, or on different nodes. There is one at least: it is violated."""
    if len({each.constraint.selector for each in effective}) > 1:
        return Refusal(Reason.NOT_PREDICTABLE, "its constraints select different pods")
    if len({each.counts.eligible.nodes for each in effective}) > 1:
        return Refusal(Reason.NOT_PREDICTABLE, "its constraints count on different nodes")
    return None


def _levels(effective: Sequence[Judged], view: View) -> tuple[tuple[str, ...], tuple[Bound, ...]] | Refusal:
    """Order the keys from the coarsest on; return the levels' keys and bounds, down to the nodes.

    Where nodes share the domains of the last key, they make a level of their own, without a bound.
    """
    ordered = sorted(effective, key=lambda each: (len(each.counts.by_domain), each.constraint.key))
    nodes = sorted(ordered[0].counts.eligible.nodes)
    for coarse, fine in pairwise(ordered):
        if not _divides(coarse.constraint.key, fine.constraint.key, nodes, view):
            return Refusal(
                Reason.NOT_PREDICTABLE,
                f"domains of {fine.constraint.key} reach across those of {coarse.constraint.key}",
            )
    keys = tuple(each.constraint.key for each in ordered)
    bounds = tuple(_bound(each) for each in ordered)
    if len(ordered[-1].counts.by_domain) == len(nodes):
        return keys, bounds
    return (*keys, NODE), (*bounds, FREE)


def _divides(coarse: str, fine: str, nodes: Sequence[str], view: View) -> bool:
    above: dict[str, str] = {}
    for name in nodes:
        labels = view.nodes.by_name[name].labels
        if above.setdefault(labels[fine], labels[coarse]) != labels[coarse]:
            return False
    return True


def _most_useful(effective: Sequence[Judged], total: int) -> int:
    """Return how many pods any node can come to hold: no domain grows beyond the highest minimum plus maxSkew."""
    most = total
    for each in effective:
        many = len(each.counts.by_domain)
        highest = 0 if many < each.constraint.min_domains else total // max(1, many)
        most = min(most, highest + each.constraint.max_skew)
    return most


def _bound(judged: Judged) -> Bound:
    unmet = len(judged.counts.by_domain) < judged.constraint.min_domains
    return Bound(max_skew=judged.constraint.max_skew, floor_at_zero=unmet)
