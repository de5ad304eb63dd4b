"""The policy in force is stored by the process that leads, once, and again when it changes."""

from pathlib import Path

from structlog.testing import capture_logs

from rebalancer.controller.policy_source import PolicyWatcher
from rebalancer.controller.valid_policy import ValidPolicyKeeper
from tests.adapters.kubernetes.fake_server import ApiServer, served
from tests.build import HEAD

PATH = "/api/v1/namespaces/ops/configmaps/rebalancer-policy-valid"
FIRST, SECOND = HEAD, f"{HEAD}mode: Evict\n"


def writes(server: ApiServer) -> int:
    return server.requests.count(("PATCH", PATH))


def test_a_leader_stores_it_once_and_when_it_changes() -> None:
    """Who does not lead stores nothing; a new leader stores it again, as another may have stored another one."""
    server, leads = ApiServer(), [False]
    server.put(PATH, binaryData={"policy.yaml": "AA=="})
    with served(server) as transport:
        keeper = ValidPolicyKeeper(transport, "ops", first=FIRST.encode(), leads=lambda: leads[0])
        keeper.poll()
        assert writes(server) == 0
        leads[0] = True
        keeper.poll()
        keeper.poll()
        assert (server.data(PATH), writes(server)) == ({"policy.yaml": FIRST}, 1)
        assert not server.objects[PATH]["binaryData"], "no key may be in both"
        keeper.take(SECOND.encode())
        keeper.poll()
        assert (server.data(PATH), writes(server)) == ({"policy.yaml": SECOND}, 2)
        leads[0] = False
        keeper.poll()
        leads[0] = True
        keeper.poll()
        assert writes(server) == 3


def test_what_cannot_be_stored_is_logged_once_and_tried_again() -> None:
    """The installation may lack the ConfigMap, or the right: nothing else waits for it."""
    server = ApiServer()
    with served(server) as transport, capture_logs() as logs:
        keeper = ValidPolicyKeeper(transport, "ops", first=FIRST.encode(), leads=lambda: True)
        keeper.poll()
        keeper.poll()
        assert [(log["event"], log["place"]) for log in logs] == [
            ("policy not stored", "ConfigMap ops/rebalancer-policy-valid")
        ]
        assert writes(server) == 1, "an installation without the right is not asked every ten seconds"
        server.put(PATH)
        for _ in range(60):
            keeper.poll()
        assert server.data(PATH) == {"policy.yaml": FIRST}
        server.objects.clear()
        keeper.take(SECOND.encode())
        keeper.poll()
        server.put(PATH)
        keeper.take(FIRST.encode() + b"\n")
        keeper.poll()
        assert server.data(PATH) == {"policy.yaml": f"{FIRST}\n"}, "another policy is tried at once"


def test_only_a_valid_policy_is_given_to_it(tmp_path: Path) -> None:
    """A refused one stays where people have written it, and in force is the one before."""
    file = tmp_path / "policy.yaml"
    file.write_text(FIRST)
    kept: list[bytes] = []
    watcher = PolicyWatcher(
        read=file.read_bytes, source=str(file), tell=lambda _: None, first=file.read_bytes(), keep=kept.append
    )
    file.write_text(f"{HEAD}mode: 1\n")
    watcher.poll()
    file.write_text(SECOND)
    watcher.poll()
    assert kept == [SECOND.encode()]
