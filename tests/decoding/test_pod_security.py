"""What the Pod Security Standards forbid of a template: each check, at its level, in its versions."""

from typing import Any

import msgspec
import pytest

from rebalancer.decoding import wire
from rebalancer.decoding.pod_security import find_violations

RESTRICTED: dict[str, Any] = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {"name": "app", "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
    ],
}


def judged(spec: dict[str, Any], level: str, minor: int) -> list[str]:
    """Return what a level forbids in a version."""
    decoded = msgspec.json.decode(msgspec.json.encode(spec), type=wire.TemplateSpec)
    levels = {"baseline"} if level == "baseline" else {"baseline", "restricted"}
    return [
        one.what
        for one in find_violations(decoded)
        if one.level in levels and one.since <= minor and (not one.until or minor < one.until)
    ]


def with_context(
    pod: dict[str, Any] | None = None, container: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """Return a restricted template with some fields of the security contexts, and of the spec, replaced."""
    app = RESTRICTED["containers"][0]
    return {
        **RESTRICTED,
        "securityContext": {**RESTRICTED["securityContext"], **(pod or {})},
        "containers": [{**app, "securityContext": {**app["securityContext"], **(container or {})}}],
        **spec,
    }


def test_what_says_all_that_is_required_is_admitted_everywhere() -> None:
    assert judged(RESTRICTED, "restricted", 36) == []


def test_a_plain_template_is_admitted_by_baseline_and_not_by_restricted() -> None:
    plain = {"containers": [{"name": "app"}], "initContainers": [{"name": "first"}]}
    assert judged(plain, "baseline", 36) == []
    assert judged(plain, "restricted", 36) == [
        text.format(f"container {name}")
        for name in ("first", "app")
        for text in (
            "allowPrivilegeEscalation of {} is not false",
            "runAsNonRoot of {} is not true",
            "seccompProfile of {} is not set",
            "{} does not drop the capability ALL",
        )
    ]


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({"hostNetwork": True}, "hostNetwork is true"),
        ({"hostPID": True}, "hostPID is true"),
        ({"hostIPC": True}, "hostIPC is true"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "volume v is a hostPath"),
        ({"containers": [{"name": "app", "ports": [{"hostPort": 80}]}]}, "container app has a hostPort"),
        ({"securityContext": {"sysctls": [{"name": "kernel.msgmax"}]}}, "the pod sets sysctl kernel.msgmax"),
        (with_context({"seccompProfile": {"type": "Unconfined"}}), "seccompProfile of the pod is Unconfined"),
        (
            with_context(None, {"seccompProfile": {"type": "Unconfined"}}),
            "seccompProfile of container app is Unconfined",
        ),
        (with_context(None, {"privileged": True}), "privileged of container app is true"),
        (with_context({"appArmorProfile": {"type": "Unconfined"}}), "appArmorProfile of the pod is Unconfined"),
        (with_context(None, {"procMount": "Unmasked"}), "procMount of container app is Unmasked"),
        (with_context({"windowsOptions": {"hostProcess": True}}), "windowsOptions.hostProcess of the pod is true"),
        (with_context({"seLinuxOptions": {"type": "spc_t"}}), "seLinuxOptions.type of the pod is spc_t"),
        (with_context({"seLinuxOptions": {"user": "u"}}), "seLinuxOptions of the pod name a user or a role"),
        (with_context({"seLinuxOptions": {"role": "r"}}), "seLinuxOptions of the pod name a user or a role"),
        (
            with_context(None, {"capabilities": {"add": ["SYS_ADMIN"], "drop": ["ALL"]}}),
            "container app adds the capability SYS_ADMIN",
        ),
    ],
)
def test_baseline_forbids_what_reaches_the_node(spec: dict[str, Any], what: str) -> None:
    assert what in judged(spec, "baseline", 36)
    assert what in judged(spec, "restricted", 36)


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (with_context({"runAsNonRoot": False}), "runAsNonRoot of the pod is false"),
        (with_context({"runAsUser": 0}), "runAsUser of the pod is 0"),
        (with_context(None, {"runAsUser": 0}), "runAsUser of container app is 0"),
        (with_context(None, {"runAsNonRoot": False}), "runAsNonRoot of container app is not true"),
        (
            with_context(None, {"capabilities": {"add": ["CHOWN"], "drop": ["ALL"]}}),
            "container app adds the capability CHOWN",
        ),
        (with_context(None, {"capabilities": {"drop": ["KILL"]}}), "container app does not drop the capability ALL"),
        (with_context(volumes=[{"name": "v", "nfs": {}}]), "volume v is of a kind that is not allowed"),
    ],
)
def test_restricted_alone_forbids_what_is_not_hardened(spec: dict[str, Any], what: str) -> None:
    assert judged(spec, "baseline", 36) == []
    assert judged(spec, "restricted", 36) == [what]


@pytest.mark.parametrize(
    "spec",
    [
        with_context(None, {"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}}),
        with_context({"appArmorProfile": {"type": "Localhost"}, "runAsUser": 1000}),
        with_context({"seLinuxOptions": {"type": "container_t", "level": "s0"}}),
        with_context({"runAsNonRoot": None}, {"runAsNonRoot": True}),
        with_context({"seccompProfile": None}, {"seccompProfile": {"type": "Localhost"}, "procMount": "Default"}),
        with_context(
            volumes=[
                {"name": str(number), source: {}}
                for number, source in enumerate(
                    ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "projected", "secret")
                )
            ]
        ),
        with_context(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
        with_context({"windowsOptions": {"hostProcess": False}}),
    ],
)
def test_what_is_allowed_is_not_named(spec: dict[str, Any]) -> None:
    assert judged(spec, "restricted", 36) == []


PROBE = {"containers": [{"name": "app", "livenessProbe": {"httpGet": {"host": "10.0.0.1"}}}]}


@pytest.mark.parametrize(
    ("spec", "level", "first", "admitted"),
    [
        (with_context({"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}), "baseline", 27, True),
        (with_context({"sysctls": [{"name": "net.ipv4.tcp_fin_timeout"}]}), "baseline", 29, True),
        (with_context({"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}), "baseline", 32, True),
        (with_context({"seLinuxOptions": {"type": "container_engine_t"}}), "baseline", 31, True),
        (with_context({"runAsUser": 0}), "restricted", 23, False),
        (with_context({"runAsNonRoot": False}, hostUsers=False), "restricted", 35, True),
        (with_context({"runAsUser": 0}, hostUsers=False), "restricted", 35, True),
        (with_context(None, {"procMount": "Unmasked"}, hostUsers=False), "baseline", 35, True),
        (PROBE, "baseline", 34, False),
        (
            {"containers": [{"name": "app", "lifecycle": {"preStop": {"tcpSocket": {"host": "x"}}}}]},
            "baseline",
            34,
            False,
        ),
    ],
)
def test_rules_change_with_the_version(spec: dict[str, Any], level: str, first: int, admitted: bool) -> None:
    """Before `first` it is the other way round."""
    assert (judged(spec, level, first) == []) is admitted
    assert (judged(spec, level, first - 1) == []) is not admitted


def test_an_unmasked_proc_mount_in_a_user_namespace_is_for_baseline_only() -> None:
    spec = with_context(None, {"procMount": "Unmasked"}, hostUsers=False)
    assert judged(spec, "restricted", 36) == ["procMount of container app is Unmasked"]
    assert judged(spec, "restricted", 34) == ["procMount of container app is Unmasked"]


def test_windows_pods_need_no_linux_context_from_1_25_on() -> None:
    windows = {"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": True}, "containers": [{"name": "app"}]}
    assert judged(windows, "restricted", 25) == []
    assert len(judged(windows, "restricted", 24)) == 3


def test_a_probe_without_a_host_calls_the_pod_itself() -> None:
    probes = {name: {"httpGet": {"path": "/"}} for name in ("livenessProbe", "readinessProbe", "startupProbe")}
    spec = {"containers": [{"name": "app", **probes, "lifecycle": {"postStart": {"exec": {}}}}]}
    assert judged(spec, "baseline", 36) == []
