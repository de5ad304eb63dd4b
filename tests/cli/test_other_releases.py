"""A live API server of a release whose scheduler is not modelled: read all the same, with one warning."""

import pytest

from rebalancer.cli import cluster
from rebalancer.cli.main import main
from rebalancer.model.cluster import NEWEST, OLDEST
from tests.adapters.kubernetes.fake_server import ApiServer, served

NEXT, LAST = NEWEST.minor + 1, OLDEST.minor - 1
NEWER = (
    f"the API server is Kubernetes 1.{NEXT}, the newest release whose scheduler is modelled is {NEWEST}: pods "
    "may be placed otherwise than predicted. Look for a newer release of Rebalancer"
)
OLDER = (
    f"the API server is Kubernetes 1.{LAST}, the oldest release whose scheduler is modelled is {OLDEST}: pods "
    "may be placed otherwise than predicted. Upgrade the cluster"
)


@pytest.mark.parametrize(
    ("minor", "warning"), [(f"{NEXT}", NEWER), (f"{LAST}+", OLDER), (f"{NEWEST.minor}", ""), (f"{OLDEST.minor}", "")]
)
@pytest.mark.parametrize("command", ["report", "plan"])
def test_a_command_warns_once_of_a_release_that_is_not_modelled(
    command: str, minor: str, warning: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ApiServer()
    server.answers["GET", "/version"] = 200, {"major": "1", "minor": minor}
    with served(server) as transport:
        monkeypatch.setattr(cluster, "connect", lambda **_: transport)  # which has tests of its own
        monkeypatch.setattr("rebalancer.adapters.kubernetes.transport.connect", lambda **_: transport)
        assert main([command]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "is modelled" in line]
    assert len(said) == bool(warning)
    assert all(line.endswith(warning) for line in said)
