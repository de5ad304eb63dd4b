"""What findings cost on top of the assessment. Run: `python -m pytest benchmarks/test_findings.py -s`.

150,000 pods of 5,000 Deployments on 5,000 nodes, placed at random: nearly every workload is violated.
"""

import pytest

from benchmarks.test_limits import full
from benchmarks.timing import seconds
from rebalancer.assessment.assess import assess
from rebalancer.assessment.findings import find_findings
from rebalancer.assessment.unmatched import find_unmatched
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import default_policy
from rebalancer.scheduling.view import View
from tests.assessment.findings.build import cordoned

__all__ = ["full"]  # a fixture


@pytest.mark.parametrize(("zone", "most"), [(None, 3), ("z2", 10)], ids=["all zones", "a cordoned zone"])
def test_findings_cost_a_few_assessments(full: Snapshot, zone: str | None, most: int) -> None:
    """As in a process: on the view that was assessed. An assessment evaluates equal workloads once, findings each.

    Where something is blocked, it is said of the first workloads why each node rejects a pod of theirs: a bounded part.
    """
    names = [node.name for node in full.nodes if zone and zone in node.labels.values()]
    view, policy = View(cordoned(full, *names)), default_policy()
    assessing = seconds(lambda: assess(view, policy, NO_MEMORY), times=1)
    assessed = assess(view, policy, NO_MEMORY)
    unmatched = find_unmatched(view, assessed, policy)
    finding = seconds(lambda: find_findings(view, assessed, unmatched), times=1)
    number = len(find_findings(view, assessed, unmatched))
    print(f"\nfindings {finding:.2f} s, {finding / assessing:.1f} times an assessment of {assessing:.2f} s: {number}")
    assert finding < most * assessing
