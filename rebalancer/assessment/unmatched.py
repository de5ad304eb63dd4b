"""What the policy names and the cluster does not have: a typing error there looks as if all were well.

Nothing is said of what is not known, of an empty cluster, or of what a policy may rightly leave open: a limit that asks
for zones is idle where there are none. Labels count that a pod has, in whatever state, or that a template would give.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.limit_groups import LimitGroup
from rebalancer.assessment.name_hints import nearest, nearest_key
from rebalancer.model.labels import Labels, LabelSelector, Operator
from rebalancer.policy import WORKLOAD, Limit, NamespaceFilter, Policy, PolicyGroup
from rebalancer.scheduling.spread_constraints import ZONE
from rebalancer.scheduling.view import View

_OF_NODES: Final = frozenset({"zoneKey", "topologyKey", "within"})


@dataclass(frozen=True, kw_only=True)
class Unmatched:
    """A value of a field of the policy that matches nothing; `limit` is "" where the field is the group's own."""

    group: str
    limit: str
    field: str
    value: str
    why: str

    @property
    def message(self) -> str:
        """Say where it stands, what is wrong and what would do."""
        limit = f", limit {self.limit}" if self.limit else ""
        return f"group {self.group}{limit}: {self.field} {self.value} {self.why}"

    @property
    def of_nodes(self) -> bool:
        """Whether it is the key of a label that no node has."""
        return self.field in _OF_NODES


def find_unmatched(view: View, assessment: Assessment, policy: Policy) -> tuple[Unmatched, ...]:
    """Return all of them, in the policy's order. What matches costs next to nothing, however large the cluster."""
    unmatched: list[Unmatched] = []
    limit_groups: dict[str, list[LimitGroup]] = {}
    for limit_group in assessment.pod_groups:
        limit_groups.setdefault(limit_group.group.name, []).append(limit_group)
    unknown = view.snapshot.unknown
    for group in policy.groups:
        if "Pod" not in unknown and view.snapshot.pods:
            unmatched += _unmatched_pods(group, limit_groups.get(group.name, []), view)
        if "Node" not in unknown and view.nodes.names:
            unmatched += _unmatched_nodes(group, view)
    return tuple(unmatched)


# Pods


def _unmatched_pods(group: PolicyGroup, gathered: Sequence[LimitGroup], view: View) -> Iterator[Unmatched]:
    empty = list(_namespaces(group, view))
    yield from empty
    if gathered:
        for limit in group.limits:
            if limit.selector is not None or limit.group_by is not None:
                yield from _of_limit(group, limit, gathered)
    elif len(empty) < len(group.namespaces.include):
        labels = _labels(group.namespaces, view)
        selector = group.selector.compiled
        yield from _selected(group, "", selector, group.group_by, labels)


def _namespaces(group: PolicyGroup, view: View) -> Iterator[Unmatched]:
    """Yield the globs without a namespace."""
    if "Namespace" in view.snapshot.unknown:
        return
    for glob in group.namespaces.include:
        if glob == "*":
            continue
        chosen = NamespaceFilter(include=(glob,))
        there = _spaces(view)
        if not any(map(chosen.selects, there)):
            why = f"matches no namespace{_meant(nearest(glob, there))}"
            yield Unmatched(group=group.name, limit="", field="namespaces.include", value=glob, why=why)


def _spaces(view: View) -> frozenset[str]:
    def make() -> frozenset[str]:
        snapshot = view.snapshot
        return frozenset(snapshot.namespace) | snapshot.pods_in.keys()

    return view.memo("namespaces there are", make)


def _labels(namespaces: NamespaceFilter, view: View) -> list[Labels]:
    """Return the sets of labels that pods have or would be given, each once."""

    def make() -> Mapping[tuple[str, Labels], None]:
        snapshot = view.snapshot
        found = {(pod.namespace, pod.labels): None for pod in snapshot.pods}
        return found | {
            (each.namespace, each.template.labels): None for each in snapshot.workloads if each.template is not None
        }

    there = view.memo("labels there are", make)
    return list(dict.fromkeys(labels for namespace, labels in there if namespaces.selects(namespace)))


def _of_limit(group: PolicyGroup, limit: Limit, gathered: Iterable[LimitGroup]) -> Iterator[Unmatched]:
    selector = limit.selector.compiled if limit.selector is not None else LabelSelector()
    keys = _label_keys(limit.group_by)
    labels: dict[int, Labels] = {}
    for each in gathered:
        for part in each.parts:
            template = part.member.owner.template if part.member.owner is not None else None
            sets = [pod.labels for pod in part.pods] + ([template.labels] if template is not None else [])
            for one in sets:
                if id(one) not in labels:
                    if selector.matches(one) and all(key in one for key in keys):
                        return
                    labels[id(one)] = one
    yield from _selected(group, limit.name, selector, keys, list(labels.values()))


def _selected(
    group: PolicyGroup, limit: str, selector: LabelSelector, group_by: tuple[str, ...], labels: Sequence[Labels]
) -> Iterator[Unmatched]:
    """Yield the selector, if it selects none of the sets of labels, else the keys that those selected lack."""
    chosen = [each for each in labels if selector.matches(each)]
    if not chosen:
        why = f"selects no pod{_why_not(selector, labels)}"
        yield Unmatched(group=group.name, limit=limit, field="selector", value=str(selector), why=why)
        return
    there = {key for each in chosen for key in each}
    keys = _label_keys(group_by)
    lacking = [key for key in keys if key not in there]
    for key in lacking:
        why = f"is a label of no pod that is selected{_meant(nearest_key(key, there))}"
        yield Unmatched(group=group.name, limit=limit, field="groupBy", value=key, why=why)
    if not lacking and not any(all(key in each for key in keys) for each in chosen):
        value = f"[{', '.join(keys)}]"
        why = "are labels that no selected pod has together"
        yield Unmatched(group=group.name, limit=limit, field="groupBy", value=value, why=why)


def _label_keys(group_by: tuple[str, ...] | None) -> tuple[str, ...]:
    return tuple(key for key in group_by or () if key != WORKLOAD)


def _why_not(selector: LabelSelector, labels: Sequence[Labels]) -> str:
    """Name the first condition that no set of labels meets, and what is nearest to it."""
    for each in selector.requirements:
        if any(map(each.matches, labels)):
            continue
        there = {key for one in labels for key in one}
        if each.key not in there and each.operator is not Operator.NOT_IN:
            return f": none has the label {each.key}{_meant(nearest_key(each.key, there))}"
        values = {one[each.key] for one in labels if each.key in one}
        near = next(filter(None, (nearest(value, values) for value in each.values)), None)
        return f": none is {LabelSelector((each,))}{_meant(near and f'{each.key}={near}')}"
    return ": none meets all of it" if labels else ": there is none in its namespaces"


# Nodes


def _unmatched_nodes(group: PolicyGroup, view: View) -> Iterator[Unmatched]:
    """Yield the keys that no node has, and declared domains that are no value of theirs."""
    yield from _zone_key(group, view)
    for limit in group.limits:
        asks_for_zones = limit.when.zones is not None and not limit.when.zones.holds(0)
        for field, key in (("topologyKey", limit.topology_key), ("within", limit.within)):
            if key is not None and not view.nodes.values(key) and not (asks_for_zones and key == group.zone_key):
                yield _no_node(group, limit.name, field, key, view)
        there = view.nodes.groups(limit.topology_key)
        for value in limit.domains or ():
            if there and value not in there:
                why = f"is the {limit.topology_key} of no node{_meant(nearest(value, there))}"
                yield Unmatched(group=group.name, limit=limit.name, field="domains", value=value, why=why)


def _zone_key(group: PolicyGroup, view: View) -> Iterator[Unmatched]:
    """Yield a zone key that no node has, unless it is Kubernetes' own and the cluster just has no zones."""
    key = group.zone_key
    if view.nodes.values(key):
        return
    conditions = [limit.when.zones for limit in group.limits if limit.when.zones is not None]
    idle = any(each.holds(1) and not each.holds(0) for each in conditions)
    if key != ZONE or idle or (conditions and nearest_key(key, _node_keys(view)) is not None):
        yield _no_node(group, "", "zoneKey", key, view)


def _no_node(group: PolicyGroup, limit: str, field: str, key: str, view: View) -> Unmatched:
    why = f"is a label of none of {len(view.nodes.names)} nodes{_meant(nearest_key(key, _node_keys(view)))}"
    return Unmatched(group=group.name, limit=limit, field=field, value=key, why=why)


def _node_keys(view: View) -> frozenset[str]:
    nodes = view.nodes.by_name.values()
    return view.memo("labels of nodes", lambda: frozenset(key for node in nodes for key in node.labels))


def _meant(near: str | None) -> str:
    return f"; did you mean {near}?" if near else ""
