"""Profiles from a KubeSchedulerConfiguration, as the administrator gives it to kube-scheduler.

The fields that are read are read strictly: an unknown value is an error that names the field. What this package cannot
model (extenders, third-party plugins, RequestedToCapacityRatio) goes into `Profile.unmodelled`; nothing is predicted
for such a profile. Source: `apis/config/v1/default_plugins.go`, `default_plugins.go` (mergePlugins).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import yaml

from rebalancer.model.affinity import NodeAffinity, NodeSelectorTerm, PreferredNodeTerm
from rebalancer.model.labels import Operator, SelectorRequirement
from rebalancer.model.spread import InclusionPolicy, SpreadConstraint, WhenUnsatisfiable
from rebalancer.scheduling.feasibility import FILTERS
from rebalancer.scheduling.profile import DEFAULT_WEIGHTS, Profile, Strategy

API_GROUP: Final = "kubescheduler.config.k8s.io/"
KIND: Final = "KubeSchedulerConfiguration"
FILTERING: Final = frozenset(plugin.name for plugin in FILTERS)
SILENT: Final = frozenset(
    {
        "SchedulingGates",
        "PrioritySort",
        "DefaultPreemption",
        "DefaultBinder",
        "DynamicResources",
        "NodeDeclaredFeatures",
        "GangScheduling",
        "TopologyPlacementGenerator",
        "PodGroupPodsCount",
    }
)
"""Plugins of the scheduler without effect on what is modelled; the pods that they affect are not predicted."""
DECIDING: Final = ("multiPoint", "preFilter", "filter", "preScore", "score")
"""Extension points at which a plugin can change a pod's node; the later ones override the first."""


class ConfigurationError(ValueError):
    """kube-scheduler would refuse the configuration; the message names field and value."""


def read_profiles(data: bytes) -> Mapping[str, Profile]:
    """Return the profiles of a KubeSchedulerConfiguration (YAML or JSON) by `schedulerName`.

    Raises ConfigurationError.
    """
    try:
        document = yaml.safe_load(data)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"not valid YAML: {error}") from None
    root = _Field("", document).mapping()
    version, kind = root.get("apiVersion").text(), root.get("kind").text()
    if not version.startswith(API_GROUP) or kind != KIND:
        raise ConfigurationError(f"apiVersion {version!r}, kind {kind!r}: expected {API_GROUP}v1, {KIND}")
    everywhere = root.get("percentageOfNodesToScore").whole(0, 100, 0)
    extenders = ("extenders",) if root.get("extenders").items() else ()
    by_name: dict[str, Profile] = {}
    for field in root.get("profiles").items() or [_Field("profiles[0]", {})]:
        made = _read_profile(field.mapping(), everywhere, extenders)
        if made.name in by_name:
            raise ConfigurationError(
                f"{field.path}.schedulerName: {made.name!r} is taken; give each profile its own name"
            )
        by_name[made.name] = made
    return by_name


def _read_profile(field: "_Field", everywhere: int, unmodelled: tuple[str, ...]) -> Profile:
    plugins = field.get("plugins").mapping()
    on, weights, foreign = _read_plugins(plugins)
    arguments = {entry.get("name").text(): entry.get("args").mapping() for entry in field.get("pluginConfig").items()}
    nothing = _Field("pluginConfig", {})
    fit = arguments.get("NodeResourcesFit", nothing)
    affinity = arguments.get("InterPodAffinity", nothing)
    strategy, most, exotic = _read_strategy(fit.get("scoringStrategy").mapping())
    balanced = arguments.get("NodeResourcesBalancedAllocation", nothing).get("resources").items()
    return Profile(
        name=field.get("schedulerName").text("default-scheduler"),
        weights=weights,
        filters_off=FILTERING - on,
        default_constraints=_read_default_constraints(arguments.get("PodTopologySpread", nothing)),
        added_affinity=_read_added_affinity(arguments.get("NodeAffinity", nothing).get("addedAffinity").mapping()),
        hard_pod_affinity_weight=affinity.get("hardPodAffinityWeight").whole(0, 100, 1),
        ignore_preferred_of_existing=affinity.get("ignorePreferredTermsOfExistingPods").flag(),
        ignored_resources=frozenset(resource.text() for resource in fit.get("ignoredResources").items()),
        ignored_resource_groups=frozenset(group.text() for group in fit.get("ignoredResourceGroups").items()),
        most_allocated=most,
        strategy=strategy,
        balanced_resources=tuple(resource.get("name").text() for resource in balanced) or ("cpu", "memory"),
        percentage=field.get("percentageOfNodesToScore").whole(0, 100, everywhere),
        unmodelled=(*unmodelled, *foreign, *exotic),
    )


# Many branches: kube-scheduler's rules for `enabled` and `disabled`, for scores and filters alike.
def _read_plugins(field: "_Field") -> tuple[frozenset[str], Mapping[str, int], tuple[str, ...]]:
    """Return the enabled filter plugins, the weights of the score plugins, and the plugins that are not modelled.

    `disabled` removes a plugin, `*` all of them; `enabled` adds one or sets its weight, 1 by default.
    """
    on = set(FILTERING)
    weights = dict(DEFAULT_WEIGHTS)
    foreign: list[str] = []
    for point in DECIDING:
        at = field.get(point).mapping()
        scores, filters = point in {"multiPoint", "score"}, point in {"multiPoint", "filter"}
        for plugin in at.get("disabled").items():
            name = plugin.get("name").text()
            if point.startswith("pre"):
                foreign.append(f"{point} without {name}")
            if scores:
                weights = {} if name == "*" else {other: w for other, w in weights.items() if other != name}
            if filters:
                on = set() if name == "*" else on - {name}
        for plugin in at.get("enabled").items():
            name = plugin.get("name").text()
            if name not in FILTERING | DEFAULT_WEIGHTS.keys() | SILENT:
                foreign.append(f"plugin {name}")
            if scores and name in DEFAULT_WEIGHTS:
                weights[name] = plugin.get("weight").whole(0, 2**31 - 1, 0) or 1
            if filters and name in FILTERING:
                on.add(name)
    return frozenset(on), weights, tuple(sorted(set(foreign)))


def _read_strategy(field: "_Field") -> tuple[Strategy, bool, tuple[str, ...]]:
    kind = field.get("type").choice({"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"}, "LeastAllocated")
    resources = tuple(
        (resource.get("name").text(), resource.get("weight").whole(1, 100, 1))
        for resource in field.get("resources").items()
    )
    exotic = ("scoringStrategy RequestedToCapacityRatio",) if kind == "RequestedToCapacityRatio" else ()
    return resources or (("cpu", 1), ("memory", 1)), kind == "MostAllocated", exotic


def _read_default_constraints(field: "_Field") -> tuple[SpreadConstraint, ...] | None:
    kind = field.get("defaultingType").choice({"System", "List"}, "System")
    constraints = field.get("defaultConstraints").items()
    if kind == "System":
        if constraints:
            raise ConfigurationError(f"{field.path}.defaultConstraints: must be empty with defaultingType System")
        return None
    return tuple(_read_constraint(constraint) for constraint in constraints)


def _read_constraint(field: "_Field") -> SpreadConstraint:
    if field.get("labelSelector").value is not None:
        raise ConfigurationError(f"{field.path}.labelSelector: must be empty, it is derived from services and owners")
    policies = {"Honor", "Ignore"}
    actions = {"DoNotSchedule", "ScheduleAnyway"}
    return SpreadConstraint(
        topology_key=field.get("topologyKey").text(),
        max_skew=field.get("maxSkew").whole(1, 2**31 - 1),
        when_unsatisfiable=WhenUnsatisfiable(field.get("whenUnsatisfiable").choice(actions)),
        selector=None,
        min_domains=field.get("minDomains").whole(1, 2**31 - 1, 1),
        node_affinity_policy=InclusionPolicy(field.get("nodeAffinityPolicy").choice(policies, "Honor")),
        node_taints_policy=InclusionPolicy(field.get("nodeTaintsPolicy").choice(policies, "Ignore")),
    )


def _read_added_affinity(field: "_Field") -> NodeAffinity:
    required = field.get("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = field.get("preferredDuringSchedulingIgnoredDuringExecution").items()
    terms = required.mapping().get("nodeSelectorTerms").items()
    return NodeAffinity(
        required=tuple(_read_term(term) for term in terms) if required.value is not None else None,
        preferred=tuple(
            PreferredNodeTerm(term.get("weight").whole(1, 100), _read_term(term.get("preference")))
            for term in preferred
        ),
    )


def _read_term(field: "_Field") -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(_read_requirement(expression) for expression in field.mapping().get("matchExpressions").items()),
        tuple(_read_requirement(expression) for expression in field.mapping().get("matchFields").items()),
    )


def _read_requirement(field: "_Field") -> SelectorRequirement:
    operator = Operator(field.get("operator").choice({choice.value for choice in Operator}))
    return SelectorRequirement(
        field.get("key").text(), operator, tuple(sorted(value.text() for value in field.get("values").items()))
    )


class _Field:
    """A value of the document and its path, so that every error can name the field."""

    def __init__(self, path: str, value: Any) -> None:
        self.path = path
        self.value = value

    def get(self, name: str) -> "_Field":
        return _Field(f"{self.path}.{name}".lstrip("."), self.mapping().value.get(name))

    def mapping(self) -> "_Field":
        return self if isinstance(self.value, dict) else _Field(self.path, self._typed(dict, "a mapping", {}))

    def items(self) -> Sequence["_Field"]:
        values: Iterable[Any] = self._typed(list, "a list", [])
        return [_Field(f"{self.path}[{position}]", value) for position, value in enumerate(values)]

    def text(self, default: str | None = None) -> str:
        text: str = self._typed(str, "a text", default)
        return text

    def flag(self) -> bool:
        flag: bool = self._typed(bool, "true or false", default=False)
        return flag

    def whole(self, least: int, most: int, default: int | None = None) -> int:
        number: int = self._typed(int, "a whole number", default)
        if isinstance(self.value, bool) or not least <= number <= most:
            raise ConfigurationError(f"{self.path}: {self.value!r} is not a whole number from {least} to {most}")
        return number

    def choice(self, values: Iterable[str], default: str | None = None) -> str:
        text = self.text(default)
        if text not in values:
            raise ConfigurationError(f"{self.path}: {text!r} is not one of {', '.join(sorted(values))}")
        return text

    def _typed(self, kind: type, name: str, default: Any = None) -> Any:
        if self.value is None:
            if default is None:
                raise ConfigurationError(f"{self.path}: missing; expected {name}")
            return default
        if not isinstance(self.value, kind):
            raise ConfigurationError(f"{self.path}: {self.value!r} is not {name}")
        return self.value
