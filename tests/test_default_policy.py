"""A field that config/policy.yaml lacks is added to it, with its comment and its default; nothing else changes."""

import pytest

from rebalancer.policy import load_policy
from tools.default_policy import with_every_field
from tools.reference import ROOT

TEXT = (ROOT / "config" / "policy.yaml").read_text(encoding="utf-8")
WHOLE_SECTION = TEXT[TEXT.index("nodes:\n") : TEXT.index("# Domains (zones, racks) that exist")]


def test_a_file_with_every_field_stays_as_it_is() -> None:
    assert with_every_field(TEXT) == TEXT


@pytest.mark.parametrize(
    "dropped",
    [
        "interval: 60s\n",
        "  minAge: 5m\n",
        "  perMinute: 60\n",
        "    hostPath: Refuse\n",
        "  remember: 168h\n",
        "  name: default-scheduler\n",
        "  owners: [ReplicaSet, StatefulSet, ReplicationController]\n",
        WHOLE_SECTION,
    ],
)
def test_a_missing_field_is_added_with_its_comment(dropped: str) -> None:
    """It means what it meant; comments of the other fields stay."""
    assert TEXT.count(dropped) == 1
    completed = with_every_field(TEXT.replace(dropped, ""))
    assert load_policy(completed.encode(), source="policy") == load_policy(TEXT.encode(), source="policy")
    assert [line for line in TEXT.splitlines() if line not in completed.splitlines() and line not in dropped] == []
    assert with_every_field(completed) == completed
