"""Which topology spread constraints apply to a pod, and what they select.

Source: `podtopologyspread/plugin.go` (getConstraints), `common.go` (filterTopologySpreadConstraints,
buildDefaultConstraints) and `plugins/helper/spread.go` (DefaultSelector).
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from rebalancer.model.labels import Labels, LabelSelector, SelectorRequirement
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.pods import Pod
from rebalancer.model.spread import InclusionPolicy, SpreadConstraint, WhenUnsatisfiable
from rebalancer.scheduling.view import View

SELECTING_OWNERS: Final = frozenset({("", "ReplicationController"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")})
"""Groups and kinds of the owners whose selectors the default constraints use."""


class Origin(StrEnum):
    """Where an effective constraint comes from."""

    OWN = "own"
    """From the pod's spec, unchanged."""
    MERGED = "merged"
    """From the pod's spec, narrowed by the values of its matchLabelKeys."""
    DEFAULT = "default"
    """The scheduler's default constraints."""


class EffectiveConstraint(Struct, frozen=True, gc=False, kw_only=True, cache_hash=True):
    """A constraint as the scheduler evaluates it for a pod. Equal constraints of equal namespaces count the same pods.

    `selector` None matches nothing. `required_keys` are the labels that a node must carry to take part: the keys of
    all constraints of the same list (for system defaults its own key only). `min_domains` is at least 1.
    """

    key: str
    max_skew: int
    when_unsatisfiable: WhenUnsatisfiable
    selector: LabelSelector | None
    required_keys: tuple[str, ...]
    min_domains: int = 1
    node_affinity_policy: InclusionPolicy = InclusionPolicy.HONOR
    node_taints_policy: InclusionPolicy = InclusionPolicy.IGNORE
    origin: Origin = Origin.OWN

    @property
    def hard(self) -> bool:
        """Whether it keeps pods off nodes; a soft constraint only prefers other nodes."""
        return self.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE


class Constraints(NamedTuple):
    """A pod's constraints: the hard ones filter, the soft ones score; the two never mix."""

    hard: tuple[EffectiveConstraint, ...]
    soft: tuple[EffectiveConstraint, ...]


_Made = tuple[SpreadConstraint, LabelSelector | None, Origin]
"""A constraint as it is written, what it selects, and where it comes from."""

NO_CONSTRAINTS: Final = Constraints((), ())


def _make_soft_constraint(key: str, max_skew: int) -> SpreadConstraint:
    return SpreadConstraint(
        topology_key=key,
        max_skew=max_skew,
        when_unsatisfiable=WhenUnsatisfiable.SCHEDULE_ANYWAY,
        selector=None,
    )


SYSTEM_DEFAULTS: Final = (_make_soft_constraint(HOSTNAME, 3), _make_soft_constraint(ZONE, 5))
"""`defaultingType: System` (1.20 and newer)."""


def constraints_of(pod: Pod, view: View) -> Constraints:
    """Return the hard and the soft constraints that apply to a pod.

    A pod with any constraint of its own gets no default constraint, even if its own are all soft or all hard.
    """
    spread = pod.spec.spread
    if spread:
        keys = {key for constraint in spread for key in constraint.match_label_keys}
        values = tuple([(key, pod.labels[key]) for key in sorted(keys) if key in pod.labels]) if keys else ()
        return view.memo(("constraints", spread, values), lambda: _apply_label_keys(spread, dict(values)))
    if pod.spec.unread or view.profile.default_constraints == ():  # an unread pod may have its own constraints
        return NO_CONSTRAINTS
    owner = (pod.owner.kind, pod.owner.group, pod.owner.name) if pod.owner is not None else None
    return view.memo(("defaults", pod.namespace, pod.labels, owner), lambda: _make_default_constraints(pod, view))


def _apply_label_keys(spread: tuple[SpreadConstraint, ...], labels: dict[str, str]) -> Constraints:
    made = []
    for written in spread:
        narrowing = Labels({key: labels[key] for key in written.match_label_keys if key in labels})
        merged = written.selector is not None and bool(narrowing)
        selector = written.selector.narrowed(narrowing) if written.selector is not None and merged else written.selector
        made.append((written, selector, Origin.MERGED if merged else Origin.OWN))
    return _split(made, require_all=True)


def _make_default_constraints(pod: Pod, view: View) -> Constraints:
    selector = derive_default_selector(pod, view)
    if selector.empty:
        return NO_CONSTRAINTS
    configured = view.profile.default_constraints
    chosen = SYSTEM_DEFAULTS if configured is None else configured
    made = [(constraint, selector, Origin.DEFAULT) for constraint in chosen]
    return _split(made, require_all=configured is not None)


def _split(
    made: Sequence[_Made],
    *,
    require_all: bool,
) -> Constraints:
    """Make the two lists; each entry has the keys of its own list.

    System defaults do not require every key, so that nodes without a zone label are still spread by hostname.
    """
    hard = [entry for entry in made if entry[0].when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE]
    soft = [entry for entry in made if entry[0].when_unsatisfiable is WhenUnsatisfiable.SCHEDULE_ANYWAY]
    return Constraints(_make_list(hard, require_all=require_all), _make_list(soft, require_all=require_all))


def _make_list(made: Sequence[_Made], *, require_all: bool) -> tuple[EffectiveConstraint, ...]:
    if not made:  # most pods have hard constraints only, or soft ones only
        return ()
    keys = tuple(sorted({written.topology_key for written, _, _ in made})) if require_all else ()
    return tuple(
        [
            EffectiveConstraint(
                key=written.topology_key,
                max_skew=written.max_skew,
                when_unsatisfiable=written.when_unsatisfiable,
                selector=selector,
                required_keys=keys or (written.topology_key,),
                min_domains=(written.min_domains or 1)
                if written.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
                else 1,
                node_affinity_policy=written.node_affinity_policy,
                node_taints_policy=written.node_taints_policy,
                origin=origin,
            )
            for written, selector, origin in made
        ]
    )


def derive_default_selector(pod: Pod, view: View) -> LabelSelector:
    """Return the selector that default constraints get for a pod: its Services' and its owner's together.

    Empty if nothing selects the pod; then no default constraint applies. The owner is looked up by name, as the
    scheduler does; other kinds of owner (Job, DaemonSet) add nothing.
    """
    requirements: set[SelectorRequirement] = set()
    services = view.memo(("services by label", pod.namespace), lambda: _index_services(pod.namespace, view))
    for label in (None, *pod.labels.items()):
        for selector in services.get(label, ()):
            if selector.items() <= pod.labels.items():
                requirements.update(LabelSelector.of(selector).requirements)
    owner = pod.owner
    if owner is not None and (owner.group, owner.kind) in SELECTING_OWNERS:
        workload = view.owner_named(owner.group, owner.kind, pod.namespace, owner.name)
        if workload is not None and workload.selector is not None:
            requirements.update(workload.selector.requirements)
    return LabelSelector.of(None, requirements)


def _index_services(namespace: str, view: View) -> Mapping[tuple[str, str] | None, Sequence[Mapping[str, str]]]:
    """Return the selectors of a namespace's Services, each under its label that the fewest Services have, or None.

    A pod that a Service selects has all of the Service's labels, this label among them. So a pod is compared with few
    of thousands of Services.
    """
    services = view.snapshot.services_in.get(namespace, ())
    selectors = {frozenset(one.selector.items()): one.selector for one in services if one.selector is not None}.values()
    having = Counter(label for selector in selectors for label in selector.items())
    index: defaultdict[tuple[str, str] | None, list[Mapping[str, str]]] = defaultdict(list)
    for selector in selectors:
        index[min(selector.items(), key=lambda label: (having[label], label), default=None)].append(selector)
    return index
