"""What the Pod Security Standards forbid of a pod template, level by level and version by version.

Source: `k8s.io/pod-security-admission/policy` (1.36), one function for each check. Not read: the annotations for
AppArmor and seccomp from before they had fields. A violation of `baseline` also violates `restricted`.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from rebalancer.decoding import wire
from rebalancer.model.creation import SecurityViolation

_BASELINE, _RESTRICTED = "baseline", "restricted"
_WINDOWS_EXEMPT: Final = 25
"""From this version on pods with `spec.os.name: windows` need no Linux security context."""
_USER_NAMESPACES: Final = 35
"""From this version on pods with `hostUsers: false` may run as root, inside."""
_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
_PROFILES: Final = frozenset({"RuntimeDefault", "Localhost"})
_SELINUX_TYPES: Final = {"": 0, "container_t": 0, "container_init_t": 0, "container_kvm_t": 0, "container_engine_t": 31}
_SYSCTLS: Final = {
    **dict.fromkeys(
        (
            "kernel.shm_rmid_forced",
            "net.ipv4.ip_local_port_range",
            "net.ipv4.tcp_syncookies",
            "net.ipv4.ping_group_range",
            "net.ipv4.ip_unprivileged_port_start",
        ),
        0,
    ),
    "net.ipv4.ip_local_reserved_ports": 27,
    **dict.fromkeys((f"net.ipv4.tcp_{name}" for name in ("keepalive_time", "fin_timeout")), 29),
    **dict.fromkeys((f"net.ipv4.tcp_keepalive_{name}" for name in ("intvl", "probes")), 29),
    **dict.fromkeys(("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"), 32),
}
"""From which version on a sysctl is allowed."""


def find_violations(spec: wire.TemplateSpec) -> Iterator[SecurityViolation]:
    """Yield what the standards forbid in a template, for the pod and for each of its containers."""
    containers = [*(spec.init_containers or ()), *spec.containers]
    yield from _find_host_access(spec, containers)
    yield from _find_baseline(spec, containers)
    yield from _find_restricted(spec, containers)


def _find_host_access(
    spec: wire.TemplateSpec, containers: Iterable[wire.TemplateContainer]
) -> Iterator[SecurityViolation]:
    """Yield the host resources that a template uses."""
    for name, used in (("hostNetwork", spec.host_network), ("hostPID", spec.host_pid), ("hostIPC", spec.host_ipc)):
        if used:
            yield SecurityViolation(_BASELINE, f"{name} is true")
    for volume in spec.volumes or ():
        if volume.host_path is not None:
            yield SecurityViolation(_BASELINE, f"volume {volume.name} is a hostPath")
        elif not _has_allowed_source(volume):
            yield SecurityViolation(_RESTRICTED, f"volume {volume.name} is of a kind that is not allowed")
    for container in containers:
        if any(port.host_port for port in container.ports or ()):
            yield SecurityViolation(_BASELINE, f"container {container.name} has a hostPort")
        lifecycle = container.lifecycle or wire.Lifecycle()
        probes = (container.liveness_probe, container.readiness_probe, container.startup_probe)
        if any(map(_calls_host, (*probes, lifecycle.post_start, lifecycle.pre_stop))):
            yield SecurityViolation(_BASELINE, f"a probe or handler of container {container.name} names a host", 34)


def _has_allowed_source(volume: wire.TemplateVolume) -> bool:
    allowed = (
        volume.config_map,
        volume.csi,
        volume.downward_api,
        volume.empty_dir,
        volume.ephemeral,
        volume.image,
        volume.persistent_volume_claim,
        volume.projected,
        volume.secret,
    )
    return any(source is not None for source in allowed)


def _calls_host(handler: wire.Handler | None) -> bool:
    called = (handler.http_get, handler.tcp_socket) if handler is not None else ()
    return any(one is not None and one.host for one in called)


def _find_baseline(
    spec: wire.TemplateSpec, containers: Iterable[wire.TemplateContainer]
) -> Iterator[SecurityViolation]:
    """Yield what the security contexts of a template set that `baseline` forbids."""
    user_namespace = spec.host_users is False
    for who, context in _contexts(spec, containers):
        if context.privileged:
            yield SecurityViolation(_BASELINE, f"privileged of {who} is true")
        if context.windows_options is not None and context.windows_options.host_process:
            yield SecurityViolation(_BASELINE, f"windowsOptions.hostProcess of {who} is true")
        yield from _find_capabilities(who, context.capabilities or wire.Capabilities())
        for name, profile, since in (
            ("appArmorProfile", context.app_armor_profile, 0),
            ("seccompProfile", context.seccomp_profile, 19),
        ):
            if profile is not None and profile.type not in _PROFILES:
                yield SecurityViolation(_BASELINE, f"{name} of {who} is {profile.type}", since)
        if context.proc_mount not in {None, "Default"}:
            what = f"procMount of {who} is {context.proc_mount}"
            yield SecurityViolation(_BASELINE, what, 0, _USER_NAMESPACES if user_namespace else 0)
            if user_namespace:
                yield SecurityViolation(_RESTRICTED, what, _USER_NAMESPACES)
        yield from _find_selinux(who, context.se_linux_options)
        for sysctl in context.sysctls or ():
            allowed = _SYSCTLS.get(sysctl.name)
            if allowed != 0:
                yield SecurityViolation(_BASELINE, f"{who} sets sysctl {sysctl.name}", 0, allowed or 0)


def _find_capabilities(who: str, capabilities: wire.Capabilities) -> Iterator[SecurityViolation]:
    for name in capabilities.add or ():
        if name not in _CAPABILITIES:
            yield SecurityViolation(_BASELINE, f"{who} adds the capability {name}")
        elif name != "NET_BIND_SERVICE":
            yield SecurityViolation(_RESTRICTED, f"{who} adds the capability {name}", 22)


def _find_selinux(who: str, options: wire.SELinuxOptions | None) -> Iterator[SecurityViolation]:
    if options is None:
        return
    allowed = _SELINUX_TYPES.get(options.type)
    if allowed != 0:
        yield SecurityViolation(_BASELINE, f"seLinuxOptions.type of {who} is {options.type}", 0, allowed or 0)
    if options.user or options.role:
        yield SecurityViolation(_BASELINE, f"seLinuxOptions of {who} name a user or a role")


def _find_restricted(
    spec: wire.TemplateSpec, containers: Iterable[wire.TemplateContainer]
) -> Iterator[SecurityViolation]:
    """Yield what the security contexts of a template do not say that `restricted` requires."""
    linux = _WINDOWS_EXEMPT if spec.os is not None and spec.os.name == "windows" else 0
    root = _USER_NAMESPACES if spec.host_users is False else 0
    pod = spec.security_context or wire.SecurityContext()
    if pod.run_as_non_root is False:
        yield SecurityViolation(_RESTRICTED, "runAsNonRoot of the pod is false", 0, root)
    if pod.run_as_user == 0:
        yield SecurityViolation(_RESTRICTED, "runAsUser of the pod is 0", 23, root)
    for container in containers:
        who, context = f"container {container.name}", container.security_context or wire.SecurityContext()
        if context.allow_privilege_escalation is not False:
            yield SecurityViolation(_RESTRICTED, f"allowPrivilegeEscalation of {who} is not false", 8, linux)
        non_root = context.run_as_non_root
        if non_root is False or (non_root is None and pod.run_as_non_root is None):
            yield SecurityViolation(_RESTRICTED, f"runAsNonRoot of {who} is not true", 0, root)
        if context.run_as_user == 0:
            yield SecurityViolation(_RESTRICTED, f"runAsUser of {who} is 0", 23, root)
        profile = context.seccomp_profile or pod.seccomp_profile
        if profile is None:
            yield SecurityViolation(_RESTRICTED, f"seccompProfile of {who} is not set", 19, linux)
        dropped = context.capabilities.drop or () if context.capabilities is not None else ()
        if "ALL" not in dropped:
            yield SecurityViolation(_RESTRICTED, f"{who} does not drop the capability ALL", 22, linux)


def _contexts(
    spec: wire.TemplateSpec, containers: Iterable[wire.TemplateContainer]
) -> Iterator[tuple[str, wire.SecurityContext]]:
    if spec.security_context is not None:
        yield "the pod", spec.security_context
    for container in containers:
        if container.security_context is not None:
            yield f"container {container.name}", container.security_context
