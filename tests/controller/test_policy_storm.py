"""A storm of policy edits, with real files, the real parser and the real threads: the last valid policy is in force.

A failure names its seed and the edit; `POLICY_STORM_SEED=… pytest …` repeats it.
"""

import http.client
import os
import queue
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rebalancer.controller import policy_source, team_policies
from rebalancer.controller.loop import step
from rebalancer.controller.policy_source import POLL_SECONDS, PolicyWatcher
from rebalancer.controller.runner import Identity, Runner
from rebalancer.controller.state import (
    ApprovalRead,
    Clocks,
    InForce,
    Leading,
    LoopEvent,
    LoopState,
    ProcessFacts,
    Publish,
)
from rebalancer.controller.team_policies import TeamPolicyReader
from rebalancer.controller.telemetry import Telemetry
from rebalancer.locations import Address
from rebalancer.model.cluster import ConfigMap
from rebalancer.model.events import Event, Regarding
from rebalancer.policy import Amount, load_policy, select_team_namespaces
from rebalancer.simulator import SimulatedCluster
from tests.build import a_cluster, a_state
from tests.controller.policy_storm import HEAD, NAMESPACES, Edits, Meaning, Mount, Reference, TeamEdit
from tests.controller.waiting import until
from tests.drawing import scaled

SEED = int(os.environ.get("POLICY_STORM_SEED", "1"))
EDITS, THREADED = scaled(1_200), scaled(120)
FIRST = HEAD + b"mode: Observe\ninterval: 86399s\n"
MAP = Regarding(kind="ConfigMap", namespace="rebalancer-system", name="rebalancer-policy")


def config_map(edit: TeamEdit | None) -> ConfigMap | None:
    if edit is None or edit.text is None:
        return None
    return ConfigMap(namespace=edit.namespace, name="rebalancer-policy", uid="u", data={"policy.yaml": edit.text})


def check(state: LoopState, reference: Reference, about: str) -> None:
    """Compare the policy in force, and what is reported of it, with the reference."""
    cluster = state.in_force.policy.cluster
    assert int(cluster.interval.total_seconds()) == reference.meaning.nonce, about
    assert str(state.mode) == reference.meaning.mode, about
    assert bool(state.in_force.policy_error) == bool(reference.reason), f"{about}: {state.in_force.policy_error}"
    assert reference.reason in state.in_force.policy_error, about
    for namespace in NAMESPACES:
        budget, suspended = reference.expect_team(namespace)
        rules = state.in_force.policy.rules_of(namespace)
        assert rules.suspended == suspended, f"{about}, {namespace}"
        # A budget above the cluster policy's 10% cannot be compared with it, so each number is in force beside it.
        assert rules.budgets.per_workload == (Amount(value=budget) if budget is not None else None), about
    assert state.in_force.team_problems.keys() == reference.invalid_teams, about


def check_events(events: list[Event], before: LoopState, after: LoopState, about: str) -> None:
    """Each new reason is published once, on the ConfigMap of the policy that it concerns."""
    invalid = {event.regarding.namespace: event.note for event in events if event.reason == "PolicyInvalid"}
    expected = {"rebalancer-system"} if after.in_force.policy_error not in {"", before.in_force.policy_error} else set()
    problems = after.in_force.team_problems.items()
    expected |= {name for name, problem in problems if problem != before.in_force.team_problems.get(name)}
    assert invalid.keys() == expected, about
    assert all(note for note in invalid.values()), about
    if expected & {"rebalancer-system"}:
        assert after.in_force.policy_error[:200] in invalid["rebalancer-system"], about


def test_after_every_edit_the_last_valid_policy_is_in_force(tmp_path: Path) -> None:
    """1,200 edits of a mounted policy and of three team policies, each read once: nothing is missed, nothing kept."""
    random = Random(SEED)
    mount = Mount(tmp_path / "mount")
    mount.write({"policy.yaml": FIRST})
    edits = Edits(random, mount.folder)
    reference = Reference(Meaning("Observe", 86399))
    inbox: queue.SimpleQueue[LoopEvent] = queue.SimpleQueue()
    watcher = PolicyWatcher(
        read=mount.policy.read_bytes, source="policy.yaml", tell=inbox.put, first=FIRST, folders=[mount.folder]
    )
    now = datetime(2026, 1, 1, tzinfo=UTC)
    first = load_policy(FIRST, source="policy.yaml")
    state = a_state(first, now, process=ProcessFacts(policy_object=MAP))

    def read_team(namespace: str) -> ConfigMap | None:
        return config_map(reference.texts.get(namespace))

    def list_teams() -> list[str]:
        return select_team_namespaces(state.in_force.policy.cluster, NAMESPACES, "rebalancer-system")

    reader = TeamPolicyReader(list_namespaces=list_teams, read=read_team, tell=inbox.put)
    kinds: dict[str, int] = {}
    for number in range(EDITS):
        if random.random() < 0.35:
            team_edit = edits.draw_team()
            name = f"team: {team_edit.name}"
            reference.texts[team_edit.namespace] = team_edit
            reader.poll()
            reference.read_teams()
        else:
            edit = edits.draw()
            name = edit.name
            mount.write(edit.files)
            watcher.poll()
            reference.read(edit)
        kinds[name] = kinds.get(name, 0) + 1
        about = f"seed {SEED}, edit {number} ({name})"
        before, events = state, []
        while not inbox.empty():
            state, requests = step(state, inbox.get(), now)
            events += [request.event for request in requests if isinstance(request, Publish)]
        check(state, reference, about)
        check_events(events, before, state, about)
    print(f"seed {SEED}: {EDITS} edits, {dict(sorted(kinds.items()))}")
    assert len(kinds) == 24, "every kind of edit occurred"
    assert min(kinds.values()) >= scaled(5)


class Process:
    """The threads of a process that concern policies, over a simulated cluster: loop, policy, teams, web server."""

    def __init__(self, mount: Mount) -> None:
        self.begun = 0
        """How many reads of the policy's file have begun."""
        self.passes = 0
        """How many passes over the team policies have begun."""
        self._marks = 0
        self.mount = mount
        self.texts: dict[str, TeamEdit] = {}
        cluster = SimulatedCluster(a_cluster("a", 1).snapshot())
        fake = SimpleNamespace(threads=[], watches=[], staleness=lambda: "")
        transport = cast("Any", SimpleNamespace())
        self.telemetry = Telemetry(cast("Any", fake), Address("127.0.0.1", 0), transport, interval=60)
        clocks = Clocks(now=lambda: datetime.now(UTC), monotonic=time.monotonic)
        policy = load_policy(FIRST, source="policy.yaml")
        self.runner = Runner(
            state=LoopState(
                in_force=InForce(policy=policy, policy_since=clocks.now()), process=ProcessFacts(policy_object=MAP)
            ),
            cluster=cluster,
            clocks=clocks,
            observer=self.telemetry,
            may_act=lambda _: True,
            identity=Identity(name="storm", policy_source="storm"),
        )
        self.watcher = PolicyWatcher(
            read=self._read, source="policy.yaml", tell=self.runner.tell, first=FIRST, folders=[mount.folder]
        )
        self.reader = TeamPolicyReader(
            list_namespaces=self._list_teams, read=lambda name: config_map(self.texts.get(name)), tell=self.runner.tell
        )

    def _read(self) -> bytes:
        self.begun += 1
        return self.mount.policy.read_bytes()

    def _list_teams(self) -> list[str]:
        self.passes += 1
        return select_team_namespaces(self.runner.state.in_force.policy.cluster, NAMESPACES, "rebalancer-system")

    def start(self) -> None:
        self.telemetry.watch_threads(self.runner, self.watcher, self.reader)
        self.telemetry.start()
        self.runner.thread.start()
        self.watcher.start()
        self.reader.start()
        self.runner.tell(Leading(leads=True))

    def stop(self) -> None:
        self.watcher.stop()
        self.reader.stop()
        self.watcher.thread.join(10)
        self.reader.thread.join(10)
        self.telemetry.stop()

    def await_read(self) -> None:
        """Wait until the file was read once, from after this call on, and what was read is with the loop."""
        begun = self.begun  # one read may be under way; when the second after it begins, the first has been reported
        until(lambda: self.begun >= begun + 2, "two reads: a thread has ended, or hangs")
        self._await_loop()

    def await_teams(self) -> None:
        """Wait until the team policies were read once, from after this call on."""
        passes = self.passes
        until(lambda: self.passes >= passes + 2, "two passes: a thread has ended, or hangs")
        self._await_loop()

    def _await_loop(self) -> None:
        """Wait until the loop has handled what is in its inbox; an approval of nothing marks the end of it."""
        self._marks += 1
        mark = f"mark {self._marks}"
        self.runner.tell(ApprovalRead(approved=mark))
        until(lambda: self.runner.state.in_force.approved == mark, "the loop")

    def ask(self, path: str) -> tuple[int, str]:
        web = self.telemetry._web
        assert web is not None
        with closing(http.client.HTTPConnection(*web.address, timeout=10)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    assert POLL_SECONDS == 1.0, "a change is seen with the next read, within a second"
    monkeypatch.setattr(policy_source, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(team_policies, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(team_policies, "PAUSE_SECONDS", 0.0)
    mount = Mount(tmp_path / "mount")
    mount.write({"policy.yaml": FIRST})
    made = Process(mount)
    made.start()
    yield made
    made.stop()


def test_the_threads_take_every_edit_and_live_on(process: Process) -> None:
    """With the threads of a process: the first read after an edit takes it, `/healthz` is well, the metric is right."""
    random = Random(SEED)
    edits = Edits(random, process.mount.folder)
    reference = Reference(Meaning("Observe", 86399))
    for number in range(THREADED):
        if random.random() < 0.3:
            team_edit = edits.draw_team()
            name = f"team: {team_edit.name}"
            reference.texts[team_edit.namespace] = team_edit
            process.texts[team_edit.namespace] = team_edit
        else:
            edit = edits.draw()
            name = edit.name
            process.mount.write(edit.files)
            process.await_read()
            reference.read(edit)
        process.await_teams()
        reference.read_teams()
        about = f"seed {SEED}, edit {number} ({name})"
        check(process.runner.state, reference, about)
        assert process.ask("/healthz")[0] == 200, about
        assert (
            f"rebalancer_policy_last_reload_successful {float(not reference.reason)}" in process.ask("/metrics")[1]
        ), about
    print(f"seed {SEED}: {THREADED} edits, {process.begun} reads, {process.passes} passes over the teams")


def test_a_burst_of_edits_ends_with_the_last_one(process: Process) -> None:
    """However many edits come between two reads, and however bad: `mode: Observe` at the end holds with the next."""
    random = Random(SEED)
    edits = Edits(random, process.mount.folder)
    for number in range(20):
        for _ in range(10):
            process.mount.write(edits.draw().files)
        nonce = 50_000 + number
        process.mount.write({"policy.yaml": HEAD + f"mode: Observe\ninterval: {nonce}s\n".encode()})
        process.await_read()
        check(process.runner.state, Reference(Meaning("Observe", nonce)), f"seed {SEED}, burst {number}")
    assert process.ask("/healthz")[0] == 200


def test_a_thread_that_ends_is_seen(process: Process) -> None:
    """The check of the storm can fail: `/healthz` names each thread that has ended."""
    process.watcher.stop()
    process.reader.stop()
    process.watcher.thread.join(10)
    process.reader.thread.join(10)
    code, text = process.ask("/healthz")
    assert (code, "ended: policy, team-policies" in text) == (503, True), text
