"""References of the policy to objects that do not exist: with a misspelt name a limit would be satisfied silently.

Nothing is reported about kinds that are not known, about an empty cluster, or if a policy may rightly match nothing: a
limit for clusters with zones is idle without zones. A label exists if a pod, in any state, or a template has it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.limit_groups import LimitGroup
from rebalancer.assessment.name_hints import nearest_key, nearest_name
from rebalancer.model.labels import Labels, LabelSelector, Operator
from rebalancer.model.nodes import ZONE
from rebalancer.policy import WORKLOAD, EligibleNamespaces, Limit, NamespaceFilter, Policy, PolicyGroup
from rebalancer.scheduling.view import View

_NODE_FIELDS: Final = frozenset({"zoneKey", "topologyKey", "within"})


@dataclass(frozen=True, kw_only=True)
class Unmatched:
    """A value in a field of the policy that matches no object.

    `limit` is "" for a field of the group itself; `group` is "", too, for a field outside of groups.
    """

    group: str
    limit: str
    field: str
    value: str
    why: str

    @property
    def message(self) -> str:
        """Group, limit, field and value, what is wrong, and the probably intended name."""
        limit = f", limit {self.limit}" if self.limit else ""
        where = f"group {self.group}{limit}: " if self.group else ""
        return f"{where}{self.field} {self.value} {self.why}"

    @property
    def is_node_key(self) -> bool:
        """Whether it is a label key that no node has."""
        return self.field in _NODE_FIELDS


def find_unmatched(view: View, assessment: Assessment, policy: Policy) -> tuple[Unmatched, ...]:
    """Return all unmatched references, in the policy's order. Matches cost next to nothing, even in large clusters."""
    unmatched: list[Unmatched] = list(_unmatched_eligibility(policy, view))
    limit_groups: dict[str, list[LimitGroup]] = {}
    for limit_group in assessment.pod_groups:
        limit_groups.setdefault(limit_group.policy_group.name, []).append(limit_group)
    unknown = view.snapshot.unknown
    for group in policy.groups:
        if "Pod" not in unknown and view.snapshot.pods:
            unmatched += _unmatched_pods(group, limit_groups.get(group.name, []), view)
        if "Node" not in unknown and view.nodes.names:
            unmatched += _unmatched_nodes(group, view, policy.topology.domains)
    return tuple(unmatched)


# Namespaces


def _unmatched_eligibility(policy: Policy, view: View) -> Iterator[Unmatched]:
    """Yield the namespaces of `eligibility` that do not exist: a misspelt exclusion protects nothing."""
    namespaces, shipped = policy.eligibility.namespaces, EligibleNamespaces()
    for field, globs, defaults in (
        ("include", namespaces.include, shipped.include),
        ("exclude", namespaces.exclude, shipped.exclude),
    ):
        for glob in globs:
            # kube-* also protects future namespaces; a policy for many clusters names namespaces that some of them
            # lack.
            standing = glob in defaults or glob in shipped.exclude or (field == "exclude" and "*" in glob)
            if not standing and not _matches_namespace(glob, view):
                near = nearest_name(glob, _known_namespaces(view))
                why = f"matches no namespace{_hint(near)}"
                yield Unmatched(group="", limit="", field=f"eligibility.namespaces.{field}", value=glob, why=why)


def _matches_namespace(glob: str, view: View) -> bool:
    """Return whether a glob matches a namespace, or none is known."""
    if "Namespace" in view.snapshot.unknown:
        return True
    there = _known_namespaces(view)
    return glob in there or any(map(NamespaceFilter(include=(glob,)).selects, there))


# Pods


def _unmatched_pods(group: PolicyGroup, gathered: Sequence[LimitGroup], view: View) -> Iterator[Unmatched]:
    unmatched = list(_unmatched_namespaces(group, view))
    yield from unmatched
    empty = [entry for entry in unmatched if entry.field == "namespaces.include"]
    if gathered:
        for limit in group.limits:
            if limit.selector is not None or limit.group_by is not None:
                yield from _unmatched_limit(group, limit, gathered)
    elif len(empty) < len(group.namespaces.include):
        labels = _label_sets(group.namespaces, view)
        selector = group.selector.compiled
        yield from _unmatched_selector(group, "", selector, group.group_by, labels)


def _unmatched_namespaces(group: PolicyGroup, view: View) -> Iterator[Unmatched]:
    """Yield the globs that match no namespace."""
    for field, globs in (("include", group.namespaces.include), ("exclude", group.namespaces.exclude)):
        for glob in globs:
            if glob != "*" and not _matches_namespace(glob, view):
                why = f"matches no namespace{_hint(nearest_name(glob, _known_namespaces(view)))}"
                yield Unmatched(group=group.name, limit="", field=f"namespaces.{field}", value=glob, why=why)


def _known_namespaces(view: View) -> frozenset[str]:
    def make() -> frozenset[str]:
        snapshot = view.snapshot
        return frozenset(filter(snapshot.covers, snapshot.namespace.keys() | snapshot.pods_in.keys()))

    return view.memo("namespaces there are", make)


def _label_sets(namespaces: NamespaceFilter, view: View) -> list[Labels]:
    """Return the label sets of pods and templates, each once."""

    def make() -> Mapping[str, Mapping[Labels, None]]:
        snapshot = view.snapshot
        there: dict[str, dict[Labels, None]] = {}
        for pod in snapshot.covered_pods:
            there.setdefault(pod.namespace, {})[pod.labels] = None
        for workload in snapshot.workloads:
            if workload.template is not None:
                there.setdefault(workload.namespace, {})[workload.template.labels] = None
        return there

    there = view.memo("labels there are", make)
    only = namespaces.only
    if only is not None:
        return list(there.get(only, ())) if namespaces.selects(only) else []
    selected = (labels for namespace, labels in there.items() if namespaces.selects(namespace))
    return list(dict.fromkeys(chain.from_iterable(selected)))


def _unmatched_limit(group: PolicyGroup, limit: Limit, gathered: Iterable[LimitGroup]) -> Iterator[Unmatched]:
    selector = limit.selector.compiled if limit.selector is not None else LabelSelector()
    keys = _label_keys(limit.group_by)
    labels: dict[int, Labels] = {}
    for limit_group in gathered:
        for part in limit_group.parts:
            template = part.member.owner.template if part.member.owner is not None else None
            sets = [pod.labels for pod in part.pods] + ([template.labels] if template is not None else [])
            for one in sets:
                if id(one) not in labels:
                    if selector.matches(one) and all(key in one for key in keys):
                        return
                    labels[id(one)] = one
    yield from _unmatched_selector(group, limit.name, selector, keys, list(labels.values()))


def _unmatched_selector(
    group: PolicyGroup, limit: str, selector: LabelSelector, group_by: tuple[str, ...], labels: Sequence[Labels]
) -> Iterator[Unmatched]:
    """Yield the selector if it selects no label set, else the keys that the selected label sets lack."""
    chosen = [label_set for label_set in labels if selector.matches(label_set)]
    if not chosen:
        why = f"selects no pod{_why_nothing_selected(selector, labels)}"
        yield Unmatched(group=group.name, limit=limit, field="selector", value=str(selector), why=why)
        return
    there = {key for label_set in chosen for key in label_set}
    keys = _label_keys(group_by)
    lacking = [key for key in keys if key not in there]
    for key in lacking:
        why = f"is a label of no pod that is selected{_hint(nearest_key(key, there))}"
        yield Unmatched(group=group.name, limit=limit, field="groupBy", value=key, why=why)
    if not lacking and not any(all(key in label_set for key in keys) for label_set in chosen):
        value = f"[{', '.join(keys)}]"
        why = "are labels that no selected pod has together"
        yield Unmatched(group=group.name, limit=limit, field="groupBy", value=value, why=why)


def _label_keys(group_by: tuple[str, ...] | None) -> tuple[str, ...]:
    return tuple(key for key in group_by or () if key != WORKLOAD)


def _why_nothing_selected(selector: LabelSelector, labels: Sequence[Labels]) -> str:
    """Name the first condition that no label set meets, and the most similar existing name."""
    for requirement in selector.requirements:
        if any(map(requirement.matches, labels)):
            continue
        there = {key for one in labels for key in one}
        if requirement.key not in there and requirement.operator is not Operator.NOT_IN:
            return f": none has the label {requirement.key}{_hint(nearest_key(requirement.key, there))}"
        values = {one[requirement.key] for one in labels if requirement.key in one}
        near = next(filter(None, (nearest_name(value, values) for value in requirement.values)), None)
        return f": none is {LabelSelector((requirement,))}{_hint(near and f'{requirement.key}={near}')}"
    return ": no pod meets all conditions" if labels else ": its namespaces have no pods"


# Nodes


def _unmatched_nodes(group: PolicyGroup, view: View, known: Mapping[str, Collection[str]]) -> Iterator[Unmatched]:
    """Yield the keys that no node has, and a limit's domains that no node has and the policy does not declare."""
    yield from _unmatched_zone_key(group, view)
    for limit in group.limits:
        asks_for_zones = limit.when.zones is not None and not limit.when.zones.holds(0)
        for field, key in (("topologyKey", limit.topology_key), ("within", limit.within)):
            if key is not None and not view.nodes.values(key) and not (asks_for_zones and key == group.zone_key):
                yield _unmatched_key(group, limit.name, field, key, view)
        there = view.nodes.groups(limit.topology_key)
        for value in limit.domains or ():
            if there and value not in there and value not in known.get(limit.topology_key, ()):
                why = f"is the {limit.topology_key} of no node{_hint(nearest_name(value, there))}"
                yield Unmatched(group=group.name, limit=limit.name, field="domains", value=value, why=why)


def _unmatched_zone_key(group: PolicyGroup, view: View) -> Iterator[Unmatched]:
    """Yield a zone key that no node has, unless it is the standard key and the cluster has no zones."""
    key = group.zone_key
    if view.nodes.values(key):
        return
    conditions = [limit.when.zones for limit in group.limits if limit.when.zones is not None]
    idle = any(condition.holds(1) and not condition.holds(0) for condition in conditions)
    if key != ZONE or idle or (conditions and nearest_key(key, _node_keys(view)) is not None):
        yield _unmatched_key(group, "", "zoneKey", key, view)


def _unmatched_key(group: PolicyGroup, limit: str, field: str, key: str, view: View) -> Unmatched:
    why = f"is a label of none of {len(view.nodes.names)} nodes{_hint(nearest_key(key, _node_keys(view)))}"
    return Unmatched(group=group.name, limit=limit, field=field, value=key, why=why)


def _node_keys(view: View) -> frozenset[str]:
    nodes = view.nodes.by_name.values()
    return view.memo("labels of nodes", lambda: frozenset(key for node in nodes for key in node.labels))


def _hint(near: str | None) -> str:
    return f"; did you mean {near}?" if near else ""
