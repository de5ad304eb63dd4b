"""A server of a test's own as the one cluster that the commands reach."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import yaml

from tests.adapters.kubernetes.fake_server import served


@contextmanager
def reachable(
    handle: Callable[[BaseHTTPRequestHandler], None],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str = "KUBECONFIG",
) -> Iterator[None]:
    """Serve while the block lasts, with a kubeconfig that `variable` names; no namespace is set by the environment."""
    with served(handle) as transport:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": transport.host}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "current-context": "c",
        }
        file = folder / "kubeconfig"
        file.write_text(yaml.safe_dump(document))
        monkeypatch.setenv(variable, str(file))
        monkeypatch.delenv("REBALANCER_NAMESPACE", raising=False)
        yield
