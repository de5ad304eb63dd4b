"""Locations: the process's namespace, its policy, its listen addresses, and the names of the objects that it writes.

They are apart from the settings, whose declarations take long to import, for commands that read no settings.
"""

import os
import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from rebalancer.policy.base import unexpected

PREFIX: Final = "REBALANCER_"
"""The prefix of the environment variables."""

OUTSIDE_NAMESPACE: Final = "rebalancer-system"
SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?\Z")


@dataclass(frozen=True, slots=True)
class FilePolicy:
    """The policy is a file, read again whenever its content changes."""

    path: Path

    def __str__(self) -> str:
        """Show it as `--policy` takes it."""
        return str(self.path)


@dataclass(frozen=True, slots=True)
class ConfigMapPolicy:
    """The policy is the key `policy.yaml` of a ConfigMap, watched."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Show it as `--policy` takes it."""
        return f"configmap:{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; host "" is all addresses."""

    host: str
    port: int

    def __str__(self) -> str:
        """Show it as `host:port`, an IPv6 host in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_policy_location(value: object) -> FilePolicy | ConfigMapPolicy:
    """Read FILE or configmap:NAMESPACE/NAME; ValueError says what was expected."""
    if isinstance(value, FilePolicy | ConfigMapPolicy):
        return value
    if not isinstance(value, str) or not value.strip():
        raise unexpected("a file or configmap:NAMESPACE/NAME")
    if not value.startswith("configmap:"):
        return FilePolicy(Path(value))
    namespace, _, name = value.removeprefix("configmap:").partition("/")
    if NAME.match(namespace) and NAME.match(name):
        return ConfigMapPolicy(namespace, name)
    raise unexpected("configmap:NAMESPACE/NAME", suggestion=f"./{value} for a file of that name")


def parse_address(value: object) -> Address:
    """Read HOST:PORT; ValueError says what was expected."""
    if isinstance(value, Address):
        return value
    host, colon, port = str(value).rpartition(":")
    if not (colon and port.isascii() and port.isdecimal() and len(port) < 6 and int(port) <= 65535):
        raise unexpected("HOST:PORT, such as :8080 for all addresses")
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ip_address(host.strip("[]") if bracketed else host).compressed if host else ""
    except ValueError:
        raise unexpected("an IP address before the port, such as 127.0.0.1:8080 or [::1]:8080") from None
    if bracketed != (":" in address):
        raise unexpected("an IPv6 address in brackets, such as [::1]:8080")
    return Address(address, int(port))


def own_namespace() -> str:
    """Return the namespace of the pod this process runs in, else `rebalancer-system`."""
    try:
        return SERVICE_ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip() or OUTSIDE_NAMESPACE
    except OSError:
        return OUTSIDE_NAMESPACE


def controller_namespace() -> str:
    """Return the namespace of the controller's objects: from the environment, else the pod's own, else the default."""
    return os.environ.get(f"{PREFIX}NAMESPACE") or own_namespace()
