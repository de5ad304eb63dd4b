"""What `deploy/gitops` has for the tools of others: Argo CD's health, checks of a policy before it is applied."""

import re
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from lupa.lua51 import LuaRuntime  # type: ignore[import-not-found, import-untyped, unused-ignore]  # Argo CD's is a Lua 5.1

from rebalancer.controller.status import status_document
from rebalancer.documents.document import to_json
from rebalancer.documents.status import ApprovalStatus, PauseStatus, PolicyStatus
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import load_policy
from rebalancer.simulator import ZONE, ClusterBuilder
from tests.controller.cycles import cycle_of
from tests.deploy.manifests import DEPLOY, ROOT, Manifest
from tests.deploy.rendering import render_kustomization
from tests.reports import state_of

FOLDER = DEPLOY / "gitops"
NOW = datetime(2026, 11, 28, 14, 0, tzinfo=UTC)
HASH = "9c892752578c4748"


def shop() -> Snapshot:
    builder = ClusterBuilder()
    builder.zones("abc", 2)
    builder.deployment("web", on={"a-1": 4}, spread={ZONE: 1})
    return builder.snapshot()


POLICY = load_policy(b"apiVersion: rebalancer.dev/v1alpha1\nkind: RebalancePolicy\nmode: Evict\n", source="test")
STATUS = status_document(
    state_of(cycle_of(shop(), POLICY)), "rebalancer-5d9c7b6f4-x2k8q", "configmap:a/rebalancer-policy"
)
"""What a controller in mode Evict writes after a cycle."""


def status(*, seconds: float = 10, **changes: Any) -> dict[str, Any]:
    """Return the ConfigMap of a controller that ended its last cycle so many seconds ago."""
    changes = {"last_cycle": NOW - timedelta(seconds=seconds), **changes}
    return named("rebalancer-status", {"status.json": to_json(msgspec.structs.replace(STATUS, **changes)).decode()})


def in_force(**changes: Any) -> PolicyStatus:
    return msgspec.structs.replace(STATUS.policy, **changes)


def named(name: str, data: dict[str, str] | None) -> dict[str, Any]:
    return {"metadata": {"name": name}, **({"data": data} if data is not None else {})}


def health(config_map: dict[str, Any], *, now: datetime = NOW) -> tuple[str, str]:
    """Return what Argo CD would say of a ConfigMap: its status and its message."""
    patch = yaml.safe_load((FOLDER / "argocd-cm.yaml").read_text())["data"]
    assert patch["resource.customizations.useOpenLibs.ConfigMap"] == "true"
    lua = LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = lua.table_from(config_map, recursive=True)
    lua.globals().os.time = now.timestamp
    found = lua.execute(patch["resource.customizations.health.ConfigMap"])
    return found["status"], found["message"]


def approval(*, approved: bool) -> ApprovalStatus:
    return ApprovalStatus(
        hash=HASH,
        approved=approved,
        since=NOW,
        expires_at=NOW,
        evictions=(),
        total=1,
        left=1,
        command=f"rebalancer approve {HASH}",
        who="whoever may",
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("Healthy", "mode Evict")),
        (
            {"policy": in_force(valid=False, error='mode: found "Evcit"')},
            ("Degraded", "the newest policy is refused: rebalancer status says why"),
        ),
        (
            {"approval": approval(approved=False)},
            ("Suspended", f"a plan waits for approval: rebalancer approve {HASH}"),
        ),
        ({"approval": approval(approved=True)}, ("Healthy", "mode Evict")),
        (
            {"paused": PauseStatus(until=None, reason="zone b", by="oncall")},
            ("Suspended", "paused: rebalancer resume ends it"),
        ),
        ({"last_cycle": None}, ("Progressing", "the first cycle has not ended yet")),
        ({"stale": '"valid": false, "paused": {'}, ("Healthy", "mode Evict")),
    ],
)
def test_argo_cd_shows_what_the_status_says(changes: dict[str, Any], expected: tuple[str, str]) -> None:
    """As the controller's own encoder writes it; what stands in a text means nothing."""
    assert health(status(**changes)) == expected


@pytest.mark.parametrize(
    ("seconds", "interval", "expected"),
    [(299, 60, "Healthy"), (301, 60, "Degraded"), (899, 300, "Healthy"), (901, 300, "Degraded")],
)
def test_nobody_who_leads_is_degraded(seconds: int, interval: int, expected: str) -> None:
    """After five minutes, or three intervals where these are longer."""
    last = NOW - timedelta(seconds=seconds)
    state, message = health(status(seconds=seconds, policy=in_force(interval_seconds=interval)))
    assert state == expected
    assert expected == "Healthy" or message == f"no controller runs: the last cycle was at {last:%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.parametrize("day", ["2024-02-29", "2026-03-01", "2026-12-31", "2027-01-01", "2100-02-28", "2100-03-01"])
def test_the_time_is_right_on_each_day(day: str) -> None:
    last = datetime.fromisoformat(f"{day}T23:59:59+00:00")
    shown = status(last_cycle=last)
    assert health(shown, now=last + timedelta(seconds=300))[0] == "Healthy"
    assert health(shown, now=last + timedelta(seconds=301))[0] == "Degraded"


def test_other_config_maps_stay_healthy_and_an_empty_one_waits() -> None:
    assert health(named("kube-root-ca.crt", {"ca.crt": "…"})) == ("Healthy", "")
    assert health(named("rebalancer-status", None))[0] == "Progressing"
    assert health(named("rebalancer-status", {"memory.json": "{}"}))[0] == "Progressing"


def check_policy(policy: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run what the check's Job runs, with a policy in its ConfigMap."""
    (job,) = (one for one in render_kustomization(FOLDER / "check") if one["kind"] == "Job")
    pod = job["spec"]["template"]["spec"]
    (container,), (volume,) = pod["containers"], pod["volumes"]
    (mount,) = container["volumeMounts"]
    assert (mount["name"], volume["configMap"]) == (volume["name"], {"name": "rebalancer-policy-check"})
    (folder / "policy.yaml").write_text(policy)
    words = [word.replace(f"{mount['mountPath']}/", f"{folder}/") for word in container["args"]]
    return subprocess.run(
        [sys.executable, "-m", "rebalancer.cli.start", *words],
        cwd=folder,
        env={"PATH": "", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_job_lets_a_valid_policy_pass_and_lists_the_problems_of_another(tmp_path: Path) -> None:
    valid = (FOLDER / "argocd" / "policy.yaml").read_text()
    assert check_policy(valid, tmp_path).returncode == 0
    refused = check_policy(f"{valid}intervall: 5m\n", tmp_path)
    assert refused.returncode == 1
    line = len(f"{valid}x".splitlines())
    assert f"policy.yaml:{line}: intervall: unknown field; did you mean interval?" in refused.stderr


def test_argo_cd_checks_the_policy_that_it_is_about_to_apply() -> None:
    """The hook's ConfigMap comes before the Job, both before everything else; the text is that of the policy."""
    objects = identities(render_kustomization(FOLDER / "argocd"))
    policy, checked = (objects["ConfigMap", name] for name in ("rebalancer-policy", "rebalancer-policy-check"))
    assert policy["data"] == checked["data"] == {"policy.yaml": (FOLDER / "argocd" / "policy.yaml").read_text()}
    job = objects["Job", "rebalancer-policy-check"]
    hooks = [one["metadata"]["annotations"] for one in (checked, job)]
    assert [one["argocd.argoproj.io/hook"] for one in hooks] == ["PreSync", "PreSync"]
    assert [int(one.get("argocd.argoproj.io/sync-wave", "0")) for one in hooks] == [-1, 0]
    assert {one["metadata"]["namespace"] for one in (policy, checked, job)} == {"rebalancer-system"}
    installed = {(one["kind"], one["metadata"]["name"]) for one in render_kustomization(DEPLOY / "base")}
    assert objects.keys() == installed | {("ConfigMap", "rebalancer-policy-check"), ("Job", "rebalancer-policy-check")}


def identities(objects: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


def copy_of(name: str, folder: Path, policy: str) -> Path:
    """Copy a folder of `deploy/gitops` with another policy, and what its comments name, beside all it needs."""
    shutil.copytree(DEPLOY, folder / "deploy", ignore=shutil.ignore_patterns("chart", "monitoring"))
    made = folder / "deploy" / "gitops" / name
    for file in made.rglob("kustomization.yaml"):
        text = file.read_text()
        file.write_text(re.sub(r"^# (components:\n)#( +- .*\n)", r"\1 \2", text, flags=re.MULTILINE))
    (source,) = made.rglob("policy.yaml")
    source.write_text(policy)
    return made


EVICTING = "apiVersion: rebalancer.dev/v1alpha1\nkind: RebalancePolicy\nmode: Evict\n"


def test_what_argo_cd_checks_is_what_it_applies_with_the_right_to_evict_too(tmp_path: Path) -> None:
    """As the comments of the folder say it: the policy's own mode, and the component."""
    objects = identities(render_kustomization(copy_of("argocd", tmp_path, EVICTING)))
    for name in ("rebalancer-policy", "rebalancer-policy-check"):
        assert objects["ConfigMap", name]["data"] == {"policy.yaml": EVICTING}
    assert ("ClusterRole", "rebalancer-evict") in objects


def test_flux_checks_what_it_applies_and_has_a_job_for_each_policy(tmp_path: Path) -> None:
    """A Job that is done would say nothing of another text; it names the ConfigMap, whose name has the text's hash."""
    named = set()
    for number, policy in enumerate((EVICTING, f"{EVICTING}interval: 5m\n")):
        folder = copy_of("flux", tmp_path / str(number), policy)
        checked = identities(render_kustomization(folder / "check"))
        (source,) = (one for kind, one in checked if kind == "ConfigMap")
        assert checked["ConfigMap", source]["data"] == {"policy.yaml": policy}
        job = checked["Job", "rebalancer-policy-check"]
        assert job["spec"]["template"]["spec"]["volumes"] == [{"name": "policy", "configMap": {"name": source}}]
        assert {one["metadata"]["namespace"] for one in checked.values()} == {"flux-system"}
        named.add(source)
        installed = identities(render_kustomization(folder / "install"))
        assert installed["ConfigMap", "rebalancer-policy"]["data"] == {"policy.yaml": policy}
        evicting = identities(render_kustomization(folder.parents[1] / "evict"))
        assert installed.keys() == {*evicting, ("ConfigMap", source)}
    assert len(named) == 2


def test_the_examples_keep_the_shipped_limits() -> None:
    """Whoever moves from deploy/base loses no alert."""
    shipped = identities(render_kustomization(DEPLOY / "base"))["ConfigMap", "rebalancer-policy"]["data"]["policy.yaml"]
    for file in (FOLDER / "argocd" / "policy.yaml", FOLDER / "flux" / "policy" / "policy.yaml"):
        assert load_policy(file.read_bytes(), source="example") == load_policy(shipped.encode(), source="shipped")


def test_pre_commit_checks_every_file_that_is_committed() -> None:
    """It appends the names of the files to the entry: all are checked, and the first fault hides no other."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (hook,) = (one for one in hooks if one["id"] == "rebalancer-policy")
    program, *words = shlex.split(hook["entry"])
    assert program == "rebalancer"

    def run(*files: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rebalancer.cli.start", *words, *files]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)

    good, bad = ["docs/examples/limits.yaml", "config/policy.yaml"], "docs/examples/mistaken-policy.yaml"
    assert run(*good).returncode == 0
    refused = run(good[0], bad, good[1])
    assert refused.returncode == 1
    assert all(name in refused.stdout for name in good)
    assert f"error: {bad} is not a valid policy" in refused.stderr
