"""A StatefulSet creates the pods below its partition at `currentRevision`, the others at `updateRevision`."""

from typing import Any

import pytest
from msgspec import structs

from rebalancer.creation.replacement import replacement
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.pods import OwnerReference, Pod, PodSpec, Resources
from rebalancer.model.reasons import Reason
from rebalancer.model.workloads import PodTemplate, Workload
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View
from tests.scheduling.build import HOSTNAME, NOW, node, pod, selector, snapshot, spread

WEB = selector(app="web") or LabelSelector()
OLD, NEW = PodSpec(requests=Resources(cpu=5)), PodSpec(requests=Resources(cpu=9))
OWNER = OwnerReference(group="apps", kind="StatefulSet", name="web", uid="w")


def a_set(**fields: Any) -> Workload:
    """Return a StatefulSet of four that updates from web-1 to web-2, but for its first two pods."""
    template = PodTemplate(labels=Labels({"app": "web", "tier": "new"}), spec=NEW, requests=NEW.requests)
    made = Workload(group="apps", kind="StatefulSet", namespace="default", name="web", uid="w", created=NOW, replicas=4)
    held = structs.replace(made, template=template, revision="web-2", current_revision="web-1", partition=2)
    return structs.replace(held, **fields)


def numbered(ordinal: int, revision: str, spec: PodSpec, **labels: str) -> Pod:
    named = {"app": "web", "controller-revision-hash": f"web-{revision}", **labels}
    return pod(named, on="a", owner=OWNER, spec=spec, name=f"web-{ordinal}", uid=f"u{ordinal}")


def made_for(evicted: Pod, owner: Workload, *others: Pod) -> Pod | Unpredictable:
    return replacement(evicted, View(snapshot([node("a")], [evicted, *others], workloads=[owner])))


@pytest.mark.parametrize(("first", "ordinal"), [(0, 0), (0, 1), (7, 8)])
def test_a_pod_below_it_comes_back_as_it_is(first: int, ordinal: int) -> None:
    evicted = numbered(ordinal, "1", OLD, tier="old")
    made = made_for(evicted, a_set(first_ordinal=first))
    assert isinstance(made, Pod)
    assert (made.spec, made.labels["controller-revision-hash"], made.labels["tier"]) == (OLD, "web-1", "old")


@pytest.mark.parametrize(
    ("ordinal", "fields"),
    [(2, {}), (9, {"first_ordinal": 7}), (1, {"current_revision": ""}), (1, {"on_delete": True})],
    ids=["at the partition", "counted from the first ordinal", "no current revision", "under OnDelete"],
)
def test_another_pod_comes_back_with_the_newest_template(ordinal: int, fields: dict[str, Any]) -> None:
    made = made_for(numbered(ordinal, "1", OLD, tier="old"), a_set(**fields))
    assert isinstance(made, Pod)
    assert (made.spec.requests, made.labels["controller-revision-hash"]) == (NEW.requests, "web-2")
    assert made.labels["tier"] == "new"


def test_a_pod_of_its_revision_shows_the_template_of_one_that_has_another() -> None:
    newer, older = numbered(0, "2", NEW), numbered(1, "1", OLD)
    made = made_for(newer, a_set(), older)
    assert isinstance(made, Pod)
    assert (made.name, made.spec, made.labels["controller-revision-hash"]) == ("web-0", OLD, "web-1")


def test_where_no_pod_shows_its_template_the_replacement_is_not_known() -> None:
    """It is in a ControllerRevision, which is not read; what the newest template is does not matter."""
    made = made_for(numbered(0, "2", NEW), a_set())
    assert isinstance(made, Unpredictable)
    assert "web-1" in made.message


def test_where_all_pods_of_its_revision_were_resized_its_requests_are_not_known() -> None:
    resized = [structs.replace(numbered(ordinal, "1", OLD), generation=2) for ordinal in (0, 1)]
    made = made_for(resized[0], a_set(), resized[1])
    assert isinstance(made, Unpredictable)
    assert "were changed in place" in made.message
    assert isinstance(made_for(resized[0], a_set(), numbered(1, "1", OLD)), Pod)


def test_what_the_api_server_would_refuse_of_the_newest_template_concerns_no_pod_below_it() -> None:
    refused = PodSpec(spread=(structs.replace(spread(HOSTNAME, selects=WEB), match_label_keys=("app",)),))
    owner = a_set(template=PodTemplate(labels=Labels({"app": "web"}), spec=refused))
    assert isinstance(made_for(numbered(0, "1", OLD), owner), Pod)
    above = made_for(numbered(2, "2", NEW), owner)
    assert isinstance(above, Unpredictable)
    assert above.reason is Reason.TEMPLATE_REFUSED
