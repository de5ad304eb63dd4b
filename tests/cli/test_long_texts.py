"""A text of any length, wherever the API server takes one, makes no document, finding or warning any longer."""

import re
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from rebalancer.adapters.files import UnreadableSnapshot, read_snapshot
from rebalancer.documents.document import to_json
from rebalancer.documents.plan import plan_document
from rebalancer.engine import evaluate
from rebalancer.model.cluster import NEWEST
from rebalancer.policy import default_policy
from tests.drawing import sampled
from tests.hostile import encoded, ordinary_cluster, places, with_text
from tests.reports import all_findings

BOUNDED: Final = re.compile(
    r"metadata\.(name|namespace|uid|labels\{(key\})?)|"  # names, UIDs, keys and values of labels
    r"(requests|limits|overhead|podFixed|allocat\w+|capacity|hard|used|target)\{|(max|min|default)\w*\{|"  # amounts
    r"minAvailable|claimName|podGroupName|spec\.os\.name|effect$"
)
"""Places whose text the API server itself bounds, as a DNS name, a label, a resource, a quantity or one of a list."""

LENGTH: Final = 100_000
MORE: Final = 30_000
"""Characters by which everything together may grow: each of its objects may name a text that was cut."""

ORDINARY: Final = ordinary_cluster()
PLACES: Final = {path: place for path, place in places().items() if not BOUNDED.search(path)}


def size(document: dict[str, Any]) -> int:
    """Return the characters of the warnings, the plan, the findings and the names of what is assessed."""
    at = datetime(2026, 11, 1, tzinfo=UTC)
    try:
        snapshot, warnings = read_snapshot(encoded(document), version=NEWEST, at=at, source="f")
    except UnreadableSnapshot as error:  # as of pods that run on nodes which are not there
        return len(str(error))
    made = evaluate(snapshot, default_policy())
    findings = all_findings(made.view, made.assessment, made.inputs.policy)
    return (
        sum(map(len, warnings))
        + len(to_json(plan_document(made.plan, snapshot)))
        + sum(len(f"{finding.object}{finding.message}{finding.workloads}") for finding in findings)
        + sum(len(group.spread.name) for group in made.assessment.groups)
    )


USUAL: Final = size(ORDINARY)


@pytest.mark.parametrize("path", sampled(PLACES))
def test_a_long_text_makes_nothing_long(path: str) -> None:
    """It is cut where it is read, or what has it is left out with a warning of usual length."""
    kind, place = PLACES[path]
    assert size(with_text(ORDINARY, kind, place, "x" * LENGTH)) <= USUAL + MORE
