"""What a process shows while another process leads: the leader's stored status, and its own evaluation.

Like `rebalancer plan`, it evaluates its own view of the cluster with the memory that the leader has stored. Evictions
that wait in the stored status wait here, too. Nothing is sent or written. It evaluates only on demand, once per stored
status or after an interval.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final, NamedTuple

import msgspec

from rebalancer.account.account import Account
from rebalancer.account.numbers import group_numbers
from rebalancer.admission.admit import find_common_obstacle
from rebalancer.admission.lasting import find_approved
from rebalancer.assessment.findings import find_findings
from rebalancer.assessment.unmatched import find_unmatched
from rebalancer.capacity.evaluated import evaluate_once
from rebalancer.controller.state import Clocks, InForce
from rebalancer.documents.document import workload_name
from rebalancer.documents.memory import parse_memory
from rebalancer.documents.next_cycle import find_context, foretell
from rebalancer.documents.overview import Overview
from rebalancer.documents.page import FollowedStatus, PageSource
from rebalancer.documents.state_reasons import StateReasons
from rebalancer.documents.status import StatusDocument
from rebalancer.engine import Evaluation
from rebalancer.model.facts import Refusal
from rebalancer.model.moves import NO_MEMORY, Memory, Move
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import find_relaxations
from rebalancer.policy import Policy
from rebalancer.ports import MEMORY_KEY, STATUS_KEY, ReadFailedError
from rebalancer.prevention.findings import find_scale_down_findings

_READ_SECONDS: Final = 1.0
"""Seconds between two reads of the stored status, for any number of readers."""

_SERVES_SECONDS: Final = 10.0
"""How many seconds the last read is used while the API server does not answer."""

_REASONS: Final = frozenset(Reason)


@dataclass(frozen=True)
class _Stored:
    """What the leader has stored, as text and decoded."""

    texts: Mapping[str, str]
    status: StatusDocument

    @cached_property
    def memory(self) -> Memory | None:
        """The memory; None if this version cannot read it."""
        text = self.texts.get(MEMORY_KEY, "")
        memory = parse_memory(text)
        return None if memory is NO_MEMORY and text.strip() else memory


class _Evaluated(NamedTuple):
    """An evaluation for the page, its inputs, and its time by the monotonic clock."""

    stored: _Stored
    policy: Policy
    at: float
    evaluation: Evaluation
    source: PageSource


class Followed(NamedTuple):
    """The leader's stored status, and this process's own evaluation, None if there is none."""

    status: StatusDocument
    source: PageSource | None
    follows: FollowedStatus


class Follower:
    """Reads and evaluates on demand; from any thread.

    `read_stored` returns the documents of the status ConfigMap by their keys, or raises ReadFailedError. `read_cluster`
    returns what the watches have received. `find_staleness` says why that is out of date, "" if it is not.
    """

    def __init__(
        self,
        *,
        read_stored: Callable[[], Mapping[str, str]],
        read_cluster: Callable[[datetime], Snapshot],
        find_staleness: Callable[[], str],
        clocks: Clocks,
    ) -> None:
        self._read_stored = read_stored
        self._read_cluster = read_cluster
        self._find_staleness = find_staleness
        self._clocks = clocks
        self._looking = threading.Lock()
        self._stored: _Stored | None = None
        self._tried_at: float | None = None
        self._read_at = 0.0
        self._unread = ""
        self._evaluated: _Evaluated | None = None

    def forget(self) -> None:
        """Forget all reads and evaluations, because this process leads now."""
        self._evaluated = self._stored = self._tried_at = None

    def look(self, in_force: InForce) -> Followed | None:
        """Return what to show under the policy in force, None if no status is stored."""
        with self._looking:
            self._read()
            stored = self._stored
            if stored is None:
                return None
            problem = self._find_problem(stored, in_force)
            evaluated = None if problem else self._evaluate(stored, in_force)
        status = stored.status
        made_at = evaluated.evaluation.inputs.snapshot.taken_at if evaluated is not None else None
        as_of = status.as_of or status.last_cycle
        follows = FollowedStatus(leader=status.leader, as_of=as_of, evaluated_at=made_at, problem=problem)
        return Followed(status, evaluated.source if evaluated is not None else None, follows)

    def _read(self) -> None:
        """Read what the leader has stored, unless that was read a moment ago."""
        now = self._clocks.monotonic()
        if self._tried_at is not None and now - self._tried_at < _READ_SECONDS:
            return
        try:
            texts = self._read_stored()
            self._unread = ""
        except ReadFailedError as error:
            self._unread = str(error)
            return
        finally:
            self._tried_at = self._clocks.monotonic()  # it may have waited for the API server
        self._read_at = self._tried_at
        if self._stored is None or self._stored.texts != texts:
            self._stored = self._decode(texts)

    def _decode(self, texts: Mapping[str, str]) -> _Stored | None:
        text = texts.get(STATUS_KEY, "")
        if not text.strip():
            return None
        try:
            return _Stored(texts, msgspec.json.decode(text, type=StatusDocument))
        except msgspec.DecodeError:  # of another version: later words would not be the leader's
            return None

    def _find_problem(self, stored: _Stored, in_force: InForce) -> str:
        """Say why no evaluation fits the stored status, "" if one does."""
        own, leaders = in_force.policy.cluster.hash, stored.status.policy.hash
        if self._unread and self._clocks.monotonic() - self._read_at > _SERVES_SECONDS:
            return f"the stored status cannot be read: {self._unread}"
        if own != leaders:
            return f"the stored status is by policy {leaders}, this replica has read {own}"
        if stored.memory is None:
            return "what the leader has stored of its moves cannot be read by the version of this replica"
        return self._find_staleness()

    def _evaluate(self, stored: _Stored, in_force: InForce) -> _Evaluated:
        now, known = self._clocks.monotonic(), self._evaluated
        if (
            known is not None
            and known.stored is stored
            and known.policy is in_force.policy
            and now - known.at < in_force.policy.interval.total_seconds()
        ):
            return known
        self._evaluated = made = self._make(stored, in_force)
        return made

    def _make(self, stored: _Stored, in_force: InForce) -> _Evaluated:
        memory = stored.memory or NO_MEMORY
        policy, snapshot = in_force.policy, self._read_cluster(self._clocks.now())
        evaluation = evaluate_once(snapshot, policy, in_force.profile, memory)
        view, assessment, plan = evaluation.view, evaluation.assessment, evaluation.plan
        unmatched = find_unmatched(view, assessment, policy)
        scale_downs = find_scale_down_findings(view, assessment, policy, snapshot.taken_at)
        relaxations = find_relaxations(plan)
        source = PageSource(
            evaluation=evaluation,
            account=_find_account(evaluation, stored.status, memory.moves),
            overview=Overview(assessment, plan, StateReasons(plan, relaxations)),
            memory=memory,
            findings=(*find_findings(view, assessment, unmatched), *scale_downs),
            relaxations=relaxations,
        )
        return _Evaluated(stored, policy, self._clocks.monotonic(), evaluation, source)


def _find_account(evaluation: Evaluation, status: StatusDocument, moves: Sequence[Move]) -> Account:
    """Return the account of a plan: evictions that the leader's admission lets go, unless the stored status holds them.

    `moves` are the moves of the status.
    """
    plan, context = evaluation.plan, find_context(evaluation, status)
    common, stored = find_common_obstacle(context), _find_waits(plan, status)
    approved = find_approved(plan, evaluation.inputs.memory, context.mode)
    fates = foretell(evaluation, status).begin({move.uid for move in moves if move.in_flight})
    fates = fates.hold(lambda eviction: stored.get(eviction.group) or common)
    return Account(
        plan=plan,
        numbers=group_numbers(plan),
        fates=fates,
        moves=moves,
        common=common,
        approved=approved.components if approved is not None else None,
        rights=context.rights,
    )


def _find_waits(plan: Plan, status: StatusDocument) -> Mapping[str, Refusal]:
    """Return why repairs wait, as the leader has stored it, by the names of their components."""
    # A newer leader may have unknown reasons; stuck repairs have no waiting eviction.
    known = (wait for wait in status.waits if wait.reason in _REASONS and not wait.stuck)
    waits = {(wait.namespace, wait.workloads): wait.refusal for wait in known}
    keys = {one.name: (one.component.namespace, tuple(map(workload_name, one.workloads))) for one in plan.components}
    return {name: waits[key] for name, key in keys.items() if key in waits}
