"""`rebalancer approve`: approves exactly the plan that waits, and says why where none does."""

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from rebalancer.admission.written import WholeApproval, read_written
from rebalancer.cli import main as entry
from rebalancer.cli.errors import Exit
from rebalancer.controller.status import status_documents
from rebalancer.policy import Mode
from rebalancer.ports import PLAN_KEY, STATUS_KEY
from rebalancer.simulator import SimulatedCluster
from tests.adapters.kubernetes.fake_server import ApiServer, reachable
from tests.cli.answers import answer_with
from tests.cli.test_status import FREED, at, lead, running
from tests.controller.simulated import Simulation, eager
from tests.planning.clusters import returned

STATUS = "/api/v1/namespaces/rebalancer-system/configmaps/rebalancer-status"
APPROVAL = "/api/v1/namespaces/rebalancer-system/configmaps/rebalancer-approval"


def proposed(mode: Mode) -> dict[str, str]:
    """Return the status and the plan that a controller in a mode has written."""
    simulation = Simulation(SimulatedCluster(returned(), seed=1), eager(mode))
    with capture_logs():
        simulation.cycles(1)
    documents = status_documents(simulation.runner.state, "pod-1", "policy.yaml")
    written = {document.key: document.text for document in documents}
    plan = json.loads(written[PLAN_KEY])
    if plan["expiresAt"] is not None:  # the simulation's clock is another one
        plan["expiresAt"] = at(750.5)
    status = {**json.loads(written[STATUS_KEY]), "lastCycle": at(-12)}
    return {STATUS_KEY: json.dumps(status), PLAN_KEY: json.dumps(plan)}


def proposing(status: dict[str, str] | None = None) -> ApiServer:
    """Return an API server with a status, None: without one, a ConfigMap for approvals, and a leader."""
    made = running()
    made.put(APPROVAL, metadata={"namespace": "rebalancer-system"}, data={})
    if status:
        made.put(STATUS, data=status)
    return made


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    made = proposing()
    with reachable(made, tmp_path, monkeypatch):
        yield made


@pytest.mark.parametrize("named", [False, True])
def test_the_evictions_of_the_plan_that_waits_are_approved(
    named: bool, server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --step by its hash, with or without naming it; what it evicts is shown."""
    status = proposed(Mode.APPROVE)
    server.put(STATUS, data=status)
    plan = json.loads(status[PLAN_KEY])
    assert plan["evictions"]
    assert entry.main(["approve", "--step", "--yes", *([plan["planHash"]] if named else [])]) == Exit.FINE
    assert server.data(APPROVAL) == {"approved": plan["planHash"]}
    out = capsys.readouterr().out
    assert out.startswith(f"Plan {plan['planHash']}: {len(plan['evictions'])} eviction")
    assert f"\nApproved plan {plan['planHash']}. " in out
    assert "is done, not after this step alone: in between less may be guaranteed than now:\n" in out
    for eviction in plan["evictions"]:
        where = eviction["predicted"]["domains"]["topology.kubernetes.io/zone"][0]
        assert f"  {eviction['namespace']}/{eviction['pod']}  {eviction['node']} -> zone {where}" in out


def whole(server: ApiServer) -> WholeApproval:
    """Return the approval that was written."""
    assert set(server.data(APPROVAL)) == {"approval.yaml"}
    written = read_written(server.data(APPROVAL)["approval.yaml"])
    assert written.approval is not None
    return written.approval


def test_a_plan_is_approved_with_its_later_steps(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """As many evictions as the plan needs, for as long as a proposal lasts; who did it is written beside."""
    status = proposed(Mode.APPROVE)
    server.put(STATUS, data=status)
    plan = json.loads(status[PLAN_KEY])
    assert entry.main(["approve", "--yes"]) == Exit.FINE
    approval = whole(server)
    assert (approval.plan, approval.evictions) == (plan["planHash"], 4)
    assert (approval.workloads, approval.namespaces) == ((), ())
    assert approval.by
    lasts = approval.until - leaders_now()
    assert timedelta(minutes=14) < lasts <= timedelta(minutes=15), "the policy's planTTL"
    out = capsys.readouterr().out
    assert f"With its later steps: up to 4 evictions until {approval.until:%Y-%m-%d %H:%M:%SZ}, of" in out
    assert "  shop/deployment/web: 4 evictions" in out


def leaders_now() -> datetime:
    return datetime.now(UTC)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--evictions", "2"], {"evictions": 2}),
        (["--workload", "Shop/Deployment/web"], {"evictions": 4, "workloads": ("shop/deployment/web",)}),
        (["-N", "shop", "--evictions=9"], {"evictions": 9, "namespaces": ("shop",)}),
        (["--in-namespace", "shop", "--in-namespace", "bank"], {"evictions": 4, "namespaces": ("shop", "bank")}),
    ],
)
def test_an_approval_has_bounds(flags: list[str], expected: dict[str, Any], server: ApiServer) -> None:
    server.put(STATUS, data=proposed(Mode.APPROVE))
    assert entry.main(["approve", "--yes", "--for", "2h", *flags]) == Exit.FINE
    approval = whole(server)
    assert timedelta(minutes=119) < approval.until - leaders_now() <= timedelta(hours=2)
    assert {name: getattr(approval, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (
            ["--step", "--evictions", "2"],
            Exit.USAGE,
            "--step approves exactly the evictions of the plan; leave --evictions=2",
        ),
        (["--step", "-N", "shop"], Exit.USAGE, "leave --in-namespace=shop out"),
        (["--evictions", "0"], Exit.USAGE, "found '0', expected a number between 1 and 1000"),
        (["--evictions", "many"], Exit.USAGE, "found 'many', expected a number between 1 and 1000"),
        (["--for", "0s"], Exit.USAGE, "found '0s', expected more than 0s"),
        (["--workload", "web"], Exit.USAGE, "found 'web', expected NAMESPACE/KIND/NAME such as shop/deployment/web"),
        (
            ["-N", "bank"],
            Exit.ERROR,
            "repairs nothing of these workloads and namespaces; it repairs shop/deployment/web",
        ),
    ],
)
def test_bounds_that_cannot_be_are_refused(
    flags: list[str], code: Exit, message: str, server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.put(STATUS, data=proposed(Mode.APPROVE))
    code_given: object = None
    with suppress(SystemExit):
        code_given = entry.main(["approve", "--yes", *flags])
    assert code_given in {code, None}
    assert message in " ".join(capsys.readouterr().err.split())
    assert server.data(APPROVAL) == {}


def test_a_plan_of_another_release_is_approved_by_its_step(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its status does not have what the plan repairs."""
    written = proposed(Mode.APPROVE)
    status = json.loads(written[STATUS_KEY])
    del status["approval"]["repairs"]
    server.put(STATUS, data={**written, STATUS_KEY: json.dumps(status)})
    assert entry.main(["approve", "--yes"]) == Exit.ERROR
    assert "or approve its evictions alone with --step" in " ".join(capsys.readouterr().err.split())
    assert server.data(APPROVAL) == {}


def test_an_approval_that_is_replaced_is_named(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    written = proposed(Mode.APPROVE)
    standing = {"plan": "f00", "by": "", "since": at(-60), "until": at(60), "evictions": 9, "left": 3}
    server.put(
        STATUS, data={**written, STATUS_KEY: json.dumps({**json.loads(written[STATUS_KEY]), "standing": standing})}
    )
    assert entry.main(["approve", "--yes"]) == Exit.FINE
    assert "It replaces the approval of plan f00, which has 3 evictions left." in capsys.readouterr().out


@pytest.mark.parametrize(("typed", "code"), [("y", Exit.FINE), ("Yes", Exit.FINE), ("n", Exit.ERROR), ("", Exit.ERROR)])
def test_a_person_is_asked_after_the_plan_was_shown(
    typed: str, code: Exit, server: ApiServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put(STATUS, data=proposed(Mode.APPROVE))
    answer_with(monkeypatch, typed)
    assert entry.main(["approve"]) == code
    out = capsys.readouterr().out
    assert out.index("eviction") < out.index("? [y/N] ")
    assert bool(server.data(APPROVAL)) == (code is Exit.FINE)
    assert ("Nothing was changed." in out) == (code is not Exit.FINE)


def test_a_dry_run_approves_nothing(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.put(STATUS, data=proposed(Mode.APPROVE))
    assert entry.main(["approve", "--dry-run"]) == Exit.FINE
    assert "Nothing was changed." in capsys.readouterr().out
    assert entry.main(["approve"]) == Exit.USAGE
    assert "add --yes to do it, or --dry-run to look" in capsys.readouterr().err
    assert server.data(APPROVAL) == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"paused": {"until": None, "reason": "zone b", "by": "ada"}},
            "Nothing of it is evicted before the pause ends: pod-1 leads since",
        ),
        ({"leader": "gone"}, "Nothing of it is evicted before a controller runs: no controller runs: Lease free"),
    ],
)
def test_what_keeps_it_from_being_carried_out_is_said(
    change: dict[str, Any], said: str, server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    written = proposed(Mode.APPROVE)
    written[STATUS_KEY] = json.dumps({**json.loads(written[STATUS_KEY]), **change})
    server.put(STATUS, data=written)
    if "leader" in change:
        lead(server, FREED)
    assert entry.main(["approve", "--yes"]) == Exit.FINE
    assert said in capsys.readouterr().out


def without_evictions(status: dict[str, str]) -> dict[str, str]:
    return {**status, PLAN_KEY: json.dumps({**json.loads(status[PLAN_KEY]), "evictions": []})}


def carried_out(status: dict[str, str], **fields: object) -> dict[str, str]:
    """Return the status while an approval of a whole plan is in force, and nothing else is proposed."""
    time = "2001-01-01T00:00:00Z"
    standing = {"plan": "0a1b", "since": time, "until": time, "evictions": 9, "left": 3}
    document = {**json.loads(status[STATUS_KEY]), "approval": None, "standing": standing, **fields}
    return {**status, STATUS_KEY: json.dumps(document)}


def expired(status: dict[str, str]) -> dict[str, str]:
    return {**status, PLAN_KEY: json.dumps({**json.loads(status[PLAN_KEY]), "expiresAt": "2001-01-01T00:00:00Z"})}


@pytest.mark.parametrize(
    ("status", "words", "message"),
    [
        (dict[str, str], [], "no controller has written a status in namespace rebalancer-system"),
        (lambda: proposed(Mode.EVICT), [], "; mode Evict: the controller evicts"),
        (lambda: proposed(Mode.OBSERVE), [], "; mode Observe: the controller will not evict"),
        (
            lambda: without_evictions(proposed(Mode.APPROVE)),
            [],
            "no plan waits for approval: 4 evictions wait for something else, see rebalancer status",
        ),
        (
            lambda: carried_out(proposed(Mode.APPROVE)),
            [],
            "no plan waits for approval: that of plan 0a1b is in force, 3 evictions left until 2001-01-01 00:00:00Z",
        ),
        (
            lambda: carried_out(proposed(Mode.APPROVE), paused={"until": None, "reason": "", "by": ""}),
            [],
            "3 evictions left until 2001-01-01 00:00:00Z; nothing goes now: evictions are paused",
        ),
        (lambda: expired(proposed(Mode.APPROVE)), [], "has expired; the controller proposes another one"),
        (lambda: proposed(Mode.APPROVE), ["f00"], "plan f00 does not wait for approval; the plan that waits is "),
        (
            lambda: {**proposed(Mode.APPROVE), PLAN_KEY: "{}"},
            [],
            "the plan in namespace rebalancer-system is of another",
        ),
    ],
)
def test_where_no_plan_waits_nothing_is_approved(
    status: Any, words: list[str], message: str, server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    if given := status():
        server.put(STATUS, data=given)
    assert entry.main(["approve", *words]) == Exit.ERROR
    assert message in capsys.readouterr().err
    assert server.data(APPROVAL) == {}


def test_a_missing_right_is_named(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.put(STATUS, data=proposed(Mode.APPROVE))
    server.answers["PATCH", APPROVAL] = 403
    assert entry.main(["approve", "--yes"]) == Exit.ERROR
    err = capsys.readouterr().err
    assert "the ClusterRole rebalancer-approve has the right: bind it in namespace rebalancer-system" in err


def test_without_the_config_map_for_approvals_nothing_is_approved(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A controller that people have started by hand proposes a plan, and reads the approval once it can be there."""
    server.put(STATUS, data=proposed(Mode.APPROVE))
    del server.objects[APPROVAL]
    assert entry.main(["approve", "--yes"]) == Exit.ERROR
    assert (
        "nothing was changed: namespace rebalancer-system has no ConfigMap rebalancer-approval, but a controller has "
        "led there. Create it, then repeat: kubectl create configmap rebalancer-approval --namespace rebalancer-system"
    ) in capsys.readouterr().err
    assert APPROVAL not in server.objects


def test_in_a_wrong_namespace_the_right_one_is_listed(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.put(STATUS, metadata={"namespace": "rebalancer-system"}, data=proposed(Mode.APPROVE))
    assert entry.main(["approve", "--yes", "f00", "-n", "shop"]) == Exit.ERROR
    assert capsys.readouterr().err == (
        "error: no controller has written a status in namespace shop\n"
        "ConfigMap rebalancer-status is in namespace rebalancer-system: "
        "rebalancer approve f00 --yes --controller-namespace rebalancer-system\n"
    )
