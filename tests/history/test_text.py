"""Each entry is one line that can be read alone; the document has all that the entry has."""

from datetime import UTC, datetime

from msgspec import structs

from rebalancer.documents.history import (
    HistoryDocument,
    TrendDocument,
    TrendSample,
    entry_text,
    history_document,
    history_entry,
)
from rebalancer.model.history import Entry, EntryKind
from rebalancer.model.moves import MoveState
from rebalancer.reporting.text.history import history_text, trend_text
from rebalancer.reporting.text.layout import TextLayout
from tests.history.build import AT, HISTORY, START, entry, moved

CART = "shop/cart (Deployment)"
EVICTED = f"{CART}: evicted cart-7d4b9c6f5-8xk2f from node-a-1 to repair SkewViolated;"
UNSEEN = "a violation that an earlier leader has stored"
WHETHER = "whether it is satisfied, not required any more, or counted together with others"
TEXTS = [
    "rebalancer-0_1a2b3c4d leads",
    "policy 9f3a in force, changed by field manager helm at 2026-01-05 07:59:00Z",
    "zone c is lost",
    "2 workloads violated, 4 pods above the bounds, largest skew 6",
    "zone c takes pods again, after 10m",
    "zone d has its first node",
    f"{CART}: zone skew 6, maxSkew 1, cause DomainReturned",
    "shop/db (StatefulSet) and 2 more workloads: redis/zone: 6 of 12 pods are in a",
    "12 more workloads began to violate a constraint or limit",
    "paused by alice (declared) until 2026-01-05 10:11:20Z: zone b is upgraded",
    "resumed by bob (declared) after 40s",
    "paused by field manager kubectl-patch at 2026-01-05 08:12:09Z until somebody resumes: no reason given",
    "the pause ended by itself after 10s",
    "plan 0a1b2c3d approved by alice (declared)",
    f"{EVICTED} the replacement on node-c-2 is Ready as predicted in zone c, after about 31s",
    f"{EVICTED} the replacement on node-b-1 is Ready, but not as predicted in zone c, after about 31s",
    f"{EVICTED} no replacement was Ready after about 31s",
    f"{EVICTED} the workload wanted no replacement any more after at most 31s",
    f"{CART}: the eviction of cart-7d4b9c6f5-8xk2f from node-a-1 to repair SkewViolated was refused or not carried out",
    f"{CART}: cart-7d4b9c6f5-8xk2f on node-a-1 was gone before it was evicted",
    "shop/web (Deployment): added 2 pods, then web-1, web-2 went; it took 1m30s",
    (
        "shop/web (Deployment): the surge of 1 pod in place of web-1 has ended: not all pods were Ready within "
        "repair.timeout; the added ones were taken back; it took 1m30s"
    ),
    f"{CART}: satisfied again after 2m20s",
    "a workload that is gone: satisfied again after an unknown time",
    "12 more workloads satisfied constraint or limit again",
    f"{CART}: violated for 2m20s, no longer required: limit redis/zone: the policy has no such limit",
    f"{UNSEEN} is not found after 2m20s: {WHETHER} is not known",
    "not found any more: 12 more violations that an earlier leader has stored",
    "12 more workloads no longer required to satisfy a constraint or limit",
    "policy refused, changed by unknown: policy.yaml:3: unknown field",
    "37 entries dropped, which could not be stored in time",
]


def test_what_each_entry_says() -> None:
    """To the letter; of a kind that a later release has stored there is the kind."""
    assert [entry_text(entry) for entry in HISTORY] == TEXTS
    assert entry_text(Entry(seq=1, at=AT, kind="Later", what="more")) == "Later more"


def test_the_document_of_an_entry() -> None:
    """Times, duration, and whether somebody has declared it."""
    document = history_entry(moved(800, MoveState.VERIFIED, replacement_node="node-c-2"))
    assert document.seconds == 31
    assert document.workload is not None
    assert (document.workload.kind, document.workload.name, document.uid[:8]) == ("Deployment", "cart", "0f5e3c1e")
    every = [history_entry(entry) for entry in HISTORY]
    assert [one.who for one in every if one.declared] == ["alice", "bob", "alice"]
    assert [one.who for one in every if one.manager] == ["helm", "kubectl-patch"]
    assert [one.kind for one in every if one.outcome] == [
        *["Moved"] * 4,
        "Refused",
        "Gone",
        *["Surged"] * 2,
    ], "no pod was evicted"
    assert [one.seconds for one in every if one.kind == "Paused"] == [None, None]
    assert every[0].at == START


def test_the_table() -> None:
    """The newest last; the kind has the colour of what it means, and nothing else has one."""
    lines = history_text(history_document(HISTORY, total=99)).splitlines()
    assert lines[0].split() == ["TIME", "KIND", "WHAT"]
    assert lines[-1] == f"2026-01-05 08:13:50Z  Dropped           {TEXTS[-1]}"
    painted = history_text(history_document(HISTORY[14:16], total=99), TextLayout(color=True)).splitlines()
    assert "\x1b[32mMoved\x1b[0m" in painted[1]
    assert "\x1b[33mMoved\x1b[0m" in painted[2]


def test_nothing_to_show() -> None:
    """Nothing there, or nothing selected."""
    assert history_text(HistoryDocument(entries=(), total=0)) == "No entries: nothing has been recorded yet.\n"
    assert history_text(HistoryDocument(entries=(), total=9)) == "No entries: none of 9 is selected.\n"
    assert trend_text(TrendDocument(samples=())) == "No samples: nothing was violated yet.\n"


def test_the_trend_as_a_table() -> None:
    """A line for each sample."""
    text = trend_text(TrendDocument(samples=(TrendSample(at=START, violated=2, above=4, skew=6),)))
    assert text.splitlines()[1].split() == ["2026-01-05", "08:00:00Z", "2", "4", "6"]


def test_a_move_lasts_until_its_replacement_was_ready_and_not_until_somebody_looked() -> None:
    """The next leader may look long after; of an entry without that time, the time it was seen is the most."""
    seen_late = structs.replace(moved(60, MoveState.VERIFIED), ready=AT + 33)
    document = history_entry(seen_late)
    assert document.text.endswith("is Ready as predicted in zone c, after about 4s")
    assert (document.seconds, document.ready_at) == (4, datetime.fromtimestamp(AT + 33, UTC))
    unknown = history_entry(structs.replace(seen_late, ready=0))
    assert unknown.text.endswith("is Ready as predicted in zone c, after at most 31s")
    assert (unknown.seconds, unknown.ready_at, unknown.at_most, document.at_most) == (31, None, True, False)


def test_a_policy_that_was_in_force_throughout_has_not_changed() -> None:
    """It could not be read for a while, and is there again as it was."""
    put_back = entry(EntryKind.POLICY_CHANGED, what="9f3a", who="unknown", manager="helm", number=1)
    assert history_entry(put_back).text.startswith("policy 9f3a can be read again, put back by ")
    assert history_entry(put_back).text.endswith("; it was in force throughout")
    assert history_entry(structs.replace(put_back, number=0)).text.startswith("policy 9f3a in force, changed by ")
