"""Profiles from a KubeSchedulerConfiguration, as the administrator gives it to kube-scheduler.

Fields are read strictly: an unknown value is an error that names line, field and what was expected. An error never
shows a value of the file, because errors are published and the path comes from the policy, whose author may not be
allowed to read every file that the controller can. What this package cannot model (extenders, third-party plugins,
RequestedToCapacityRatio) goes into `Profile.unmodelled`; nothing is predicted for such a profile. Source:
`apis/config/v1/default_plugins.go`, `default_plugins.go` (mergePlugins).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from rebalancer.model.affinity import NodeAffinity, NodeSelectorTerm, PreferredNodeTerm
from rebalancer.model.labels import Operator, SelectorRequirement
from rebalancer.model.spread import InclusionPolicy, SpreadConstraint, WhenUnsatisfiable
from rebalancer.scheduling.feasibility import FILTERS
from rebalancer.scheduling.profile import DEFAULT_PROFILE, DEFAULT_WEIGHTS, Profile, Strategy
from rebalancer.yaml_tree import Path, Tree, UnreadableError, read_tree

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
"""Plugins without effect on the modelled rules; nothing is predicted for the pods that they affect."""
LARGEST_FILE: Final = 1024 * 1024
"""In bytes; as large as a ConfigMap can be."""
DECIDING: Final = ("multiPoint", "preFilter", "filter", "preScore", "score")
"""Extension points at which a plugin can change a pod's node; later points override the first."""
_TYPE_NAMES: Final[Mapping[type, str]] = {
    dict: "a mapping",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a whole number",
}


class ConfigurationError(ValueError):
    """kube-scheduler would refuse the configuration; the message names line and field, and no value of the file."""


def read_profiles(data: bytes) -> Mapping[str, Profile]:
    """Return the profiles of a KubeSchedulerConfiguration (YAML or JSON) by `schedulerName`.

    Raises ConfigurationError.
    """
    tree = _read_tree(data)
    root = _Field(tree, (), tree.value)
    version, kind = root.get("apiVersion"), root.get("kind")
    if not version.text().startswith(API_GROUP):
        version.refuse(f"found another version; expected {API_GROUP}v1")
    if kind.text() != KIND:
        kind.refuse(f"found another kind; expected {KIND}")
    everywhere = root.get("percentageOfNodesToScore").whole(0, 100, 0)
    parallelism = root.get("parallelism").whole(1, 2**31 - 1, DEFAULT_PROFILE.parallelism)
    extenders = ("extenders",) if root.get("extenders").items() else ()
    by_name: dict[str, Profile] = {}
    for field in root.get("profiles").items() or [root.empty("profiles", 0)]:
        made = _read_profile(field.mapping(), everywhere, parallelism, extenders)
        if made.name in by_name:
            field.get("schedulerName").refuse("found the name of an earlier profile; give each profile its own name")
        by_name[made.name] = made
    return by_name


def _read_tree(data: bytes) -> Tree:
    """Read the document. Messages of the YAML parser quote the text, so only their lines are passed on."""
    if len(data) > LARGEST_FILE:
        raise ConfigurationError(f"the file has {len(data):,} bytes; expected at most {LARGEST_FILE:,}")
    try:
        tree = read_tree(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"line {line}: not UTF-8; expected a {KIND} in YAML or JSON") from None
    except UnreadableError as error:
        raise ConfigurationError(f"line {error.line}: not a YAML mapping; expected one {KIND}") from None
    for line, _, _ in tree.problems:
        raise ConfigurationError(f"line {line}: found a tag, a duplicate key or a key that is not text; expected none")
    return tree


def _read_profile(field: "_Field", everywhere: int, parallelism: int, unmodelled: tuple[str, ...]) -> Profile:
    plugins = field.get("plugins").mapping()
    on, weights, foreign = _read_plugins(plugins)
    percentage, least = DEFAULT_PROFILE.preemption_candidates
    arguments = {entry.get("name").text(): entry.get("args").mapping() for entry in field.get("pluginConfig").items()}
    nothing = field.empty("pluginConfig")
    fit = arguments.get("NodeResourcesFit", nothing)
    affinity = arguments.get("InterPodAffinity", nothing)
    shape = arguments.get("VolumeBinding", nothing).get("shape").items()
    shaped = ("VolumeBinding with a shape of its own",) if shape else ()
    strategy, most, exotic = _read_strategy(fit.get("scoringStrategy").mapping())
    preemption = arguments.get("DefaultPreemption", nothing)
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
        parallelism=parallelism,
        post_filters=_read_post_filters(plugins),
        preemption_candidates=(
            preemption.get("minCandidateNodesPercentage").whole(0, 100, percentage),
            preemption.get("minCandidateNodesAbsolute").whole(0, 2**31 - 1, least),
        ),
        unmodelled=(*unmodelled, *foreign, *exotic, *shaped),
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


def _read_post_filters(field: "_Field") -> tuple[str, ...]:
    """Return the plugins that are called for a pod that no node admits.

    Of the plugins that are enabled everywhere, only preemption is known to be called.
    """
    on = dict.fromkeys(DEFAULT_PROFILE.post_filters)
    for point in ("multiPoint", "postFilter"):
        at = field.get(point).mapping()
        for name in (plugin.get("name").text() for plugin in at.get("disabled").items()):
            on = {} if name == "*" else {other: None for other in on if other != name}
        for name in (plugin.get("name").text() for plugin in at.get("enabled").items()):
            if point == "postFilter" or name in DEFAULT_PROFILE.post_filters:
                on[name] = None
    return tuple(on)


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
            field.get("defaultConstraints").refuse("must be empty with defaultingType System")
        return None
    return tuple(_read_constraint(constraint) for constraint in constraints)


def _read_constraint(field: "_Field") -> SpreadConstraint:
    if field.get("labelSelector").value is not None:
        field.get("labelSelector").refuse("must be empty, it is derived from services and owners")
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
    """A value of the document and its path, so that every error can name line and field."""

    def __init__(self, tree: Tree, path: Path, value: Any) -> None:
        self._tree = tree
        self._path = path
        self.value = value

    def get(self, name: str) -> "_Field":
        return _Field(self._tree, (*self._path, name), self.mapping().value.get(name))

    def empty(self, *path: str | int) -> "_Field":
        """Return an empty mapping in place of a missing one."""
        return _Field(self._tree, (*self._path, *path), {})

    def mapping(self) -> "_Field":
        return _Field(self._tree, self._path, self._require(dict, "a mapping", {}))

    def items(self) -> Sequence["_Field"]:
        values: Iterable[Any] = self._require(list, "a list", [])
        return [_Field(self._tree, (*self._path, position), value) for position, value in enumerate(values)]

    def text(self, default: str | None = None) -> str:
        text: str = self._require(str, "text", default)
        return text

    def flag(self) -> bool:
        flag: bool = self._require(bool, "true or false", default=False)
        return flag

    def whole(self, least: int, most: int, default: int | None = None) -> int:
        expected = f"a whole number from {least} to {most}"
        number: int = self._require(int, expected, default)
        if isinstance(self.value, bool):
            self._refuse_type(expected)
        if not least <= number <= most:
            self.refuse(f"found another number; expected {expected}")
        return number

    def choice(self, values: Iterable[str], default: str | None = None) -> str:
        text = self.text(default)
        if text not in values:
            self.refuse(f"found another text; expected one of {', '.join(sorted(values))}")
        return text

    def refuse(self, message: str) -> NoReturn:
        """Raise the error about this field; `message` has no value of the file."""
        path = self._path
        while path not in self._tree.places:
            path = path[:-1]
        name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self._path).lstrip(".")
        raise ConfigurationError(f"line {self._tree.places[path].line}: {name}: {message}")

    def _require(self, kind: type, expected: str, default: Any = None) -> Any:
        if self.value is None:
            if default is None:
                self.refuse(f"missing; expected {expected}")
            return default
        if not isinstance(self.value, kind):
            self._refuse_type(expected)
        return self.value

    def _refuse_type(self, expected: str) -> NoReturn:
        type_name = _TYPE_NAMES.get(type(self.value), "a value of another type")
        self.refuse(f"found {type_name}; expected {expected}")
