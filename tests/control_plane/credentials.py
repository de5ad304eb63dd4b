"""Who may talk to the test API server: tokens for the servers and the test, a key for service account tokens.

Everything is made anew for each control plane and lives in its temporary folder. The servers have a user each, so that
the audit log can tell their requests from those of the program under test.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

HARNESS: Final = "harness"
"""The user of the test's own client. Its reads are not audited: waiting is a lot of reading."""
ADMIN: Final = "admin"
"""A cluster administrator for programs under test. Everything it does is audited."""
SERVER_USERS: Final = {
    "kube-controller-manager": "system:kube-controller-manager",
    "kube-scheduler": "system:kube-scheduler",
    "kwok": "system:kwok",
}

NODES: Final = "system:node:"
"""What the users of kubelets begin with; the node's name follows."""

_PRIME256V1: Final = bytes.fromhex("06082a8648ce3d030107")


@dataclass(frozen=True)
class Tokens:
    """A fresh token for every built-in user; all of them are cluster administrators, except kubelets."""

    by_user: dict[str, str] = field(
        default_factory=lambda: {user: secrets.token_hex(16) for user in (HARNESS, ADMIN, *SERVER_USERS.values())},
        repr=False,
    )

    def add_nodes(self, names: Iterable[str]) -> None:
        """Add the users of kubelets."""
        self.by_user.update({f"{NODES}{name}": secrets.token_hex(16) for name in names})

    def write(self, path: Path) -> Path:
        """Write the file that `--token-auth-file` reads."""
        groups = {user: "system:nodes" if user.startswith(NODES) else "system:masters" for user in self.by_user}
        lines = [f"{token},{user},{user},{groups[user]}\n" for user, token in self.by_user.items()]
        path.write_text("".join(lines), encoding="utf-8")
        return path


def write_signing_key(path: Path) -> Path:
    """Write a new private key that signs service account tokens.

    An elliptic-curve key is a random number below the curve's order, and its public half follows from it, so that
    the standard library is enough to make one (RFC 5915).
    """
    scalar = bytes([secrets.randbelow(0x7F) + 1]) + secrets.token_bytes(31)
    body = bytes.fromhex("020101") + _tagged(0x04, scalar) + _tagged(0xA0, _PRIME256V1)
    text = base64.encodebytes(_tagged(0x30, body)).decode("ascii")
    path.write_text(f"-----BEGIN EC PRIVATE KEY-----\n{text}-----END EC PRIVATE KEY-----\n", encoding="ascii")
    path.chmod(0o600)
    return path


def _tagged(tag: int, content: bytes) -> bytes:
    return bytes([tag, len(content)]) + content


def write_kubeconfig(path: Path, *, url: str, ca_file: Path, user: str, token: str) -> Path:
    """Write a kubeconfig with one cluster, one user and one context."""
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        "current-context": "test",
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    path.chmod(0o600)
    return path
