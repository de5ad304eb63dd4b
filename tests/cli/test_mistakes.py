"""Typical mistakes: each ends with one clear line and the right exit code, or a warning that names it."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rebalancer.cli import main as entry
from rebalancer.cli import start
from rebalancer.cli.errors import Exit
from rebalancer.policy import default_policy
from tests.adapters.kubernetes.fake_server import ApiServer, reachable
from tests.cli.files import write_policy
from tests.cli.test_status import FREED, LEASE, MAP, lead, running

EXAMPLE = "docs/examples/zone-returned.json"
POLICY = "/api/v1/namespaces/rebalancer-system/configmaps/rebalancer-policy"


def run(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, str, str]:
    code = entry.main(list(command))
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    return code, shown.out, shown.err


@pytest.mark.parametrize("verb", ["report", "plan"])
def test_a_namespace_that_does_not_exist_is_an_error(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the nearest name, where there is one."""
    code, out, err = run(capsys, verb, "--snapshot", EXAMPLE, "-n", "shpo")
    assert (code, out, err) == (Exit.ERROR, "", "error: namespace shpo does not exist; did you mean shop?\n")
    code, _, err = run(capsys, verb, "--snapshot", EXAMPLE, "-n", "elsewhere")
    assert (code, err) == (Exit.ERROR, "error: namespace elsewhere does not exist\n")


@pytest.mark.parametrize("verb", ["report", "plan"])
def test_a_selector_without_pods_is_a_warning(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All is well with nothing is no answer; but the labels may just not exist yet."""
    code, _, err = run(capsys, verb, "--snapshot", EXAMPLE, "-l", "app=nosuch")
    assert (code, err) == (Exit.FINE, "warning: there is no pod with the labels app=nosuch\n")


@pytest.mark.parametrize("version", ["1.18", "1.29", "1.38", "1.99", "2.0", "latest"])
def test_versions_outside_of_what_is_modelled_are_refused(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "plan", "--snapshot", EXAMPLE, "--server-version", version)
    assert code == Exit.USAGE
    assert version in err
    assert "1.37" in err
    assert run(capsys, "plan", "--snapshot", EXAMPLE, "--server-version", "1.30")[0] == Exit.FINE


def test_a_misspelt_namespace_in_eligibility_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It protects nothing: pods of shop would be evicted."""
    file = write_policy(tmp_path, "groups: []\neligibility: {namespaces: {exclude: [shpo, kube-system]}}\n")
    _, _, err = run(capsys, "plan", "--snapshot", EXAMPLE, "--policy", file)
    assert err == "warning: eligibility.namespaces.exclude shpo matches no namespace; did you mean shop?\n"
    file = write_policy(tmp_path, "groups: []\neligibility: {namespaces: {include: [web*]}}\n")
    _, _, err = run(capsys, "plan", "--snapshot", EXAMPLE, "--policy", file)
    assert err == "warning: eligibility.namespaces.include web* matches no namespace\n"


SYSTEM = "eligibility.namespaces.exclude replaces its default [kube-system]"
LIMITS = "the limits node-half and zone-half of the shipped policy are not in force"


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("groups: []\neligibility: {namespaces: {exclude: [shop]}}\n", [SYSTEM]),
        ("groups: []\neligibility: {namespaces: {exclude: []}}\n", []),
        ("groups: []\neligibility: {namespaces: {exclude: [shop, 'kube-*']}}\n", []),
        ("groups: []\neligibility: {namespaces: {include: [kube-system], exclude: [shop]}}\n", []),
        ("mode: Observe\n", [LIMITS]),
        ("groups: []\n", []),
        ("eligibility: {namespaces: {exclude: [shop]}}\n", [LIMITS, SYSTEM]),
    ],
)
@pytest.mark.parametrize("command", [["policy", "validate"], ["policy", "show", "--policy"], ["plan", "--snapshot"]])
def test_what_a_policy_drops_is_reported(
    text: str, notes: list[str], command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A default that is dropped without being named; one that is named is meant."""
    file = write_policy(tmp_path, text)
    words = [*command, EXAMPLE, "--policy", file] if command[0] == "plan" else [*command, file]
    code, _, err = run(capsys, *words)
    assert code == Exit.FINE
    lines = err.splitlines()
    assert len(lines) == len(notes)
    assert all(note in line for note, line in zip(notes, lines, strict=True))


def test_the_shipped_policy_drops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "plan", "--snapshot", EXAMPLE)[2] == ""
    assert run(capsys, "policy", "validate", "config/policy.yaml")[2] == ""


def test_a_file_that_cannot_be_written_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Not as an errno."""
    code, _, err = run(capsys, "plan", "--snapshot", EXAMPLE, "--out", "/nonexistent/plan.json")
    assert (code, err) == (Exit.ERROR, "error: /nonexistent/plan.json: No such file or directory\n")


@pytest.mark.parametrize(
    ("text", "longest"),
    [
        ("interval: 25h", "24h"),
        ("planTTL: 8760h", "24h"),
        ("spread: {for: 25h}", "24h"),
        ("nodes: {settle: 25h}", "24h"),
        ("breaker: {clearAfter: 25h}", "24h"),
        ("capacity: {settle: 25h}", "24h"),
        ("topology: {remember: 721h}", "720h"),
    ],
)
def test_durations_have_a_maximum(text: str, longest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A year between two cycles is a typing error."""
    code, _, err = run(capsys, "policy", "validate", write_policy(tmp_path, f"groups: []\n{text}\n"))
    assert code == Exit.ERROR
    assert f"expected at most {longest}" in err


def test_an_interrupt_while_it_starts_shows_no_traceback() -> None:
    """At whatever moment of the first half second it comes."""
    command = [sys.executable, "-c", "from rebalancer.cli.start import main; main()", "plan", "--snapshot", EXAMPLE]
    for delay in (0.05, 0.1, 0.15, 0.2, 0.3, 0.4):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=30)[1]
        if "rebalancer" in err:  # before that, only the interpreter itself had begun
            assert "Traceback" not in err, f"after {delay} s:\n{err}"


def test_an_interrupt_that_an_import_wraps_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python before 3.12 makes a RuntimeError of what comes while a class is made; other errors stay what they are."""

    def interrupted() -> int:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    def failed() -> int:
        raise RuntimeError("Error calling __set_name__") from KeyError("name")

    monkeypatch.setattr(start, "_keep_standard_output", lambda: None)  # that of the tests stays theirs
    monkeypatch.setattr(entry, "main", interrupted)
    with pytest.raises(SystemExit) as ended:
        start.main()
    assert ended.value.code == Exit.INTERRUPTED
    monkeypatch.setattr(entry, "main", failed)
    with pytest.raises(RuntimeError):
        start.main()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    made = running(leader="one")
    with reachable(made, tmp_path, monkeypatch):
        yield made


@pytest.mark.parametrize(
    ("place", "code", "message"),
    [
        (
            "configmap:rebalancer-system/other",
            Exit.ERROR,
            "configmap:rebalancer-system/other: there is no such ConfigMap",
        ),
        ("configmap:rebalancer-policy", Exit.USAGE, "expected configmap:NAMESPACE/NAME"),
        ("configmap:a/b/c", Exit.USAGE, "expected configmap:NAMESPACE/NAME"),
    ],
)
def test_a_config_map_without_a_policy_is_an_error(
    place: str, code: Exit, message: str, server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.put(POLICY, data={"policy.yaml": "mode: 1"})
    result, out, err = run(capsys, "report", "--policy", place)
    assert (result, out) == (code, "")
    assert message in err
    assert run(capsys, "report", "--policy", "configmap:rebalancer-system/rebalancer-policy")[0] == Exit.ERROR


def test_a_config_map_and_a_snapshot_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "plan", "--snapshot", EXAMPLE, "--policy", "configmap:a/b")
    assert code == Exit.USAGE
    assert "--policy configmap:… names a live cluster" in err


STATUS: dict[str, Any] = {
    "mode": "Evict",
    "paused": None,
    "leader": "one",
    "lastCycle": "2999-01-01T00:00:00Z",
    "stale": "",
    "breaker": {"open": False, "causes": []},
    "inFlight": [],
    "lastMoves": [],
    "plan": {"evictions": 0, "minimum": 0},
    "refusals": {},
    "policy": {"hash": default_policy().hash, "source": "the shipped policy", "valid": True},
    "prevention": {
        "mode": "Off",
        "workloads": 0,
        "ordered": 0,
        "waiting": 0,
        "left": 0,
        "stopped": "",
        "unsteered": {},
    },
}


LEADS = "one leads since 2026-01-05 06:00:00Z, last cycle 0s ago; "


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (
            None,
            (
                "no controller has run in namespace rebalancer-system, and nothing is known of another one "
                "(--controller-namespace says where it runs)"
            ),
        ),
        (STATUS, f"{LEADS}mode Evict: the controller evicts"),
        ({**STATUS, "mode": "Observe"}, f"{LEADS}mode Observe: the controller will not evict"),
        ({**STATUS, "mode": "Approve"}, f"{LEADS}mode Approve: the controller evicts what is approved"),
        (
            {**STATUS, "paused": {"until": None, "reason": "zone b", "by": "alice"}},
            f"{LEADS}paused by alice: zone b: the controller will not evict",
        ),
        (
            {**STATUS, "breaker": {"open": True, "causes": ["pending_pods"]}},
            f"{LEADS}mode Evict, but the breaker is open (pending_pods): no eviction now",
        ),
        (
            {**STATUS, "policy": {**STATUS["policy"], "valid": False, "error": "line 3: mode\nmore"}},
            f"{LEADS}mode Evict: the controller evicts; a newer policy is invalid: line 3: mode",
        ),
        (
            {**STATUS, "lastCycle": "2001-01-01T00:00:00Z"},
            "one leads since 2026-01-05 06:00:00Z, last cycle; mode Evict, but it is late",
        ),
        ({"kind": "Status"}, "mode Observe: the controller will not evict; its status cannot be read"),
    ],
)
def test_a_live_plan_begins_with_what_the_controller_does(
    status: dict[str, Any] | None, line: str, server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its status, not by the policy of whoever asks."""
    if status is not None:
        server.put(MAP, data={"status.json": json.dumps(status)})
    code, out, _ = run(capsys, "plan")
    assert code == Exit.FINE
    assert re.sub(r" \(?\d+d ago\)?", "", out.splitlines()[0]) == f"Plan (dry run; {line})"


@pytest.mark.caught("plan denied the controller that ran in another namespace than the one that was named")
def test_a_live_plan_in_the_wrong_namespace_names_the_right_one(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not say that none runs: it has not asked there."""
    listed = {"items": [{"metadata": {"namespace": "rebalancer-system", "name": "rebalancer-status"}}]}
    server.answers["GET", "/api/v1/configmaps"] = 200, listed
    code, out, _ = run(capsys, "plan", "--controller-namespace", "default")
    assert code == Exit.FINE
    assert out.splitlines()[0] == (
        "Plan (dry run; no controller has run in namespace default; ConfigMap rebalancer-status is in "
        "rebalancer-system: --controller-namespace says which one is meant)"
    )
    assert "no controller runs" not in out


UNREAD = (
    "whether a controller runs is not known: not allowed to get Lease rebalancer-system/rebalancer; the ClusterRole "
)


@pytest.mark.parametrize(
    ("lease", "status", "line"),
    [
        (FREED, STATUS, "no controller runs: Lease free since 2026-01-05 09:00:00Z, last cycle 0s ago by one"),
        (FREED, {}, "no controller runs: Lease free since 2026-01-05 09:00:00Z, its status cannot be read"),
        (404, STATUS, "no controller runs: Lease free, last cycle 0s ago by one"),
        (403, STATUS, f"{UNREAD}rebalancer-view has the right; last cycle 0s ago by one"),
        (403, {}, f"{UNREAD}rebalancer-view has the right; its status cannot be read"),
    ],
)
def test_a_live_plan_does_not_say_that_a_controller_acts_that_does_not_lead(
    lease: dict[str, Any] | int,
    status: dict[str, Any],
    line: str,
    server: ApiServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nor where nobody knows: that line is right or says what it lacks."""
    lead(server, lease)
    server.put(MAP, data={"status.json": json.dumps(status)})
    _, out, _ = run(capsys, "plan")
    assert out.splitlines()[0] == f"Plan (dry run; {line})"
    known = "no controller runs" if line.startswith("no controller") else "whether a controller runs is not known"
    assert json.loads(run(capsys, "plan", "-o", "json")[1])["idle"] == known


READS = [
    ("status", f"GET {MAP}"),
    *((verb, "GET /api/v1/pods") for verb in ("plan", "report", "explain deploy/web", "snapshot")),
    ("report --policy configmap:rebalancer-system/other", f"GET {POLICY.replace('rebalancer-policy', 'other')}"),
]


@pytest.mark.parametrize(("command", "request_line"), READS)
@pytest.mark.parametrize("code", [401, 403])
def test_a_refused_read_says_who_may_read(
    command: str, request_line: str, code: int, server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without method, path and HTTP code: with the server's own words, and the role or the log-in that helps."""
    method, path = request_line.split()
    server.answers[method, path] = code, "pods is forbidden: User bob cannot list it"
    result, out, err = run(capsys, *command.split())
    assert (result, out) == (Exit.ERROR, "")
    assert err.count("\n") == 1
    assert "pods is forbidden: User bob cannot list it; " in err
    assert "HTTP" not in err
    helps = "grant the verb get on this ConfigMap" if "configmap:" in command else "rebalancer-view has the right"
    assert ("log in again, or choose another --context" if code == 401 else helps) in err


@pytest.mark.parametrize(
    ("context", "hint"), [("nope", ""), ("prod-euu", "; did you mean prod-eu?"), ("prod-eu", None)]
)
def test_a_context_that_does_not_exist_lists_those_that_do(
    context: str, hint: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the nearest."""
    file = tmp_path / "config"
    cluster = {"name": "one", "cluster": {"server": "http://127.0.0.1:9"}}
    contexts = [{"name": name, "context": {"cluster": "one", "user": ""}} for name in ("prod-eu", "prod-us")]
    config = {"clusters": [cluster], "contexts": contexts, "users": [], "current-context": "prod-us"}
    file.write_text(json.dumps(config))
    code, _, err = run(capsys, "report", "--kubeconfig", str(file), "--context", context)
    listed = f"error: {file} has no context {context}; it has prod-eu, prod-us{hint}\n"
    assert code == Exit.ERROR
    assert (err == listed) is (hint is not None)


@pytest.mark.parametrize(
    ("command", "leases"),
    [
        (("plan",), 1),
        (("report",), 1),
        (("report", "-o", "json"), 0),
        (("simulate", "--each", "topology.kubernetes.io/zone"), 0),
        (("predict", "--pod", "tests/cli/golden/pod.yaml"), 0),
    ],
)
def test_only_who_says_who_leads_reads_the_lease(
    command: tuple[str, ...], leases: int, server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that nobody renews takes seconds to read."""
    server.put(MAP, data={"status.json": json.dumps(STATUS)})
    run(capsys, *command)
    assert server.requests.count(("GET", LEASE)) == leases
    assert ("GET", MAP) in server.requests


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["plna"], "unknown command 'plna'; did you mean plan? `rebalancer --help` lists the commands"),
        (["exlpain", "pod/web"], "unknown command 'exlpain'; did you mean explain? `rebalancer --help` lists"),
        (["versions"], "unknown command 'versions'; did you mean version? `rebalancer --help` lists the commands"),
        (["help"], "unknown command 'help'; did you mean --help? `rebalancer --help` lists the commands"),
        (["frobnicate"], "unknown command 'frobnicate'; `rebalancer --help` lists the commands"),
        (["explain", "deploymet/web"], "; did you mean deployment/web?"),
        (["explain", "pod", "web", "db"], "found 'pod web db', expected NAME, KIND/NAME"),
        (["explain", "pod", "a/b"], "found 'pod a/b', expected NAME, KIND/NAME"),
        (["plan", "--limit", "many"], "found 'many', expected a number, 0 for all"),
    ],
)
def test_a_misspelt_command_is_named_with_the_nearest(
    command: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["rebalancer"])
    more = ["--snapshot", EXAMPLE] if command[0] in {"explain", "plan"} else []
    code, out, err = run(capsys, *command, *more)
    assert (code, out) == (Exit.USAGE, "")
    assert message in err


def test_a_misspelt_name_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "explain", "deployment", "serach", "--snapshot", EXAMPLE)
    assert (code, err) == (Exit.ERROR, "error: Deployment serach does not exist; did you mean search?\n")


def test_kind_and_name_may_be_two_words(capsys: pytest.CaptureFixture[str]) -> None:
    """As kubectl takes them."""
    one = run(capsys, "explain", "pod/db-4", "--snapshot", EXAMPLE)
    assert one[0] == Exit.FINE
    assert run(capsys, "explain", "pod", "db-4", "--snapshot", EXAMPLE) == one
    assert run(capsys, "explain", "sts", "db", "--snapshot", EXAMPLE)[0] == Exit.FINE


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["simulate", "--each", "zone"], "no node has the label zone; did you mean topology.kubernetes.io/zone?"),
        (["explain", "pod/db-4", "pod/db-0"], "name one object at a time"),
        (["report", "--kubeconfig", "/nosuch/config"], "/nosuch/config: no such file; pass --kubeconfig and --context"),
    ],
)
def test_a_mistake_is_named_with_the_way_out(command: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = [] if "--kubeconfig" in command else ["--snapshot", EXAMPLE]
    assert entry.main([*command, *snapshot]) in {Exit.ERROR, Exit.USAGE}
    assert hint in capsys.readouterr().err
