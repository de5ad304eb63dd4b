"""`rebalancer status`: what the controller does and why nothing happens, from what it has written."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.cli import main as entry
from rebalancer.cli.controller_state import read_acting
from rebalancer.cli.errors import Exit
from rebalancer.controller.state import LoopState
from rebalancer.controller.status import status_documents
from rebalancer.documents.memory import memory_text
from rebalancer.model.motion import DomainMotion, NodeChange, NodeEvent
from rebalancer.model.moves import Memory, OthersEvictions, Reference
from rebalancer.policy import Mode
from rebalancer.ports import MEMORY_KEY, STATUS_KEY
from rebalancer.simulator import SimulatedCluster
from tests.adapters.kubernetes.fake_server import ApiServer, in_turn, reachable, served
from tests.controller.simulated import Simulation, eager
from tests.planning.clusters import returned

LEASE = "/apis/coordination.k8s.io/v1/namespaces/rebalancer-system/leases/rebalancer"
POLICY = "configmap:rebalancer-system/rebalancer-policy"
POLICY_PATH = "/api/v1/namespaces/rebalancer-system/configmaps/rebalancer-policy"
MAP = "/api/v1/namespaces/rebalancer-system/configmaps/rebalancer-status"


def written(state: LoopState) -> str:
    """Return the status that the controller writes in a state; its last cycle was now."""
    documents = {document.key: document.text for document in status_documents(state, "pod-1", "policy.yaml")}
    return json.dumps({**json.loads(documents[STATUS_KEY]), "lastCycle": at()})


def at(seconds: float = 0.0) -> str:
    """Return a time by the clock of the commands, from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def working() -> LoopState:
    """Return the state of a controller in the middle of a repair."""
    simulation = Simulation(SimulatedCluster(returned(), seed=1), eager())
    with capture_logs():
        simulation.cycles(1)
    return simulation.runner.state


def held(holder: str = "pod-1", since: str = "2026-01-05T06:00:00.000000Z") -> dict[str, Any]:
    """Return the spec of a Lease that somebody holds."""
    times = {"acquireTime": since, "renewTime": "2999-01-01T00:00:00.000000Z"}
    return {"holderIdentity": holder, "leaseDurationSeconds": 15, **times}


def show(server: ApiServer, *texts: str, memory: str = "") -> None:
    """Give a server statuses; each reading takes the next one, the last stays."""
    metadata = {"name": "rebalancer-status", "namespace": "rebalancer-system"}
    maps = [{"metadata": metadata, "data": {STATUS_KEY: text, MEMORY_KEY: memory}} for text in texts]
    server.answers["GET", MAP] = in_turn(*((200, content) for content in maps))


def lead(server: ApiServer, *leases: dict[str, Any] | int) -> None:
    """Give a server specs of the Lease, in turn as well; a number is a refusal."""
    metadata = {"name": "rebalancer", "resourceVersion": "1"}
    server.answers["GET", LEASE] = in_turn(
        *(spec if isinstance(spec, int) else (200, {"metadata": metadata, "spec": spec}) for spec in leases)
    )


def running(leader: str = "pod-1") -> ApiServer:
    """Return an API server with a Lease that somebody holds."""
    made = ApiServer()
    lead(made, held(leader))
    return made


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    made = running()
    with reachable(made, tmp_path, monkeypatch):
        yield made


def test_the_status_as_a_document(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The controller's own, whole, and who leads."""
    text = written(working())
    show(server, text)
    own = json.loads(text)
    assert own["lease"] is None
    assert entry.main(["status", "-o", "json"]) == Exit.FINE
    held_lease = {
        "holder": "pod-1",
        "lastHolder": "",
        "renewed": "2999-01-01T00:00:00Z",
        "since": "2026-01-05T06:00:00Z",
        "freeSince": None,
        "aheadSeconds": 0,
        "unreadSince": None,
        "error": "",
    }
    assert json.loads(capsys.readouterr().out) == {**own, "lease": held_lease}
    lead(server, {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": "2026-01-01T00:00:00.000000Z"})
    assert entry.main(["status", "-o", "json"]) == Exit.FINE
    free = {**held_lease, "holder": "", "renewed": None, "since": None, "freeSince": "2026-01-01T00:00:00Z"}
    assert json.loads(capsys.readouterr().out) == {**own, "lease": free}
    assert entry.main(["status", "-o", "yaml"]) == Exit.FINE
    assert yaml.safe_load(capsys.readouterr().out)["kind"] == "Status"


POD = "/api/v1/namespaces/rebalancer-system/pods/rebalancer-5d9c7b6f4-x2k8q"


@pytest.mark.parametrize(
    ("holder", "answer", "port", "has_command"),
    [
        ("rebalancer-5d9c7b6f4-x2k8q_0a1b2c3d", 200, 8081, True),
        ("rebalancer-5d9c7b6f4-x2k8q_0a1b2c3d", 403, 8090, True),
        ("rebalancer-5d9c7b6f4-x2k8q_0a1b2c3d", 404, 8081, False),
        ("rebalancer-5d9c7b6f4-x2k8q_0a1b2c3d", 500, 8081, False),
        ("rebalancer-5d9c7b6f4-x2k8q_0a1b2c3d", 200, None, False),
        ("rebalancer-5d9c7b6f4-x2k8q_99999999", 200, 8081, False),
        ("laptop", 200, 8081, False),
    ],
)
def test_the_command_opens_the_page_of_the_pod_that_leads(
    holder: str,
    answer: int,
    port: int | None,
    has_command: bool,
    server: ApiServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """None where the leader is no pod, serves no page, or has not stored a status yet whose port were its own."""
    leader = "laptop" if holder == "laptop" else "rebalancer-5d9c7b6f4-x2k8q_0a1b2c3d"
    show(server, json.dumps({**json.loads(written(working())), "leader": leader, "pagePort": port}))
    lead(server, held(holder))
    server.answers["GET", POD] = answer if answer != 200 else (200, {"metadata": {"name": "x"}})
    command = f"kubectl port-forward -n rebalancer-system pod/rebalancer-5d9c7b6f4-x2k8q {port}"
    assert entry.main(["status", "-o", "json"]) == Exit.FINE
    assert json.loads(capsys.readouterr().out)["pageCommand"] == (command if has_command else "")
    assert entry.main(["status"]) == Exit.FINE
    line = f"Page: {command}, then http://localhost:{port}"
    assert (line in capsys.readouterr().out.splitlines()) is has_command
    assert entry.main(["status", "--context", "c", "-o", "json"]) == Exit.FINE
    elsewhere = command.replace("kubectl", "kubectl --context c")
    assert json.loads(capsys.readouterr().out)["pageCommand"] == (elsewhere if has_command else "")


def test_without_a_controller_it_is_an_error(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The namespace is the likely mistake."""
    assert entry.main(["status"]) == Exit.ERROR
    assert capsys.readouterr().err == "error: no controller has written a status in namespace rebalancer-system\n"
    server.put(MAP.replace("rebalancer-system", "ops"), metadata={"namespace": "ops"})
    assert entry.main(["status", "--namespace", "shop"]) == Exit.ERROR
    assert capsys.readouterr().err == (
        "error: no controller has written a status in namespace shop\n"
        "ConfigMap rebalancer-status is in namespace ops: rebalancer status --controller-namespace ops\n"
    )
    show(server, '{"kind": "Status", "mode": 3}')
    assert entry.main(["status"]) == Exit.ERROR
    assert "is of another version" in capsys.readouterr().err


def test_watching_shows_each_change_once(
    server: ApiServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until Ctrl-C, which ends it without a traceback."""
    first = written(working())
    second = json.dumps({**json.loads(first), "mode": "Observe"})
    show(server, first, first, second)
    looks = iter([None, None, None])

    def wait(_: float) -> None:
        if next(looks, "over") == "over":
            raise KeyboardInterrupt

    monkeypatch.setattr("rebalancer.cli.status.time.sleep", wait)
    assert entry.main(["status", "--watch"]) == Exit.INTERRUPTED
    shown = [seen(line) for line in capsys.readouterr().out.splitlines() if line.startswith("Controller: ")]
    assert shown == [f"{LEADS}mode Evict: the controller evicts", f"{LEADS}mode Observe: the controller will not evict"]


LEADS = "Controller: pod-1 leads since 2026-01-05 06:00:00Z, last cycle; "


CONTROL = "/api/v1/namespaces/rebalancer-system/configmaps/rebalancer-control"


def test_without_a_leader_the_pause_is_that_which_stands(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The stored one is of the last cycle: it may be over, and another may have been written since."""
    stored = json.loads(written(working()))
    show(server, json.dumps({**stored, "paused": {"until": None, "reason": "old", "by": "bob"}}))

    def shown() -> tuple[str, object]:
        assert entry.main(["status"]) == Exit.FINE
        text = " ".join(capsys.readouterr().out.split())
        assert entry.main(["status", "-o", "json"]) == Exit.FINE
        return text, (json.loads(capsys.readouterr().out)["paused"] or {}).get("reason")

    lead(server, FREED)
    server.put(CONTROL, data={"pause.yaml": "reason: zone b\nby: alice\n"})
    text, reason = shown()
    said = "A pause by alice stands until somebody resumes (zone b): the next controller begins paused."
    assert said in text
    assert reason == "zone b"
    server.put(CONTROL, data={})
    text, reason = shown()
    assert "ause" not in text
    assert reason is None
    server.put(CONTROL, data={"pause.yaml": "until: 2001-01-01T00:00:00Z\n"})
    assert shown()[1] is None
    server.answers["GET", CONTROL] = 403
    assert shown()[1] == "old"
    lead(server, held())
    server.answers.pop(("GET", CONTROL))
    server.put(CONTROL, data={})
    assert shown()[1] == "old", "a controller that runs says itself what it has read"


def test_without_a_leader_an_invalid_policy_of_the_next_controller_is_said(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stored status has that of the last cycle; what may not be read is not said to be invalid."""
    show(server, written(working()))
    said = f"warning: the policy of the next controller, {POLICY}, is invalid: {POLICY}:3: mode: found 1"

    def warned(lease: dict[str, Any], policy: str | int) -> bool:
        lead(server, lease)
        if isinstance(policy, str):
            server.put(POLICY_PATH, data={"policy.yaml": policy})
        else:
            server.answers["GET", POLICY_PATH] = policy
        assert entry.main(["status"]) == Exit.FINE
        text = capsys.readouterr().err
        assert (said in text) == ("policy" in text)
        return said in text

    head = "apiVersion: rebalancer.dev/v1alpha1\nkind: RebalancePolicy\n"
    assert warned(FREED, f"{head}mode: 1\n")
    assert not warned(FREED, f"{head}mode: Evict\n")
    assert not warned(held(), f"{head}mode: 1\n"), "a controller that runs says itself what it refuses"
    assert not warned(FREED, 403)


def seen(line: str) -> str:
    """Return a line without ages."""
    return re.sub(r" \(?\d+[smhd] ago\)?", "", line)


FREE = {"holderIdentity": "", "leaseDurationSeconds": 1}
LAPSED = " (held by pod-1, last renewed), last cycle 1h ago by pod-1"
FREED = {**FREE, "renewTime": "2026-01-05T09:00:00Z"}
NOT_ALLOWED = (
    "not allowed to get Lease rebalancer-system/rebalancer; the ClusterRole rebalancer-view has the right; "
    "last cycle 12s ago by pod-1"
)


@pytest.mark.parametrize(
    ("leases", "last", "line"),
    [
        ([FREED], -12, "no controller runs: Lease free since 2026-01-05 09:00:00Z, last cycle 12s ago by pod-1"),
        (
            [{**held(), "renewTime": "2026-01-05T09:00:00Z"}],
            -3700,
            "no controller runs: Lease free since 2026-01-05 09:00:15Z" + LAPSED,
        ),
        *(
            (
                [{**held(), "renewTime": "2026-01-05T09:00:00Z", "leaseDurationSeconds": written}],
                -3700,
                f"no controller runs: Lease free since 2026-01-05 {free}Z{LAPSED}",
            )
            # As the processes that wait for it count: what is written up to ten minutes, else the usual 15 seconds.
            for written, free in ((600, "09:10:00"), (601, "09:00:15"), (2**31 - 1, "09:00:15"), (None, "09:00:15"))
        ),
        ([FREE], -12, "no controller runs: Lease free, last cycle 12s ago by pod-1"),
        ([{**held(), "renewTime": None}], -12, "no controller runs: Lease free, last cycle 12s ago by pod-1"),
        ([404], -12, "no controller runs: Lease free, last cycle 12s ago by pod-1"),
        ([403], -12, f"whether a controller runs is not known: {NOT_ALLOWED}"),
        (
            [held("pod-2")],
            -12,
            "pod-2 leads since 2026-01-05 06:00:00Z, last cycle 12s ago; mode Evict, but it has not ended a cycle yet",
        ),
        (
            [held()],
            -299,
            "pod-1 leads since 2026-01-05 06:00:00Z, last cycle 4m ago; mode Evict: the controller evicts",
        ),
        ([held()], -302, "pod-1 leads since 2026-01-05 06:00:00Z, last cycle 5m ago; mode Evict, but it is late"),
    ],
)
def test_without_a_leader_no_controller_evicts_in_the_first_line(
    leases: list[Any],
    last: float,
    line: str,
    server: ApiServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The Lease decides, and the last cycle: what the status says is of a process that may be gone."""
    monkeypatch.setattr("rebalancer.cli.controller_state.time.sleep", lambda _: None)
    policy = {**json.loads(written(working()))["policy"], "intervalSeconds": 60}
    show(server, json.dumps({**json.loads(written(working())), "lastCycle": at(last - 0.5), "policy": policy}))
    lead(server, *leases)
    assert entry.main(["status"]) == Exit.FINE
    shown = capsys.readouterr().out.splitlines()[0]
    assert re.sub(r" \(\d+d ago\)| \d+d ago(?=\))", "", shown) == f"Controller: {line}"


def test_a_leader_that_renews_leads_whatever_this_machines_clock_says(
    server: ApiServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that is a minute fast would take every Lease for free."""
    monkeypatch.setattr("rebalancer.cli.controller_state.time.sleep", lambda _: None)
    show(server, written(working()))
    lead(server, {**held(), "renewTime": at(-60)}, {**held(), "renewTime": at(-58)})
    assert entry.main(["status"]) == Exit.FINE
    shown = capsys.readouterr().out.splitlines()[0]
    assert shown.endswith("; mode Evict: the controller evicts")


@pytest.mark.parametrize(("renewed", "clock"), [(600, "ahead of"), (-600, "behind"), (-12, ""), (3, "")])
def test_a_leaders_clock_that_differs_is_said_and_its_times_are_by_it(
    renewed: float,
    clock: str,
    server: ApiServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a leader that has just begun would lead since ten minutes, or since the future."""
    monkeypatch.setattr("rebalancer.cli.controller_state.time.sleep", lambda _: None)
    show(server, json.dumps({**json.loads(written(working())), "lastCycle": at(renewed - 20)}))
    lease = held(since=at(renewed - 60))
    lead(server, {**lease, "renewTime": at(renewed)}, {**lease, "renewTime": at(renewed + 2)})
    assert entry.main(["status"]) == Exit.FINE
    shown = capsys.readouterr().out.splitlines()[0]
    assert bool(clock) == ("by its clock" in shown)
    if clock:
        assert re.search(rf" by its clock, which is (10m|9m\d+s) {clock} the API server's, last cycle 2\ds ago", shown)
        assert "(1m ago)" in shown


@pytest.mark.parametrize(("ahead", "said"), [(600, "behind"), (-600, "ahead of"), (2, "")])
def test_times_are_counted_by_the_api_servers_clock(
    ahead: int,
    said: str,
    server: ApiServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever looks may sit at a machine whose clock is wrong; a warning says so, once."""

    def dated(_: object) -> str:
        return format_datetime(datetime.now(UTC) + timedelta(seconds=ahead), usegmt=True)

    monkeypatch.setattr(BaseHTTPRequestHandler, "date_time_string", dated)
    show(server, json.dumps({**json.loads(written(working())), "lastCycle": at(ahead - 20)}))
    lead(server, {**held(since=at(ahead - 60)), "renewTime": at(ahead - 1)})
    assert entry.main(["status"]) == Exit.FINE
    out, err = capsys.readouterr()
    assert re.search("last cycle (1[789]|2[0-9])s ago", out)
    assert "by its clock" not in out
    clocks = rf"warning: this machine's clock is (9m5\ds|10m\d?s?) {said} the API server's, by which status counts\n"
    assert re.fullmatch(clocks if said else "", err)


def test_watching_counts_on_when_the_controller_is_gone(
    server: ApiServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status stays as it is, and the line that says for how long is shown anew."""
    show(server, written(working()))
    lead(server, held(), FREED)
    began, ages = datetime.now(UTC), iter([20, 22, 3600])

    passed = 0.0

    def wait(_: float) -> None:
        nonlocal passed
        age = next(ages, None)
        if age is None:
            raise KeyboardInterrupt
        passed = age

    monkeypatch.setattr(Transport, "now", lambda _: began + timedelta(seconds=passed + 0.5))
    monkeypatch.setattr("rebalancer.cli.status.time.sleep", wait)
    assert entry.main(["status", "--watch"]) == Exit.INTERRUPTED
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Controller: ")]
    free = "Controller: no controller runs: Lease free since 2026-01-05 09:00:00Z, last cycle"
    assert [seen(shown[0]), *shown[1:]] == [
        f"{LEADS}mode Evict: the controller evicts",
        f"{free} 20s ago by pod-1",
        f"{free} 22s ago by pod-1",
        f"{free} 1h ago by pod-1",
    ]


def test_an_older_controllers_status_is_read(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    status = json.loads(written(working()))
    del status["lease"], status["policy"]["intervalSeconds"]
    show(server, json.dumps(status))
    assert entry.main(["status"]) == Exit.FINE
    shown = capsys.readouterr().out.splitlines()[0]
    assert shown.endswith("; mode Evict: the controller evicts")


def test_commands_know_in_which_namespaces_nothing_is_evicted() -> None:
    """From the same reading of the status that says what the controller does: it is read once."""
    blocked = {"namespace": "shop", "workload": {"kind": "Deployment", "name": "web"}, "pod": "web-1", "since": at()}
    server = running()
    status = json.loads(written(working()))
    status["breaker"]["namespaces"] = [{**blocked, "failure": "exceeded quota"}]
    refused = {"group": "shop web", "pod": "shop/web-0", "refuser": "admission webhook guard", "message": "not now"}
    status["refusedEvictions"] = [{**refused, "times": 1, "nextTry": at()}]
    show(server, json.dumps(status), "a second reading is no status")
    with served(server) as transport:
        acting = read_acting(transport, "rebalancer-system", Mode.EVICT)
        assert acting.line.endswith("; mode Evict: the controller evicts")
    assert [(one.namespace, one.pod, one.failure) for one in acting.blocked] == [("shop", "web-1", "exceeded quota")]
    assert acting.status is not None
    refused_rows = [(one.group, one.refuser) for one in acting.status.refused_evictions]
    assert refused_rows == [("shop web", "admission webhook guard")]


def test_commands_have_the_memory_that_the_controller_has_stored() -> None:
    """Nothing in the cluster says what moves, what others have evicted, and since when nodes have changed."""
    now = datetime.now(UTC).replace(microsecond=0)
    change = NodeChange(now, "c-1", NodeEvent.UNCORDONED)
    motion = DomainMotion(key="zone", value="c", since=now, until=now, moved=now, lasting=True, had=2, lost=2)
    evicted = OthersEvictions(
        workload=Reference("shop", "Deployment", "web"), since=now, last=now, number=1, pods=("web-1",)
    )
    known = Memory(
        node_changes=(change,),
        domains_in_motion=(motion,),
        settling=(("t", now),),
        evicted_by_others=(evicted,),
        seen=(("t", now),),
    )
    server = running()
    show(server, written(working()), memory=memory_text(known))
    with served(server) as transport:
        assert read_acting(transport, "rebalancer-system", Mode.EVICT).memory == known


def test_a_memory_of_another_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of it is used, and moves may be in flight."""
    server = running()
    show(server, written(working()), memory='{"format": 99}')
    with served(server) as transport:
        assert read_acting(transport, "rebalancer-system", Mode.EVICT).memory == Memory()
    assert "cannot be read by this version: moves may be in flight" in capsys.readouterr().err
