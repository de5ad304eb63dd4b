"""Which component waits for which pods that are to come, found by labels as by looking at each of them."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.model.labels import Labels, LabelSelector, Operator, SelectorRequirement
from rebalancer.model.moves import NO_MEMORY, Reference
from rebalancer.model.pods import PodSpec
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.planning.formulation import OthersPending
from rebalancer.planning.scope.forthcoming import Forthcoming, ForthcomingPod
from rebalancer.planning.scope.requirements import Requirement, requirement_of_limit, requirements_of_group
from rebalancer.scheduling.view import View
from rebalancer.simulator import ZONE
from tests.build import a_cluster, change_specs
from tests.drawing import examples
from tests.planning.build import limit, policy

ACT_ON = (WhenUnsatisfiable.DO_NOT_SCHEDULE,)
keys, values = st.sampled_from("abc"), st.sampled_from("xy")
labels = st.dictionaries(keys, values, max_size=3)
conditions = st.builds(
    SelectorRequirement,
    keys,
    st.sampled_from([Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST]),
    st.lists(values, min_size=1, max_size=2, unique=True).map(sorted).map(tuple),
)
groups = st.sampled_from(
    [
        "selector: {}",
        "selector: {}, groupBy: [workload]",
        "selector: {matchLabels: {a: x}}",
        "selector: {matchLabels: {a: x}}, groupBy: [workload]",
        "selector: {}, groupBy: [b]",
    ]
)


def requirements_of(selector: LabelSelector, group: str, own: Mapping[str, str]) -> list[Requirement]:
    """Return a constraint's requirement with this selector, and those of a limit over a group, of one cluster."""

    def counting(_: str, spec: PodSpec) -> PodSpec:
        return structs.replace(spec, spread=tuple(structs.replace(one, selector=selector) for one in spec.spread))

    snapshot = change_specs(a_cluster("ab", 1, {"a-1": 2}, spread={ZONE: 1}).snapshot(), counting, **own)
    view = View(snapshot)
    assessment = assess(view, policy(limit("maxPods: 1", group=group)), NO_MEMORY)
    constraints = [one for found in assessment.groups for one in requirements_of_group(found, view, ACT_ON)]
    return [*constraints, *(requirement_of_limit(one, view) for one in assessment.limits)]


@examples(300)
@given(st.lists(conditions, max_size=3), groups, labels, st.lists(st.tuples(labels, st.booleans()), max_size=6))
def test_the_first_pod_that_counts_is_found_by_its_labels(
    selector: Sequence[SelectorRequirement],
    group: str,
    own: Mapping[str, str],
    drawn: Sequence[tuple[Mapping[str, str], bool]],
) -> None:
    """As if each were compared with each requirement, in their order; those of the component are left aside."""
    requirements = requirements_of(LabelSelector.of(None, selector), group, own)
    pods = [
        ForthcomingPod(
            f"{number}",
            Labels(one),
            Reference("default", "Deployment", "web" if inside else "other"),
            OthersPending(f"{number}"),
        )
        for number, (one, inside) in enumerate(drawn)
    ]
    for left_aside in (frozenset[str](), frozenset({"0", "2"})):
        expected = next(
            (
                one.refusal
                for one in pods
                if one.uid not in left_aside
                and any(requirement.counts(one.labels, one.workload) for requirement in requirements)
            ),
            None,
        )
        assert Forthcoming(pods).find_counted(requirements, left_aside) == expected


def test_of_thousands_of_pods_those_with_the_label_are_compared() -> None:
    """3,000 workloads that each count their own pods ask each other nothing: a plan took 18 seconds."""
    compared: list[str] = []

    class Watched(Requirement, frozen=True, kw_only=True):
        def counts(self, labels: Labels, workload: Reference) -> bool:
            compared.append(labels["app"])
            return super().counts(labels, workload)

    (requirement,) = requirements_of(LabelSelector.of({"app": "web"}), "selector: {matchLabels: {a: x}}", {})
    watched = Watched(**{name: getattr(requirement, name) for name in requirement.__struct_fields__})
    pods = [
        ForthcomingPod(app, Labels({"app": app}), Reference("default", "Deployment", app), OthersPending(app))
        for app in ("web", "db", *(f"w-{number}" for number in range(3_000)))
    ]
    assert Forthcoming(pods).find_counted([watched], ()) == OthersPending("web")
    assert Forthcoming(pods).find_counted([watched], {"web"}) is None
    assert compared == ["web"]
