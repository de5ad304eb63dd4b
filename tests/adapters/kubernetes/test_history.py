"""The ConfigMaps of the history: read, written with their versions, and what is said where that is not possible."""

import pytest

from rebalancer.adapters.kubernetes.configmaps import find_author, find_config_map, read_config_map
from rebalancer.adapters.kubernetes.history import HistoryMaps
from rebalancer.history.contents import NO_CONTENTS, Write, find_writes
from rebalancer.history.declared import ANNOTATION, Declaration, format_declaration
from rebalancer.model.cluster import ConfigMap
from rebalancer.model.history import Author
from rebalancer.ports import HistoryError
from tests.adapters.kubernetes.fake_server import ApiServer, served
from tests.history.build import AT, HISTORY

MAPS = "/api/v1/namespaces/ns/configmaps/"
FIRST = f"{MAPS}rebalancer-history-0"


def installed() -> ApiServer:
    made = ApiServer()
    for name in ("", *(f"-{number}" for number in range(8))):
        made.put(f"{MAPS}rebalancer-history{name}")
    return made


def test_what_is_written_is_read_again() -> None:
    """By another process, too; another key of the object stays."""
    server = installed()
    server.put(FIRST, data={"note": "mine"})
    with served(server) as transport:
        maps = HistoryMaps(transport, "ns")
        contents = maps.read()
        assert contents == NO_CONTENTS
        for write in find_writes(contents, HISTORY):
            maps.write(write)
            contents = contents.after(write)
        assert HistoryMaps(transport, "ns").read() == contents
    assert server.data(FIRST)["note"] == "mine"


def test_nothing_is_overwritten_that_was_not_read() -> None:
    """Another leader has written since: the write is refused, and works after another read."""
    server = installed()
    with served(server) as transport:
        maps, other = HistoryMaps(transport, "ns"), HistoryMaps(transport, "ns")
        maps.read()
        other.read()
        write = Write("rebalancer-history-0", "entries.jsonl", "{}\n")
        other.write(write)
        with pytest.raises(HistoryError, match="has been changed since it was read"):
            maps.write(write)
        maps.read()
        maps.write(write)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (404, "kubectl create configmap rebalancer-history-0 --namespace ns"),
        (403, "this account may not get and patch ConfigMap ns/rebalancer-history-0; deploy/ has the Role"),
        (500, "ConfigMap ns/rebalancer-history-0: GET"),
    ],
)
def test_what_is_missing(code: int, message: str) -> None:
    """The message names the object and the way out; an answer that is no ConfigMap is an error like any other."""
    server = installed()
    server.answers["GET", FIRST] = code, "refused"
    with served(server) as transport, pytest.raises(HistoryError, match=message):
        HistoryMaps(transport, "ns").read()


def stored(**fields: object) -> ConfigMap:
    """Return a ConfigMap as an API server with these fields gives it."""
    server = ApiServer()
    server.put(FIRST, **fields)
    with served(server) as transport:
        config_map = read_config_map(transport, "ns", "rebalancer-history-0")
    assert config_map is not None
    return config_map


def manager(name: str, time: str | None, *keys: str) -> dict[str, object]:
    fields: dict[str, object] = {"f:data": {".": {}, **{f"f:{key}": {} for key in keys}}}
    return {"manager": name, "operation": "Update", "time": time, "fieldsV1": fields if keys else {}}


def test_who_has_changed_a_key() -> None:
    """The last one who has written it, by Kubernetes; what a command has declared, with what that is about."""
    managers = [
        manager("helm", "2026-01-05T07:00:00Z", "policy.yaml", "other"),
        manager("kubectl-edit", "2026-01-05T08:00:00Z", "policy.yaml"),
        manager("kubectl-patch", "2026-01-05T09:00:00Z", "other"),
        manager("kubectl-label", "2026-01-05T10:00:00Z"),
        manager("old", None, "policy.yaml"),
    ]
    edited = stored(metadata={"managedFields": managers})
    assert find_author(edited, "policy.yaml") == Author(manager="kubectl-edit", at=AT)
    assert find_author(edited, "pause.yaml") == Author()
    declared = {ANNOTATION: format_declaration(Declaration(by="alice", of="0a1b"))}
    assert find_author(stored(metadata={"annotations": declared}), "approved") == Author(who="alice", of="0a1b")


def test_a_config_map_that_may_only_be_listed() -> None:
    """By its name, without the right to get it."""
    server = installed()
    server.put(FIRST, data={"policy.yaml": "mode: Evict"})
    with served(server) as transport:
        found = find_config_map(transport, "ns", "rebalancer-history-0")
        assert found is not None
        assert found.data == {"policy.yaml": "mode: Evict"}
        assert find_config_map(transport, "ns", "missing") is None
