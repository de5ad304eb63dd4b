"""Plan and report say in one line how many pods local volumes hold, and how to let them go."""

import pytest
from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.documents.plan import plan_document
from rebalancer.documents.plan_notes import find_notes, local_storage_line
from rebalancer.documents.report import report_document
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.pods import LocalStorage, LocalVolume
from rebalancer.reporting.text.plan import plan_text
from rebalancer.reporting.text.report import report_text
from rebalancer.scheduling.view import View
from tests.planning.clusters import planned, pods, policy, returned

CACHE = LocalVolume("cache", LocalStorage.EMPTY_DIR)
LOGS = LocalVolume("logs", LocalStorage.HOST_PATH)
SAFE = 'cluster-autoscaler.kubernetes.io/safe-to-evict: "true".'


@pytest.mark.parametrize(
    ("held", "line"),
    [
        (0, ""),
        (
            1,
            (
                "LocalStorage: 1 pod is not evicted because of local volumes. To allow it, set "
                f"eligibility.localStorage.emptyDir to Allow in the policy, or annotate the pod {SAFE}"
            ),
        ),
        (
            2,
            (
                "LocalStorage: 2 pods are not evicted because of local volumes. To allow it, set "
                "eligibility.localStorage.emptyDir and .hostPath to Allow in the policy, or annotate "
                f"the pods {SAFE}"
            ),
        ),
    ],
)
def test_one_line_says_how_many_pods_are_held_and_how_to_allow_them(held: int, line: str) -> None:
    """Once for the whole plan, with every field that matters; without such pods there is no line."""
    volumes = {pod.uid: volume for pod, volume in zip(returned().pods[:held], (CACHE, LOGS), strict=False)}
    snapshot = pods(
        returned(), lambda pod: structs.replace(pod, local_volumes=(volumes[pod.uid],)) if pod.uid in volumes else pod
    )
    plan, view = planned(snapshot), View(snapshot)
    assessment = assess(view, policy(), NO_MEMORY)
    document = report_document(assessment, plan, {}, ())
    for text in (
        plan_text(plan_document(plan, snapshot, beside=find_notes(plan, assessment), acting="mode Evict")),
        report_text(document, local_storage_line(plan.refusals)),
    ):
        assert [row for row in text.splitlines() if "not evicted because of local" in row] == [line] * bool(line)
