"""KubeSchedulerConfiguration files: what they change, and how their mistakes are named."""

from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from rebalancer.model.affinity import NodeSelectorTerm
from rebalancer.scheduling.configuration import ConfigurationError, read_profiles
from rebalancer.scheduling.profile import DEFAULT_WEIGHTS, Profile


def written(*made: dict[str, Any], **top: Any) -> bytes:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **({"profiles": list(made)} if made else {}),
        **top,
    }
    return yaml.safe_dump(document).encode()


def only(data: bytes) -> Profile:
    (profile,) = read_profiles(data).values()
    return profile


def with_arguments(plugin: str, **arguments: Any) -> dict[str, Any]:
    return {"pluginConfig": [{"name": plugin, "args": arguments}]}


def test_an_empty_configuration_is_the_default_scheduler() -> None:
    assert only(written()) == Profile()


def test_the_default_plugins_written_out_are_the_default_scheduler() -> None:
    """As kube-scheduler writes its configuration itself (`--write-config-to`), and with what newer releases add."""
    weights = {"TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2, "InterPodAffinity": 2}
    weights |= dict.fromkeys(("NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality"), 1)
    others = (
        "SchedulingGates PrioritySort NodeUnschedulable NodeName NodePorts VolumeRestrictions NodeVolumeLimits"
        " VolumeBinding VolumeZone DefaultPreemption DefaultBinder DynamicResources NodeDeclaredFeatures GangScheduling"
        " TopologyPlacementGenerator PodGroupPodsCount"
    )
    enabled = [{"name": name, "weight": weight} for name, weight in weights.items()]
    enabled += [{"name": name} for name in others.split()]
    assert only(written({"plugins": {"multiPoint": {"enabled": enabled}}})) == Profile()


def test_profiles_are_found_by_the_name_that_pods_give() -> None:
    profiles = read_profiles(written({"schedulerName": "a"}, {"schedulerName": "b", "percentageOfNodesToScore": 30}))
    assert {name: profile.percentage for name, profile in profiles.items()} == {"a": 0, "b": 30}


def test_the_parallelism_is_that_of_all_profiles() -> None:
    made = read_profiles(written({"schedulerName": "a"}, {"schedulerName": "b"}, parallelism=4))
    assert {name: profile.parallelism for name, profile in made.items()} == {"a": 4, "b": 4}
    assert only(written()).parallelism == 16


def test_preemption_may_be_switched_off_replaced_and_limited() -> None:
    off = {"disabled": [{"name": "DefaultPreemption"}]}
    assert only(written({"plugins": {"postFilter": off}})).post_filters == ()
    assert only(written({"plugins": {"multiPoint": {"disabled": [{"name": "*"}]}}})).post_filters == ()
    again = {"multiPoint": {**off, "enabled": [{"name": "DefaultPreemption"}, {"name": "NodeName"}]}}
    assert only(written({"plugins": again})).post_filters == ("DefaultPreemption",)
    other = {"postFilter": {"enabled": [{"name": "Other"}]}}
    assert only(written({"plugins": other})).post_filters == ("DefaultPreemption", "Other")
    limits = with_arguments("DefaultPreemption", minCandidateNodesPercentage=5, minCandidateNodesAbsolute=7)
    assert only(written(limits)).preemption_candidates == (5, 7)


def test_weights_change_and_score_plugins_go() -> None:
    plugins = {
        "multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 7}]},
        "score": {"disabled": [{"name": "ImageLocality"}], "enabled": [{"name": "PodTopologySpread", "weight": 9}]},
    }
    weights = only(written({"plugins": plugins})).weights
    expected = {**DEFAULT_WEIGHTS, "NodeAffinity": 7, "PodTopologySpread": 9}
    del expected["ImageLocality"]
    assert weights == expected


def test_everything_can_be_switched_off_and_some_on_again() -> None:
    plugins = {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}}
    profile = only(written({"plugins": plugins}))
    assert profile.weights == {"NodeResourcesFit": 1}
    assert "NodeResourcesFit" not in profile.filters_off
    assert "PodTopologySpread" in profile.filters_off


def test_a_filter_can_be_switched_off_alone() -> None:
    profile = only(written({"plugins": {"filter": {"disabled": [{"name": "TaintToleration"}]}}}))
    assert profile.filters_off == {"TaintToleration"}
    assert profile.weights == DEFAULT_WEIGHTS


def test_default_constraints_come_as_a_list_or_from_the_system() -> None:
    entry = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    listed = with_arguments("PodTopologySpread", defaultingType="List", defaultConstraints=[entry])
    constraints = only(written(listed)).default_constraints
    assert constraints is not None
    assert [(constraint.topology_key, constraint.max_skew) for constraint in constraints] == [("zone", 1)]
    assert only(written(with_arguments("PodTopologySpread", defaultingType="List"))).default_constraints == ()
    assert only(written(with_arguments("PodTopologySpread", defaultingType="System"))).default_constraints is None


def test_added_affinity_and_scoring_arguments_are_read() -> None:
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": {"matchFields": []}}],
    }
    added = only(written(with_arguments("NodeAffinity", addedAffinity=affinity))).added_affinity
    assert added.required is not None
    assert added.required[0].expressions[0].key == "k"
    assert added.preferred[0].term == NodeSelectorTerm()
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}, {"name": "gpu"}]}
    fit = only(written(with_arguments("NodeResourcesFit", scoringStrategy=strategy, ignoredResources=["x.test/y"])))
    assert (fit.most_allocated, fit.strategy) == (True, (("cpu", 3), ("gpu", 1)))
    assert fit.ignored_resources == {"x.test/y"}
    inter = only(written(with_arguments("InterPodAffinity", hardPodAffinityWeight=0)))
    assert inter.hard_pod_affinity_weight == 0


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (written(extenders=[{"urlPrefix": "http://x"}]), "extenders"),
        (written({"plugins": {"filter": {"enabled": [{"name": "Capacity"}]}}}), "plugin Capacity"),
        (written({"plugins": {"preScore": {"disabled": [{"name": "*"}]}}}), "preScore without *"),
        (
            written(with_arguments("NodeResourcesFit", scoringStrategy={"type": "RequestedToCapacityRatio"})),
            "scoringStrategy RequestedToCapacityRatio",
        ),
        (
            written(with_arguments("VolumeBinding", shape=[{"utilization": 0, "score": 0}])),
            "VolumeBinding with a shape of its own",
        ),
    ],
)
def test_what_cannot_be_modelled_is_reported(data: bytes, named: str) -> None:
    assert only(data).unmodelled == (named,)


CONSTRAINT = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


def listed(**fields: Any) -> bytes:
    return written(
        with_arguments("PodTopologySpread", defaultingType="List", defaultConstraints=[{**CONSTRAINT, **fields}])
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: [", "line 1: not a YAML mapping; expected one KubeSchedulerConfiguration"),
        (b"[]", "line 1: not a YAML mapping"),
        (b"", "line 1: not a YAML mapping"),
        (b"a: 1\nb: \xff", "line 2: not UTF-8"),
        (b"#" * (1024 * 1024 + 1), "the file has 1,048,577 bytes; expected at most 1,048,576"),
        (b"kind: a\nkind: b", "line 2: found a tag, a duplicate key or a key that is not text; expected none"),
        (
            b"kind: Pod\napiVersion: v1",
            "line 2: apiVersion: found another version; expected kubescheduler.config.k8s.io",
        ),
        (written(kind="Pod"), "kind: found another kind; expected KubeSchedulerConfiguration"),
        (b"\nkind: Pod", "line 2: apiVersion: missing; expected text"),
        (written({"schedulerName": 3}), "profiles[0].schedulerName: found a whole number; expected text"),
        (written({"schedulerName": 3.5}), "profiles[0].schedulerName: found a value of another type; expected text"),
        (written({}, {}), "profiles[1].schedulerName: found the name of an earlier profile; give each profile its own"),
        (
            written(percentageOfNodesToScore=101),
            "percentageOfNodesToScore: found another number; expected a whole numb",
        ),
        (written(percentageOfNodesToScore=True), "found true or false; expected a whole number from 0 to 100"),
        (written({"plugins": []}), "profiles[0].plugins: found a list; expected a mapping"),
        (written({"plugins": {"score": {"enabled": {}}}}), "plugins.score.enabled: found a mapping; expected a list"),
        (listed(maxSkew=0), "defaultConstraints[0].maxSkew: found another number; expected a whole number from 1"),
        (listed(whenUnsatisfiable="Never"), "found another text; expected one of DoNotSchedule, ScheduleAnyway"),
        (listed(labelSelector={}), "defaultConstraints[0].labelSelector: must be empty"),
        (
            written(with_arguments("PodTopologySpread", defaultConstraints=[CONSTRAINT])),
            "must be empty with defaultingType System",
        ),
        (
            written(with_arguments("InterPodAffinity", ignorePreferredTermsOfExistingPods="yes")),
            "ignorePreferredTermsOfExistingPods: found text; expected true or false",
        ),
    ],
)
def test_a_mistake_is_named_with_line_field_and_what_was_expected(data: bytes, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_profiles(data)
    assert message in str(caught.value)


SECRET = "eyJhbGciOiJSUzI1NiJ9"
PLACES = (
    "{}",
    "{}: a",
    "a: {}",
    "kind: {}\napiVersion: {}",
    "kind: KubeSchedulerConfiguration\napiVersion: {}",
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: {}",
    "*{}",
    "&{} a",
    "a: &{} a\nb: &{} c",
    "!{} a",
    "a: !{} a",
    "{}: 1\n{}: 2",
    '"\\{}"',
    "%{}",
    "a: b: {}",
    "- {}\n{}",
)


@pytest.mark.parametrize("place", PLACES)
def test_no_error_has_a_value_of_the_file(place: str) -> None:
    """The policy may name a file that its author cannot read, such as a token; errors are events."""
    with pytest.raises(ConfigurationError) as caught:
        read_profiles(place.replace("{}", SECRET).encode())
    assert SECRET[:4] not in str(caught.value)


@pytest.mark.parametrize(
    "field", ["schedulerName", "percentageOfNodesToScore", "parallelism", "plugins", "pluginConfig"]
)
def test_no_error_about_a_field_has_its_value(field: str) -> None:
    data = written(
        {"schedulerName": SECRET}, {"schedulerName": SECRET, **({} if field == "schedulerName" else {field: SECRET})}
    )
    with pytest.raises(ConfigurationError) as caught:
        read_profiles(data)
    assert SECRET[:4] not in str(caught.value)


HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
FRAGMENTS = (
    *("a", "profiles", ": ", "\n", "  ", "- ", "[", "]", "{", "}", "? ", "!!float ", "!!int ", "!!binary ", "!!set "),
    *(
        "2026-13-45",
        "!!timestamp ",
        "&a ",
        "*a",
        "<<: ",
        "|",
        "9" * 5000,
        "0x",
        "1:30",
        "\ud800",
        "'",
        '"',
        "\\U00110000",
    ),
)


@given(
    st.binary()
    | st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.lists(st.sampled_from(FRAGMENTS)).map(lambda parts: (HEADER + "".join(parts)).encode("utf-8", "surrogatepass"))
)
@example(b"2026-13-45")
@example(b"[" * 500)
@example(b"a: !!float x")
@example(b"a: !!int")
@example(b"a: !!timestamp")
def test_no_bytes_do_harm(data: bytes) -> None:
    """Whatever the bytes are, the result is profiles or a ConfigurationError."""
    with suppress(ConfigurationError):
        read_profiles(data)
