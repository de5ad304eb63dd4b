"""Records what the planner decides for the drawn states, and compares two records.

`record FILE` writes a line for each state. It has the state's name and, as JSON without messages, the evictions, the
waiting evictions, each group's state, reason, bounds and known counts, and the refusals. Every state is planned twice:
without memory, and with a possible memory of each group. `compare OLD NEW` names the states whose decisions differ.

`digest FILE` prints a record with a digest in place of each decision. `tests/planning/decisions.txt` is such a record,
and `compare` accepts it as OLD. A change that is meant to decide otherwise renews it.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from rebalancer.adapters.files import read_snapshot
from rebalancer.documents.document import to_json
from rebalancer.documents.plan import plan_document
from rebalancer.engine import evaluate
from rebalancer.model.cluster import NEWEST
from rebalancer.model.moves import NO_MEMORY, ExtraEviction, FailedPrediction, Memory, Move
from rebalancer.model.reasons import Cause
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Plan
from rebalancer.policy import Policy, default_policy, load_policy
from tools.decisions.states import NOW, DrawnState, drawn_states

_EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def _planned(snapshot: Snapshot, policy: Policy, memory: Memory) -> Plan:
    return evaluate(snapshot, policy, memory=memory).plan


def _decision(made: Plan, snapshot: Snapshot) -> dict[str, Any]:
    """Return what a plan decides, without its words."""
    document = json.loads(to_json(plan_document(made, snapshot)))
    groups = [
        {key: group.get(key) for key in ("evictions", "lowerBound", "optimal", "state", "reason", "before", "after")}
        for group in document["groups"]
    ]
    for group in groups:
        group["before"], group["after"] = _held(group["before"]), _held(group["after"])
    return {
        "evictions": [
            [entry["step"], entry["pod"], entry["reason"], entry["predicted"]["forced"], entry["predicted"]["domains"]]
            for entry in document["evictions"]
        ],
        "waiting": [[entry["pod"], entry["for"]] for entry in document["waiting"]],
        "groups": groups,
        "refusals": [[entry["workload"], entry["pod"], entry["reason"]] for entry in document["refusals"]],
    }


def _held(counts: Mapping[str, Mapping[str, int]] | None) -> dict[str, dict[str, int]]:
    """Return the counts of the domains that hold pods."""
    return {key: {value: n for value, n in held.items() if n} for key, held in (counts or {}).items()}


def _memory(state: DrawnState, made: Plan, now: datetime) -> Memory:
    """Return what might be remembered of the groups of a plan."""
    names = [group.name for group in made.components]
    lately = now - timedelta(seconds=30)
    failed = tuple(
        FailedPrediction(name, state.failed_predictions, lately) for name in names if state.failed_predictions
    )
    extras = tuple(ExtraEviction(group.name, max(0, group.evictions - 1)) for group in made.components if state.extra)
    moves = tuple(
        Move(
            uid=f"gone-{number}",
            namespace=group.component.namespace,
            pod="gone",
            node="",
            workload=group.workloads[0],
            owner_uid="",
            group=group.name,
            cause=Cause.SKEW_VIOLATED,
            requested_at=lately,
            changed_at=lately,
        )
        for number, group in enumerate(made.components)
        if state.moving and group.workloads
    )
    return Memory(moves=moves, failed_predictions=failed, extra_evictions=extras)


def decisions(part: int = 1) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the name of each state and what is decided for it."""
    now = datetime.fromisoformat(NOW)
    for state in drawn_states(part):
        snapshot, _ = read_snapshot(state.objects, version=NEWEST, at=now, source=state.name)
        policy = load_policy(state.policy, source=state.name)
        made = _planned(snapshot, policy, NO_MEMORY)
        yield state.name, _decision(made, snapshot)
        if state.failed_predictions or state.extra or state.moving:
            memory = _memory(state, made, now)
            yield f"{state.name}/remembered", _decision(_planned(snapshot, policy, memory), snapshot)
    for path in sorted(_EXAMPLES.glob("*.json")):
        snapshot, _ = read_snapshot(path.read_bytes(), version=NEWEST, at=None, source=path.name)
        limits = load_policy((_EXAMPLES / "limits.yaml").read_bytes(), source="limits.yaml")
        for name, policy in (("default", default_policy()), ("limits", limits)):
            yield f"{path.name}/{name}", _decision(_planned(snapshot, policy, NO_MEMORY), snapshot)


def line_of(name: str, decision: Mapping[str, Any]) -> str:
    """Write one state's decision down."""
    return f"{name}\t{json.dumps(decision, sort_keys=True, separators=(',', ':'))}\n"


def read_record(path: Path) -> dict[str, str]:
    """Read a record: the decision as text by the name of the state."""
    decisions_by_state: dict[str, str] = {}
    for line in path.read_text().splitlines():
        name, decision = line.split("\t", 1)
        decisions_by_state[name] = decision
    return decisions_by_state


def digest(decision: str) -> str:
    """Return 16 hex digits that stand for a decision."""
    return hashlib.sha256(decision.encode()).hexdigest()[:16]


def differing(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return the names of the states that only one record has, or that are decided otherwise; `old` may be digests."""
    return [name for name in {**old, **new} if new.get(name) != old.get(name) != _digest_of(new, name)]


def _digest_of(record: Mapping[str, str], name: str) -> str | None:
    return digest(record[name]) if name in record else None


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.decisions.record", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    record = verbs.add_parser("record", help="plan every drawn state and write what is decided")
    record.add_argument("file", type=Path)
    record.add_argument("--part", type=int, default=1, help="draw one of so many states only")
    compare = verbs.add_parser("compare", help="exit 1 if two records differ, and name the states")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    printed = verbs.add_parser("digest", help="print a record with digests")
    printed.add_argument("file", type=Path)
    args = parser.parse_args()
    if args.verb == "digest":
        for name, decision in read_record(args.file).items():
            print(f"{name}\t{digest(decision)}")
        return 0
    if args.verb == "record":
        with args.file.open("w") as out:
            for name, plan in decisions(args.part):
                out.write(line_of(name, plan))
        return 0
    old, new = read_record(args.old), read_record(args.new)
    names = differing(old, new)
    for name in names[:20]:
        print(f"{name}\n  old {old.get(name)}\n  new {new.get(name)}")
    print(f"{len(old)} decisions before, {len(new)} after, {len(names)} differ")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
