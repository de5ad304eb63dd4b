"""What pods use of a node adds up."""

from msgspec import structs

from rebalancer.model.cluster import Version
from rebalancer.model.pods import PodSpec, Resources
from rebalancer.scheduling.node_usage import add_usage
from rebalancer.scheduling.view import View
from tests.scheduling.build import node, pod, snapshot


def test_extended_resources_are_counted_by_name_both_ways() -> None:
    """Two pods more and one fewer leave what one requests."""
    holds = (Resources(extended=(("gpu", 2),)), (0, 0))
    assert add_usage([(holds, 1), (holds, 1), (holds, -1)]).extended == {"gpu": 2}


def test_a_resize_in_place_counts_from_1_33() -> None:
    """Until 1.32 a node is charged with the spec alone, in the snapshot and in a hypothetical state."""
    spec = PodSpec(requests=Resources(cpu=500), scored=(500, 0))
    resized = structs.replace(pod(on="a", spec=spec), requests=Resources(cpu=2000), scored=(2000, 0))
    for minor, cpu in ((32, 500), (33, 2000)):
        view = View(snapshot([node("a"), node("b")], [resized], version=Version(1, minor)))
        assert (view.used("a").cpu, view.used("a").scored_cpu) == (cpu, cpu)
        moved = view.with_placed(resized, "b")
        assert (moved.used("a").cpu, moved.used("b").cpu) == (0, cpu)
        assert view.without([resized]).used("a").cpu == 0


def test_a_resize_in_place_counts_the_most_of_three_sums_from_1_37() -> None:
    """Until 1.36 the most of each container's three is summed up, which may be more."""
    spec = PodSpec(requests=Resources(cpu=500), scored=(500, 0))
    fields = {"requests": Resources(cpu=2000), "scored": (2000, 0), "resized": (Resources(cpu=1500), (1600, 0))}
    resized = structs.replace(pod(on="a", spec=spec), **fields)
    for minor, cpu, scored in ((32, 500, 500), (36, 2000, 2000), (37, 1500, 1600)):
        view = View(snapshot([node("a")], [resized], version=Version(1, minor)))
        assert (view.used("a").cpu, view.used("a").scored_cpu) == (cpu, scored)


def test_sidecars_scored_as_init_containers_until_1_31() -> None:
    """What is free does not change, only what LeastAllocated takes for it."""
    spec = PodSpec(requests=Resources(cpu=500), scored=(500, 0), scored_sidecars_as_init=(300, 0))
    for minor, scored in ((31, 300), (32, 500)):
        view = View(snapshot([node("a")], [pod(on="a", spec=spec)], version=Version(1, minor)))
        assert (view.used("a").cpu, view.used("a").scored_cpu) == (500, scored)
