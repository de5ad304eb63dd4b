"""A command and the controller make the same plan, byte for byte."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.adapters.files import read_snapshot
from rebalancer.capacity.evaluated import evaluate_once
from rebalancer.cli.main import main
from rebalancer.documents.document import json_chunks
from rebalancer.documents.plan import plan_document
from rebalancer.documents.plan_notes import find_notes
from rebalancer.model.cluster import NEWEST
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.planner import find_relaxations
from rebalancer.policy import Capacity, CapacityMode, Mode, Policy, Topology, default_policy, load_policy
from rebalancer.reporting.acting import describe_mode, find_idle
from rebalancer.scheduling.profile import DEFAULT_PROFILE
from rebalancer.simulator import ZONE
from tests.capacity.test_gate import placeholder
from tests.capacity.test_gate import snapshot as gated
from tests.capacity.test_needs import two_zones
from tests.controller.cycles import cycle_of
from tests.controller.simulated import eager
from tests.deploy.manifests import ROOT
from tests.drawing import examples
from tests.reporting.test_plan_numbers import clusters

EXAMPLE = ROOT / "docs" / "examples" / "zone-returned.json"
LIMITS = ROOT / "docs" / "examples" / "limits.yaml"
ALL_ZONES = Topology(domains={ZONE: ("a", "b", "c")})


def printed(snapshot: Snapshot, policy: Policy) -> str:
    """Return what `rebalancer plan -o json` prints of a cluster."""
    evaluation = evaluate_once(snapshot, policy, DEFAULT_PROFILE)
    made = evaluation.plan
    notes, acting = find_notes(made, evaluation.assessment), describe_mode(policy.mode)
    idle = find_idle(policy.mode)
    document = plan_document(made, evaluation.inputs.snapshot, find_relaxations(made), notes, acting=acting, idle=idle)
    return "".join(json_chunks(document))


@given(
    clusters(),
    st.sampled_from([CapacityMode.OFF, CapacityMode.OBSERVE]),
    st.sampled_from([Mode.OBSERVE, Mode.EVICT]),
)
@examples(40)
def test_without_memory_command_and_controller_plan_the_same(
    cluster: tuple[Snapshot, Policy], capacity: CapacityMode, mode: Mode
) -> None:
    """Whether capacity is off or observed.

    In mode Approve the controller shows the plan that it proposes; in mode Request it says how long it waits.
    """
    snapshot, policy = cluster
    policy = policy.model_copy(update={"mode": mode, "capacity": Capacity(mode=capacity), "topology": ALL_ZONES})
    assert printed(snapshot, policy) == cycle_of(snapshot, policy).plan_json


def test_both_say_what_capacity_a_repair_lacks() -> None:
    """The same reasons, in the same order, where a zone has no nodes at all."""
    policy = eager(topology=ALL_ZONES, capacity=Capacity(mode=CapacityMode.OBSERVE))
    snapshot = two_zones({ZONE: 1})
    text = printed(snapshot, policy)
    assert Reason.AWAITING_CAPACITY in text
    assert text == cycle_of(snapshot, policy).plan_json


def test_both_leave_placeholders_out() -> None:
    """Pods that hold the only free node of a zone: the plan counts on that node as if it were free."""
    policy = eager(capacity=Capacity(mode=CapacityMode.OBSERVE, namespace="capacity"))
    free = gated()
    full = replace(free, pods=(*free.pods, *(placeholder(f"p-{number}", free) for number in range(4))))
    assert printed(full, policy) == cycle_of(full, policy).plan_json == printed(free, policy)


@pytest.mark.parametrize("file", [None, LIMITS])
def test_what_is_printed_is_the_controllers_document(file: object, capsys: pytest.CaptureFixture[str]) -> None:
    """The command itself, over the example of the documentation; what a lost zone leaves it says besides."""
    policy = default_policy() if file is None else load_policy(LIMITS.read_bytes(), source="limits.yaml")
    flags = [] if file is None else ["--policy", str(LIMITS)]
    assert main(["plan", "--snapshot", str(EXAMPLE), "-o", "json", *flags]) == 0
    snapshot, _ = read_snapshot(EXAMPLE.read_bytes(), version=NEWEST, at=None, source=EXAMPLE.name)
    own, stored = (json.loads(text) for text in (capsys.readouterr().out, cycle_of(snapshot, policy).plan_json))
    assert stored["resilience"] is None
    assert own.pop("resilience")["rows"]
    assert own == {name: value for name, value in stored.items() if name != "resilience"}
