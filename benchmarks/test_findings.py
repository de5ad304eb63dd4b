"""What findings cost on top of the judgement. Run: `python -m pytest benchmarks/test_findings.py -s`.

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


@pytest.mark.parametrize("zone", [None, "z2"], ids=["all zones", "a cordoned zone"])
def test_findings_cost_no_more_than_the_judgement(full: Snapshot, zone: str | None) -> None:
    """Whether nothing is blocked or everything is, in the time of a judgement or two."""
    names = [node.name for node in full.nodes if zone and zone in node.labels.values()]
    snapshot = cordoned(full, *names)
    assessed = assess(View(snapshot), default_policy(), NO_MEMORY)
    judging = seconds(lambda: assess(View(snapshot), default_policy(), NO_MEMORY), times=1)
    unmatched = find_unmatched(View(snapshot), assessed, default_policy())
    finding = seconds(lambda: find_findings(View(snapshot), assessed, unmatched), times=1)
    number = len(find_findings(View(snapshot), assessed, unmatched))
    print(f"\nfindings {finding:.2f} s of an assessment of {judging:.2f} s: {number} found")
    assert finding < judging
