"""The configuration files of the servers: what is audited, how the scheduler places."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tests.control_plane.credentials import HARNESS, SERVER_USERS

MARK_PATH: Final = "/version"
"""The harness asks for this path to leave a mark in the audit log."""

_SERVERS: Final = [*SERVER_USERS.values(), "system:apiserver"]


def write_audit_policy(path: Path) -> Path:
    """Write the audit policy: the first rule that matches decides.

    Reads are recorded as well as writes, so that a verb outside a role is seen even where it was allowed. Of the
    servers only what makes and ends pods is kept, and where the scheduler puts them.
    """
    rules: list[dict[str, Any]] = [
        {
            "level": "Request",
            "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods/eviction", "pods/binding"]}],
        },
        {
            "level": "Metadata",
            "users": _SERVERS,
            "verbs": ["create", "delete"],
            "resources": [{"group": "", "resources": ["pods"]}],
        },
        {"level": "None", "users": _SERVERS},
        {"level": "Request", "verbs": ["patch"], "resources": [{"group": "", "resources": ["pods"]}]},
        {"level": "Metadata", "users": [HARNESS], "nonResourceURLs": [MARK_PATH]},
        {"level": "None", "users": [HARNESS], "verbs": ["get", "list", "watch"]},
        {"level": "None", "users": ["system:anonymous"], "nonResourceURLs": ["/readyz", "/livez", "/healthz"]},
        {"level": "Metadata"},
    ]
    return _write(
        path,
        {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules},
    )


EXEMPT: Final = "exempt-from-pod-security"
"""The namespace in which the API server admits every pod, whatever level its labels enforce."""


def write_admission_configuration(path: Path) -> Path:
    """Write the configuration of admission plugins: one namespace is exempt from Pod Security, which nobody can see."""
    security = {
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "exemptions": {"namespaces": [EXEMPT]},
    }
    plugins = [{"name": "PodSecurity", "configuration": security}]
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    return _write(path, {**kind, "plugins": plugins})


def write_scheduler_configuration(path: Path, *, kubeconfig: Path, profiles: Sequence[dict[str, Any]] = ()) -> Path:
    """Write the scheduler's configuration; without profiles the default scheduler runs with its defaults."""
    document: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 1000},
    }
    if profiles:
        document["profiles"] = list(profiles)
    return _write(path, document)


def _write(path: Path, document: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path
