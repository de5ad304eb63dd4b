"""The file `approval.yaml`: what it says is read strictly, and whatever cannot be understood approves nothing."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.admission.written import (
    MOST_EVICTIONS,
    NOTHING_WRITTEN,
    WholeApproval,
    Written,
    format_approval,
    read_written,
)

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
PLAN = "0123456789abcdef"
NINE = WholeApproval(plan=PLAN, evictions=9, until=NOON)
TEXT = f"plan: {PLAN}\nevictions: 9\nuntil: 2026-01-31T12:00:00Z\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TEXT, NINE),
        (
            f'{{"plan": "{PLAN}", "evictions": 9, "until": "2026-01-31T13:00:00+01:00", "by": " ada\\n"}}',
            structs.replace(NINE, by="ada"),
        ),
        (
            TEXT + "by: null\nworkloads:\n- Shop/Deployment/web\n",
            structs.replace(NINE, workloads=("shop/deployment/web",)),
        ),
        (TEXT + "namespaces: [shop, bank]\n", structs.replace(NINE, namespaces=("shop", "bank"))),
        (TEXT.replace(PLAN, "1234567812345678"), structs.replace(NINE, plan="1234567812345678")),
        (TEXT.replace(PLAN, "0000000000000017"), structs.replace(NINE, plan="0000000000000017")),
        ("", None),
        (" \n", None),
    ],
)
def test_what_is_written_is_read(text: str, expected: WholeApproval | None) -> None:
    """In YAML or JSON; a hash of digits is a text, and an empty file approves nothing without being wrong."""
    assert read_written(text) == Written(approval=expected)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("plan: [", "expected"),
        ("9", "Expected `object`"),
        ("{}", "`plan`"),
        (TEXT.replace(PLAN, "0123"), "$.plan"),
        (TEXT.replace("evictions: 9\n", ""), "`evictions`"),
        (TEXT.replace("until: 2026-01-31T12:00:00Z\n", ""), "`until`"),
        (TEXT.replace("evictions: 9", "evictions: 0"), "$.evictions"),
        (TEXT.replace("evictions: 9", "evictions: -1"), "$.evictions"),
        (TEXT.replace("evictions: 9", "evictions: 9.0"), "$.evictions"),
        (TEXT.replace("evictions: 9", "evictions: true"), "$.evictions"),
        (TEXT.replace("evictions: 9", f"evictions: {MOST_EVICTIONS + 1}"), "expected at most 1000"),
        (TEXT.replace("T12:00:00Z", ""), "RFC3339"),
        (TEXT.replace("T12:00:00Z", "T12:00:00"), "timezone"),
        (TEXT.replace("2026-01-31T12:00:00Z", "1769860800"), "RFC3339"),
        (TEXT + "workloads: []\n", "workloads is empty"),
        (TEXT + "namespaces: []\n", "namespaces is empty"),
        (TEXT + "workloads: [web]\n", "$.workloads"),
        (TEXT + "workloads: shop/deployment/web\n", "$.workloads"),
        (TEXT + "namespaces: ['*']\n", "$.namespaces"),
        (TEXT + "forever: true\n", "forever"),
        (TEXT + "evictions: 90\n", "evictions is there twice"),
        (TEXT + "#" * 70_000, "expected at most 65,536"),
    ],
)
def test_what_cannot_be_read_approves_nothing(text: str, why: str) -> None:
    """And says what is wrong."""
    written = read_written(text)
    assert (written.approval, written.id) == (None, "")
    assert written.problem.startswith("approval.yaml cannot be read, so it approves nothing. Fix or remove it: ")
    assert why in written.problem


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_is_read_or_refused(text: str) -> None:
    written = read_written(text)
    assert written == NOTHING_WRITTEN or written.problem or written.approval is not None


names = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3, unique=True).map(tuple)
approvals = st.builds(
    WholeApproval,
    plan=st.text("0123456789abcdef", min_size=16, max_size=16),
    evictions=st.integers(1, MOST_EVICTIONS),
    until=st.integers(0, 10**9).map(lambda seconds: NOON + timedelta(seconds=seconds)),
    workloads=names.map(lambda drawn: tuple(f"{name}/deployment/{name}" for name in drawn)),
    namespaces=names,
    by=st.sampled_from(["", "ada", "system:serviceaccount:ci:bot"]),
)


@given(approvals)
def test_what_the_command_writes_is_read_again(approval: WholeApproval) -> None:
    assert read_written(format_approval(approval)) == Written(approval=approval)


@given(approvals, approvals)
def test_an_identity_is_all_that_is_approved(one: WholeApproval, other: WholeApproval) -> None:
    """Whoever wrote it, in whichever order and time zone; and nothing else has it."""
    same = structs.replace(
        one,
        by="somebody else",
        until=one.until.astimezone(timezone(timedelta(hours=5, minutes=45))),
        workloads=one.workloads[::-1],
        namespaces=one.namespaces[::-1],
    )
    assert same.id == one.id
    known = [
        (item.plan, item.evictions, item.until, sorted(item.workloads), sorted(item.namespaces))
        for item in (one, other)
    ]
    assert (one.id == other.id) == (known[0] == known[1])


@pytest.mark.parametrize(
    ("fields", "included"),
    [
        ({}, {"shop/deployment/web", "shop/deployment/api", "bank/deployment/web"}),
        ({"workloads": ("shop/deployment/web",)}, {"shop/deployment/web"}),
        ({"namespaces": ("shop",)}, {"shop/deployment/web", "shop/deployment/api"}),
        (
            {"workloads": ("bank/deployment/web",), "namespaces": ("shop",)},
            {"shop/deployment/web", "shop/deployment/api", "bank/deployment/web"},
        ),
        ({"namespaces": ("sho",)}, set()),
    ],
)
def test_workloads_and_namespaces_restrict_it(fields: dict[str, tuple[str, ...]], included: set[str]) -> None:
    """To these workloads, and to all of these namespaces."""
    known = ("shop/deployment/web", "shop/deployment/api", "bank/deployment/web")
    assert {name for name in known if structs.replace(NINE, **fields).includes(name)} == included
