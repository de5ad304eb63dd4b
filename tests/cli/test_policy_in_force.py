"""A live cluster is planned by the policy in force there, from its ConfigMap; where that is not sure, it is said."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.cli.errors import Exit
from rebalancer.cli.files import choose_policy
from rebalancer.policy import default_policy, load_policy
from tests.adapters.kubernetes.fake_server import ApiServer, reachable
from tests.build import HEAD
from tests.cli.files import write_policy
from tests.cli.test_mistakes import POLICY, STATUS, run
from tests.cli.test_status import FREED, MAP, lead, running

OWN = f"{HEAD}groups: []\nmode: Evict\n"
HASH = load_policy(OWN.encode(), source="").hash
PLACE = "configmap:rebalancer-system/rebalancer-policy"
READERS = [
    ["plan"],
    ["report"],
    ["simulate", "--each", "topology.kubernetes.io/zone"],
    ["predict", "--pod", "tests/cli/golden/pod.yaml"],
]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    made = running(leader="one")
    with reachable(made, tmp_path, monkeypatch):
        yield made


def acts_by(
    server: ApiServer,
    policy_hash: str,
    source: str = "/etc/rebalancer/policy.yaml",
    path: str = MAP,
    *,
    valid: bool = True,
) -> None:
    """Let the controller say by which policy it acts, and whether a newer one is valid."""
    error = "" if valid else "mode: found 1\ninterval: found x"
    status = {**STATUS, "policy": {"hash": policy_hash, "source": source, "valid": valid, "error": error}}
    server.put(path, data={"status.json": json.dumps(status)})


def test_it_is_taken_and_named(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The mounted ConfigMap is a file for the controller: that both are the same is seen by the hash."""
    server.put(POLICY, data={"policy.yaml": OWN})
    acts_by(server, HASH)
    code, out, err = run(capsys, "plan")
    assert (code, err) == (Exit.FINE, "")
    assert f", policy {HASH} ({PLACE}, the controller's). Nothing was changed." in out
    _, out, err = run(capsys, "report")
    assert out.splitlines()[0].startswith("Controller: one leads since 2026-01-05 06:00:00Z")
    assert out.splitlines()[1] == f"Policy {HASH} ({PLACE}, the controller's)"
    assert err == ""


def test_another_one_can_be_given(server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the file, or from a ConfigMap; the line says that it is that one."""
    server.put(POLICY, data={"policy.yaml": OWN})
    acts_by(server, HASH)
    file = write_policy(tmp_path, "groups: []\n")
    code, out, err = run(capsys, "plan", "--policy", file)
    assert (code, err) == (Exit.FINE, "")
    assert f"({file}). Nothing was changed." in out
    _, out, _ = run(capsys, "plan", "--policy", PLACE)
    assert f"policy {HASH} ({PLACE}). Nothing was changed." in out
    _, out, _ = run(capsys, "policy", "show", "--policy", PLACE)
    assert yaml.safe_load(out)["mode"] == "Evict"


def test_it_is_that_which_the_controller_names(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A ConfigMap with another name, and a controller in another namespace."""
    server.put("/api/v1/namespaces/ops/configmaps/mine", data={"policy.yaml": OWN})
    acts_by(server, HASH, "configmap:ops/mine", "/api/v1/namespaces/ops/configmaps/rebalancer-status")
    _, out, err = run(capsys, "plan", "--controller-namespace", "ops")
    assert "(configmap:ops/mine, the last controller's)" in out
    assert err == ""


USED = "the shipped policy is used: give the controller's with --policy"
UNREADABLE = f"the policy in {PLACE} cannot be read: "
INVALID = f"the policy in {PLACE} is invalid: "
FIRST = 'mode: found "Evil"; expected Observe, Approve or Evict; did you mean Evict?'
SEVERAL = f"{INVALID}{PLACE}:3: {FIRST}; {PLACE}:4: interval: "
ACTS = f"the controller acts by policy {{}} (/etc/rebalancer/policy.yaml), not by {PLACE}, which "


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize(
    ("stored", "acts", "doubt"),
    [
        (None, None, ""),
        (OWN, None, ""),
        (None, default_policy().hash, ""),
        (f"{HEAD}mode: 1\n", None, f"{INVALID}{PLACE}:3: mode: found 1"),
        (f"{HEAD}mode: Evil\ninterval: 1\n", HASH, SEVERAL),
        (403, None, f"{UNREADABLE}scripted answer 403; the ClusterRole rebalancer-view has the right; {USED}"),
        (403, HASH, f"{UNREADABLE}scripted answer 403; the ClusterRole rebalancer-view has the right; {USED}"),
        (500, HASH, f"{UNREADABLE}scripted answer 500; {USED}"),
        (f"{HEAD}mode: 1\n", HASH, f"{INVALID}{PLACE}:3: mode: found 1"),
        (None, HASH, f"{ACTS.format(HASH)}is not there; {USED}"),
        (OWN, "0123", f"{ACTS.format('0123')}it has not read yet or refuses, see rebalancer status"),
    ],
)
def test_where_it_may_be_another_it_is_said(
    command: list[str],
    stored: str | int | None,
    acts: str | None,
    doubt: str,
    server: ApiServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever plans by the wrong policy sees evictions that never come. Where nothing is installed, nothing is said."""
    if isinstance(stored, str):
        server.put(POLICY, data={"policy.yaml": stored})
    elif stored is not None:
        server.answers["GET", POLICY] = stored
    if acts is not None:
        acts_by(server, acts)
    _, out, err = run(capsys, *command)
    warnings = [line.removeprefix("warning: ") for line in err.splitlines() if "polic" in line]
    assert [line[: len(doubt)] for line in warnings][:1] == ([doubt] if doubt else [])
    if command[0] in {"plan", "report"}:
        assert (", the controller's)" in out) == (acts is not None and not doubt)
        assert ("none is in namespace" in out) == (stored is None)
        assert ("no valid one can be read in namespace" in out) == doubt.startswith((UNREADABLE, INVALID))


VALID = "/api/v1/namespaces/rebalancer-system/configmaps/rebalancer-policy-valid"


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("written", [f"{HEAD}mode: 1\n", None])
def test_while_what_is_written_is_refused_the_last_valid_one_is_taken(
    command: list[str], written: str | None, server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the controller does; also where the ConfigMap was deleted."""
    if written is not None:
        server.put(POLICY, data={"policy.yaml": written})
    server.put(VALID, data={"policy.yaml": OWN})
    acts_by(server, HASH)
    _, _, err = run(capsys, *command)
    said = f"the policy in {PLACE} is invalid (" if written is not None else f"there is no policy in {PLACE}"
    assert f"warning: {said}" in err
    acts_by(server, HASH, valid=False)
    _, out, err = run(capsys, *command)
    assert f"warning: the controller refuses the policy in {PLACE} (" in err
    assert "the last valid one is in force, and used here" in err
    if command[0] in {"plan", "report"}:
        assert f"olicy {HASH} ({PLACE}-valid, the controller's)" in out
    assert ("mode: found 1" if written is not None else "(mode: found 1; interval: found x)") in err


@pytest.mark.parametrize("command", READERS)
def test_where_no_controller_runs_no_policy_is_said_to_be_in_force(
    command: list[str], server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next controller begins with what is written, whatever the last one thought of that."""
    lead(server, FREED)
    server.put(VALID, data={"policy.yaml": OWN})
    acts_by(server, HASH, valid=False)
    _, out, err = run(capsys, *command)
    assert f"warning: there is no policy in {PLACE}, and no controller runs; the last valid one is used here" in err
    assert "in force" not in out + err
    if command[0] in {"plan", "report"}:
        assert f"olicy {HASH} ({PLACE}-valid, stored by the controller)" in out
    server.put(POLICY, data={"policy.yaml": f"{HEAD}mode: 1\n"})
    assert "in force" not in "".join(map(str, run(capsys, *command)[1:]))
    server.put(POLICY, data={"policy.yaml": f"{OWN}interval: 5m\n"})
    assert "polic" not in run(capsys, *command)[2]
    server.put(VALID, data={"policy.yaml": f"{HEAD}mode: 1\n"})
    server.put(POLICY, data={"policy.yaml": f"{HEAD}mode: 1\n"})
    assert f"warning: the policy of the next controller, {PLACE}, is invalid: " in run(capsys, *command)[2]


def test_where_no_controller_runs_the_policy_is_the_last_controllers(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside "no controller runs" there is none whose policy it could be."""
    lead(server, FREED)
    server.put(POLICY, data={"policy.yaml": OWN})
    acts_by(server, HASH)
    for command in ("plan", "report"):
        _, out, _ = run(capsys, command)
        assert f"olicy {HASH} ({PLACE}, the last controller's)" in out.replace("\n", " ")


def test_a_policy_that_is_gone_is_not_called_refused(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.put(VALID, data={"policy.yaml": OWN})
    gone = "configmap:rebalancer-system/rebalancer-policy: there is no such ConfigMap"
    policy = {"hash": HASH, "source": PLACE, "valid": False, "missing": True, "error": gone}
    server.put(MAP, data={"status.json": json.dumps({**STATUS, "policy": policy})})
    said = f"there is no policy in {PLACE}; the last valid one is in force, and used here"
    assert f"warning: {said}" in run(capsys, "plan")[2]
    assert choose_policy(None, "rebalancer-system", kubeconfig=None, context=None).missing, "which check says"
    assert f"No policy can be read, the last valid one stays in force: {gone}" in run(capsys, "status")[1]
    assert f"no policy can be read: {gone}" in run(capsys, "status")[1].splitlines()[0]


def test_what_is_stored_as_valid_counts_only_if_the_controller_acts_by_it(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be left from an earlier installation; and a valid policy that people have just written is shown."""
    server.put(POLICY, data={"policy.yaml": f"{HEAD}mode: 1\n"})
    server.put(VALID, data={"policy.yaml": OWN})
    acts_by(server, "0123")
    assert USED in run(capsys, "plan")[2]
    server.put(POLICY, data={"policy.yaml": f"{OWN}interval: 5m\n"})
    acts_by(server, HASH)
    assert "it has not read yet" in run(capsys, "plan")[2]


CONFIGURATION: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "mine"}],
}


def test_the_schedulers_configuration_is_read_where_the_controller_has_it(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is mounted beside the policy, from the same ConfigMap; what is elsewhere in its pod is a warning."""
    text = f"{OWN}scheduler: {{name: mine, configFile: /etc/rebalancer/scheduler.yaml}}\n"
    server.put(POLICY, data={"policy.yaml": text, "scheduler.yaml": json.dumps(CONFIGURATION)})
    assert run(capsys, "plan")[::2] == (Exit.FINE, "")
    server.put(POLICY, data={"policy.yaml": text})
    code, _, err = run(capsys, "plan")
    assert code == Exit.FINE
    assert err == (
        "warning: scheduler.configFile: /etc/rebalancer/scheduler.yaml: No such file or directory; the scheduler's "
        "defaults are taken. Give a policy and its configuration as files with --policy\n"
    )
    server.put(POLICY, data={"policy.yaml": text, "scheduler.yaml": json.dumps({**CONFIGURATION, "profiles": []})})
    assert "has no profile 'mine'" in run(capsys, "plan")[2]
