"""A store follows the server through everything a network does."""

import json
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from structlog.testing import capture_logs

from rebalancer.adapters.kubernetes import reflector as reflector_module
from rebalancer.adapters.kubernetes.reflector import Contents, Reflector
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.decoding.kinds import NODE_POOLS, NODES, PODS
from tests.adapters.kubernetes.fake_server import answer, begin_stream, chunk, served
from tests.decoding.test_lists import POD


def pod(name: str, version: str, **spec: Any) -> dict[str, Any]:
    metadata = {**POD["metadata"], "name": name, "uid": f"uid-{name}", "resourceVersion": version}
    return {**POD, "metadata": metadata, "spec": {**POD["spec"], **spec}}


def page(*items: Any, version: str = "10", more: str = "") -> dict[str, Any]:
    return {"kind": "PodList", "metadata": {"resourceVersion": version, "continue": more}, "items": list(items)}


def event(kind: str, item: Any) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def until(condition: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < limit, f"waited in vain for {what}"
        time.sleep(0.01)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it try again soon after a failure."""
    monkeypatch.setattr(reflector_module, "_FIRST_WAIT", 0.02)


class Script:
    """Answers lists and watches from a script; a watch without one stays open and silent."""

    def __init__(self, lists: list[Any], watches: list[list[bytes | int]], *, silence: float = 3.0) -> None:
        self.silence = silence
        """Seconds after which the server ends a silent watch."""
        self.lists = lists
        self.watches = watches
        self.queries: list[dict[str, list[str]]] = []

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        query = parse_qs(urlsplit(request.path).query)
        self.queries.append(query)
        if "watch" not in query:
            answer(request, *self.lists.pop(0) if isinstance(self.lists[0], tuple) else (200, self.lists.pop(0)))
            return
        script = self.watches.pop(0) if self.watches else [b""]
        if script and isinstance(script[0], int):
            answer(request, script[0], {"kind": "Status", "code": script[0], "message": "as scripted"})
            return
        begin_stream(request)
        for step in script:
            assert isinstance(step, bytes)
            if not step:
                time.sleep(self.silence)
            else:
                chunk(request, step)
        request.wfile.write(b"0\r\n\r\n")

    @property
    def watched(self) -> list[str]:
        """The resource versions that watches began at."""
        return [query["resourceVersion"][0] for query in self.queries if "watch" in query]


def names(reflector: Reflector) -> list[str]:
    return sorted(item.name for item in reflector.contents().objects)


def following(transport: Transport) -> Reflector:
    reflector = Reflector(transport, PODS)
    reflector.start()
    assert reflector.synced.wait(10)
    return reflector


def ended(reflector: Reflector) -> None:
    began = time.monotonic()
    reflector.stop()
    reflector.join(5)
    assert time.monotonic() - began < 2, "it ends at once, in the middle of a watch too"


def test_pages_and_events() -> None:
    """A list in pages, then what is added, changed and deleted; a line may come in pieces."""
    added = event("ADDED", pod("c", "11"))
    script = Script(
        [page(pod("a", "1"), more="next"), page(pod("b", "2"))],
        [
            [
                added[:40],
                added[40:],
                event("DELETED", pod("a", "12")),
                event("MODIFIED", pod("b", "13", nodeName="n9")),
                b"",
            ]
        ],
    )
    with served(script) as transport:
        reflector = following(transport)
        until(lambda: names(reflector) == ["b", "c"], "the events")
        until(lambda: any(item.node == "n9" for item in reflector.contents().objects), "the change")
        assert reflector.contents() is reflector.contents(), "nothing has changed since"
        assert script.queries[0]["limit"] == ["500"]
        assert script.queries[1]["continue"] == ["next"]
        assert script.queries[2]["allowWatchBookmarks"] == ["true"]
        assert script.watched == ["10"]
        ended(reflector)


@pytest.mark.usefixtures("impatient")
def test_a_heartbeat_changes_nothing() -> None:
    """Nodes send one every few minutes; what was concluded from the contents holds on."""
    start = "2026-01-01T00:00:00Z"

    def node(version: str, at: str, **spec: Any) -> dict[str, Any]:
        condition = {
            "type": "Ready",
            "status": "True",
            "lastHeartbeatTime": at,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        metadata = {"name": "n1", "uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": version}
        status = {"conditions": [condition], "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
        return {"kind": "Node", "metadata": metadata, "spec": spec, "status": status}

    heartbeat = event("MODIFIED", node("11", "2026-01-01T00:05:00Z"))
    cordoned = event("MODIFIED", node("12", "2026-01-01T00:06:00Z", unschedulable=True))
    script = Script([page(node("1", start))], [[heartbeat], [cordoned]])
    seen: list[Contents] = []
    with served(script) as transport:
        reflector = Reflector(transport, NODES, changed=seen.append)
        reflector.start()
        until(lambda: len(seen) > 1, "the second change")
        ended(reflector)
    assert [[entry.unschedulable for entry in contents.objects] for contents in seen] == [[False], [True]]
    assert script.watched[:2] == ["10", "11"], "the watch is resumed after the heartbeat"


@pytest.mark.usefixtures("impatient")
def test_a_watch_that_ends_is_resumed() -> None:
    """From the last version seen, a bookmark's too, and without listing again."""
    script = Script([page(pod("a", "1"))], [[event("ADDED", pod("b", "30")), bookmark("40")]])
    with served(script) as transport:
        reflector = following(transport)
        until(lambda: len(script.watched) >= 2, "the second watch")
        assert script.watched[:2] == ["10", "40"]
        assert names(reflector) == ["a", "b"]
        assert reflector.contents().faults == (), "a bookmark is no object"
        ended(reflector)


@pytest.mark.usefixtures("impatient")
def test_gone_is_listed_anew() -> None:
    """410, as an event or as an answer, means to list again; what vanished meanwhile is gone."""
    expired = event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})
    script = Script(
        [page(pod("a", "1")), page(pod("b", "50"), version="50"), page(pod("c", "60"), version="60")],
        [[expired], [410]],
    )
    with served(script) as transport:
        reflector = following(transport)
        until(lambda: names(reflector) == ["c"], "the third list")
        assert script.watched[:2] == ["10", "50"]
        ended(reflector)


def bookmark(version: str) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": version}})


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "back",
    [bookmark("39"), event("ADDED", pod("b", "39")), event("DELETED", pod("a", "9"))],
    ids=["bookmark", "added", "deleted"],
)
def test_versions_that_go_back_are_listed_anew(back: bytes) -> None:
    """The server's data is older than before, such as after a restore of etcd; the log says so."""
    script = Script(
        [page(pod("a", "1")), page(pod("c", "5"), version="20")],
        [[bookmark("40"), back, event("ADDED", pod("never", "41"))], [b""]],
    )
    with served(script) as transport, capture_logs() as logs:
        reflector = following(transport)
        until(lambda: names(reflector) == ["c"], "the second list")
        until(lambda: len(script.watched) == 2, "the second watch")
        assert script.watched == ["10", "20"]
        assert [entry["event"] for entry in logs] == ["watch failed"]
        assert "resourceVersion went back from 40 to " in logs[0]["error"]
        ended(reflector)


def test_versions_that_repeat_or_are_no_numbers_are_normal() -> None:
    """Bookmarks of a kind that nobody changes repeat the last version."""
    script = Script(
        [page(pod("a", "1"))],
        [[bookmark("40"), bookmark("40"), bookmark("x9"), bookmark("x8"), event("ADDED", pod("b", "41")), b""]],
    )
    with served(script) as transport, capture_logs() as logs:
        reflector = following(transport)
        until(lambda: names(reflector) == ["a", "b"], "the event")
        assert logs == []
        ended(reflector)


def test_trouble_is_waited_out() -> None:
    """The last error is reported, requests back off, and the store stays as it was."""
    script = Script([page(pod("a", "1"))], [[500]] * 50)
    with served(script) as transport:
        reflector = following(transport)
        until(lambda: reflector.error != "", "the error")
        time.sleep(1.5)
        assert len(script.queries) < 8, "it waits longer after each failure"
        assert names(reflector) == ["a"]
        assert "HTTP 500" in reflector.error
        ended(reflector)


def test_a_first_list_that_is_refused() -> None:
    """Without the right to list it is not synced, and says so."""
    script = Script([(403, {"kind": "Status", "message": "pods is forbidden"})] * 20, [])
    with served(script) as transport:
        reflector = Reflector(transport, PODS)
        reflector.start()
        until(lambda: reflector.status == 403, "the refusal")
        assert not reflector.synced.is_set()
        assert "forbidden" in reflector.error
        ended(reflector)


def test_a_malformed_object_is_stored_as_a_fault() -> None:
    """In a list or a watch, it does not affect other objects, and is replaced when it is fixed."""
    broken = pod("x", "2", topologySpreadConstraints=5)
    script = Script([page(pod("a", "1"), broken)], [[b""]])
    with served(script) as transport:
        reflector = following(transport)
        contents = reflector.contents()
        assert ([item.name for item in contents.objects], [fault.name for fault in contents.faults]) == (
            ["a"],
            ["x"],
        )
        ended(reflector)
    script = Script(
        [page(pod("a", "1"), broken)],
        [
            [
                event("MODIFIED", pod("x", "11")),
                event("MODIFIED", {**broken, "metadata": pod("a", "12")["metadata"]}),
                b"",
            ]
        ],
    )
    with served(script) as transport:
        reflector = following(transport)
        until(lambda: names(reflector) == ["x"], "the fixed one alone")
        assert [fault.name for fault in reflector.contents().faults] == ["a"]
        ended(reflector)


@pytest.mark.parametrize("ending", [[b"nonsense\n"], [event("ERROR", {"code": 500, "message": "no"})], []])
def test_watches_that_open_and_fail_at_once_are_a_failure_that_lasts(
    ending: list[bytes | int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That they open says nothing: the time since which all has failed does not begin anew with each of them."""
    monkeypatch.setattr(reflector_module, "_FIRST_WAIT", 0.02)
    monkeypatch.setattr(reflector_module, "_LONGEST_WAIT", 0.05)
    refused = (500, {"message": "no list"})  # else a new list after nonsense is a sign of life
    script = Script([page(), *[refused] * 500], [ending] * 500)
    with served(script) as transport:
        reflector = following(transport)
        until(lambda: reflector.failing > 0.5, "half a second of failures")
        assert len(script.queries) > 5
        assert reflector.error
        ended(reflector)


def test_a_silent_watch_counts_once_it_has_been_open_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that rarely changes sends nothing for a minute, and that is no failure."""
    monkeypatch.setattr(reflector_module, "_SHORTEST_WATCH", 0.3)
    monkeypatch.setattr(reflector_module, "_FIRST_WAIT", 0.02)
    script = Script([page()], [[500], [500]])
    with served(script) as transport:
        reflector = following(transport)
        until(lambda: reflector._opened_at is not None, "the third watch")
        assert 0 < reflector.failing < 5
        until(lambda: reflector.failing == 0.0, "the watch to be old enough")
        ended(reflector)


@pytest.mark.parametrize("most", [2, 1])
def test_after_silence_the_store_is_compared_with_a_whole_list(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind of few objects at once, a larger one after a second silence, in which it was watched from its version."""
    monkeypatch.setattr(reflector_module, "STALE_AFTER", 0.6)
    monkeypatch.setattr(reflector_module, "MOST_COMPARED", most)
    few = most == 2
    lists = [page(pod("a", "1"), pod("b", "1")), page(pod("a", "1"), pod("b", "1"), version="20")]
    script = Script([*lists, *[page(pod("a", "1"), pod("b", "1"), version="30")] * 50], [])
    with served(script) as transport, capture_logs() as logs:
        reflector = following(transport)
        contents = reflector.contents()
        until(lambda: len(script.watched) >= 3, "the third watch")
        assert script.watched[:3] == (["10", "20", "30"] if few else ["10", "10", "20"])
        assert all("resourceVersion" not in query for query in script.queries if "watch" not in query), "quorum"
        assert reflector.contents() is contents, "nothing has changed"
        assert (reflector.failing, reflector.undelivered, logs) == (0.0, 0, [])
        ended(reflector)


@pytest.mark.parametrize(
    "sent", [event("BOOKMARK", {"metadata": {"resourceVersion": "21"}}), event("ADDED", pod("d", "21"))]
)
def test_what_a_watch_did_not_deliver_is_applied_from_the_list(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if events had come, deletions too. The watch is not trusted until it sends something again."""
    monkeypatch.setattr(reflector_module, "STALE_AFTER", 0.6)
    lists = [page(pod("a", "1"), pod("b", "1"), pod("c", "1"))]
    lists += [page(pod("b", "15", nodeName="n9"), pod("c", "1"), pod("d", "16"), version="20")] * 2
    script = Script(lists, [[b""], [b"\n", b""], [sent, b""]])
    seen: list[tuple[str, str]] = []

    def observe(before: Any, after: Any) -> None:
        seen.append((before.name if before is not None else "", after.name if after is not None else ""))

    with served(script) as transport, capture_logs() as logs:
        reflector = Reflector(transport, PODS)
        reflector.observe = observe
        reflector.start()
        until(lambda: bool(reflector.undelivered), "the comparison")
        assert (reflector.undelivered, reflector.is_stale) == (3, True)
        assert names(reflector) == ["b", "c", "d"]
        assert sorted(seen[:3]) == [("", "d"), ("a", ""), ("b", "b")]
        assert [(entry["event"], entry["changes"]) for entry in logs] == [("watch did not deliver", 3)]
        until(lambda: not reflector.undelivered, "the third watch to send something")
        assert script.watched == ["10", "20", "20"]
        ended(reflector)


def test_a_list_that_is_compared_with_nothing_does_not_confirm_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that has missed something is trusted after two equal lists; the whole list after 410 is none of these."""
    monkeypatch.setattr(reflector_module, "STALE_AFTER", 0.6)
    lists = [page(pod("a", "1")), *[page(pod("b", "15"), version="20")] * 50]
    script = Script(lists, [[b""], [410]])
    with served(script) as transport:
        reflector = following(transport)
        until(lambda: bool(reflector.undelivered), "the comparison")
        until(lambda: not reflector.undelivered, "the second equal list")
        kinds = ["watch" if "watch" in query else "list" for query in script.queries]
        assert kinds[:9] == ["list", "watch", "list", "watch", "list", "watch", "list", "watch", "list"]
        ended(reflector)


def test_what_a_watch_missed_is_forgotten_with_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the kind is not served nothing is held; what is listed afterwards is as new as at the start."""
    monkeypatch.setattr(reflector_module, "STALE_AFTER", 0.6)
    monkeypatch.setattr(reflector_module, "_UNSERVED_WAIT", 0.01)
    pool = {"metadata": {"name": "general", "resourceVersion": "9"}, "spec": {"template": {"spec": {}}}}
    lists = [{"metadata": {"resourceVersion": "10"}, "items": items} for items in ([pool], [], *[[pool]] * 50)]
    script = Script(lists, [[b""], [404]])
    with served(script) as transport, capture_logs() as logs:
        reflector = Reflector(transport, NODE_POOLS, optional=True)
        reflector.start()
        until(lambda: len(script.watched) == 3, "the watch after it was not served")
        assert (reflector.undelivered, reflector.is_stale, names(reflector)) == (0, False, ["general"])
        assert [entry["event"] for entry in logs] == ["watch did not deliver"]
        ended(reflector)


def test_silence_counts_whoever_ends_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load balancer ends silent connections before the read timeout; each new watch says nothing either."""
    monkeypatch.setattr(reflector_module, "STALE_AFTER", 3.0)
    monkeypatch.setattr(reflector_module, "_SHORTEST_WATCH", 0.1)
    script = Script([page(pod("a", "1"))] * 50, [], silence=1.0)
    with served(script) as transport:
        reflector = following(transport)
        until(lambda: len(script.watched) >= 3, "the third watch")
        assert [bool("watch" in query) for query in script.queries[:5]] == [False, True, True, False, True]
        ended(reflector)


def test_an_outage_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """While no watch is open it cannot miss anything: afterwards it goes on from its version, and is trusted."""
    monkeypatch.setattr(reflector_module, "STALE_AFTER", 2.0)
    monkeypatch.setattr(reflector_module, "_LONGEST_WAIT", 0.1)
    refused: list[list[bytes | int]] = [[503] for _ in range(30)]
    script = Script([page(pod("a", "1"))], [*refused, [], [event("ADDED", pod("b", "11")), b""]])
    with served(script) as transport:
        reflector = following(transport)
        until(lambda: reflector.age > 1.0, "an outage of half that time")
        until(lambda: names(reflector) == ["a", "b"], "the end of the outage")
        assert [query for query in script.queries if "watch" not in query] == script.queries[:1], "one list"
        assert not reflector.undelivered
        ended(reflector)


def test_a_list_is_as_old_as_its_request() -> None:
    """An answer that takes long says nothing of the moment in which it ends."""

    def handle(request: BaseHTTPRequestHandler) -> None:
        if "watch=" in request.path:
            begin_stream(request)
            time.sleep(1)
        else:
            time.sleep(0.5)
            answer(request, 200, page(pod("a", "1")))

    with served(handle) as transport:
        reflector = following(transport)
        assert reflector.age >= 0.5
        ended(reflector)


@pytest.mark.usefixtures("impatient")
def test_what_changed_before_a_new_list_is_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 410, too: who looks at each change must not miss those; the watch has said itself that they are missing."""
    script = Script([page(pod("a", "1")), page(pod("b", "50"), version="50")], [[410]])
    seen: list[tuple[Any, Any]] = []
    with served(script) as transport:
        reflector = Reflector(transport, PODS)
        reflector.observe = lambda before, after: seen.append((before, after))
        reflector.start()
        until(lambda: names(reflector) == ["b"], "the second list")
        until(lambda: len(seen) == 2, "the changes")
        assert [(before is None, after is None) for before, after in seen] == [(False, True), (True, False)]
        assert not reflector.undelivered
        ended(reflector)


def test_what_has_gone_is_forgotten() -> None:
    """Thousands of jobs come and go, each with labels of its own; pods that remain still share equal values."""

    def job(number: int) -> dict[str, Any]:
        made = pod(f"job-{number}", "11")
        return {**made, "metadata": {**made["metadata"], "labels": {"job-name": f"job-{number}"}}}

    come_and_go = [event(kind, job(number)) for number in range(4_000) for kind in ("ADDED", "DELETED")]
    last = [event("ADDED", pod("c", "99"))]
    broken = pod("broken", "3", topologySpreadConstraints=5)
    script = Script([page(pod("a", "1"), pod("b", "2"), broken)], [[b"".join(come_and_go + last), b""]])
    with served(script) as transport:
        reflector = following(transport)
        until(lambda: names(reflector) == ["a", "b", "c"], "the last event")
        assert len(reflector._intern) < 500
        one, *others = reflector.contents().objects
        assert all(other.spec is one.spec and other.labels is one.labels for other in others)
        ended(reflector)


@pytest.mark.parametrize("code", [403, 404])
def test_an_optional_kind_that_is_not_served_is_empty_and_is_requested_again(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is served, its objects are there, and gone with it.

    That a right is missing is said once, and again where it was there meanwhile; that nothing is served, never.
    """
    monkeypatch.setattr(reflector_module, "_UNSERVED_WAIT", 0.01)
    monkeypatch.setattr(reflector_module, "FORBIDDEN_WAIT", 0.01)
    pool = {"metadata": {"name": "general", "resourceVersion": "9"}, "spec": {"template": {"spec": {}}}}
    refused = (code, {"kind": "Status", "code": code, "message": "not served"})
    served_list = {"metadata": {"resourceVersion": "10"}, "items": [pool]}
    script = Script([refused, refused, served_list, *[refused] * 100], [[code]])
    with served(script) as transport, capture_logs() as logs:
        reflector = Reflector(transport, NODE_POOLS, optional=True)
        reflector.start()
        assert reflector.synced.wait(10)
        until(lambda: len(script.queries) >= 6, "more requests")
        until(lambda: not names(reflector), "the pool to be gone with its kind")
        assert (reflector.failing, reflector.status, reflector.is_forbidden) == (0.0, 0, code == 403)
        reflector.stop()
        reflector.join(5)
    assert [query for query in script.queries if "watch" in query], "it was listed once"
    expected = [("not allowed to list", "NodePool")] * 2 if code == 403 else []
    assert [(entry["event"], entry["kind"]) for entry in logs] == expected


def test_an_optional_kind_that_fails_keeps_nobody_waiting() -> None:
    """A broken conversion webhook of another project answers with errors for ever."""
    script = Script([(500, {"message": "webhook failed"})] * 100, [])
    with served(script) as transport:
        reflector = Reflector(transport, NODE_POOLS, optional=True)
        reflector.start()
        assert reflector.synced.wait(10)
        assert not names(reflector)
        reflector.stop()
        reflector.join(5)


class TestRenewing:
    """What a watch delivers after the process was stopped may be from before: only a new list is sure to be new."""

    def test_it_is_behind_until_a_list_that_was_begun_afterwards(self) -> None:
        """The watch ends at once, and neither its events nor a list that was under way makes the store new."""
        script = Script([page(pod("a", "1")), page(pod("b", "2"), version="20")], [], silence=20.0)
        with served(script) as transport, capture_logs() as logs:
            reflector = following(transport)
            until(lambda: len(script.watched) == 1, "the watch")
            began = time.monotonic()
            reflector.renew()
            until(lambda: not reflector.is_behind, "the list")
            assert time.monotonic() - began < 0.4, "no failure, after which it would wait"
            assert names(reflector) == ["b"]
            assert not reflector.is_stale
            assert (reflector.undelivered, reflector.failing) == (0, 0.0), "nothing that the watch had to deliver"
            until(lambda: script.watched == ["10", "20"], "the next watch")
            ended(reflector)
        assert logs == []

    def test_an_event_from_the_buffer_makes_nothing_new(self) -> None:
        """What has been sent before is applied in order, and the store stays behind: the list is refused."""
        sent = [event("ADDED", pod(f"p{number}", str(11 + number))) for number in range(3)]
        refused = 503, {"message": "not now"}
        script = Script([page(pod("a", "1")), *[refused] * 50], [[*sent, b""]])
        with served(script) as transport:
            reflector = Reflector(transport, PODS)
            reflector.observe = lambda *_: reflector.renew()  # it was stopped right before the line was read
            reflector.start()
            until(lambda: "not now" in reflector.error, "the list after it")
            assert reflector.is_behind
            assert reflector.is_stale
            ended(reflector)

    @pytest.mark.usefixtures("impatient")
    def test_it_stays_behind_while_lists_fail(self) -> None:
        """And is new with the first that succeeds."""
        refused = 503, {"message": "not now"}
        script = Script([page(pod("a", "1")), refused, refused, page(pod("b", "2"))], [], silence=20.0)
        with served(script) as transport:
            reflector = following(transport)
            until(lambda: len(script.watched) == 1, "the watch")
            reflector.renew()
            until(lambda: "not now" in reflector.error, "the failure")
            assert reflector.is_behind
            until(lambda: not reflector.is_behind, "the list")
            assert names(reflector) == ["b"]
            ended(reflector)

    def test_a_list_that_was_under_way_is_not_new(self) -> None:
        """Its answer may have waited in a buffer, too: another one follows."""
        behind: list[bool] = []
        pages = [page(pod("a", "1")), page(pod("b", "2"), version="20")]

        def handle(request: BaseHTTPRequestHandler) -> None:
            if "watch=" in request.path:
                begin_stream(request)
                time.sleep(1)
                request.wfile.write(b"0\r\n\r\n")
                return
            if len(pages) == 2:
                reflector.renew()
            behind.append(reflector.is_behind)
            answer(request, 200, pages.pop(0))

        with served(handle) as transport:
            reflector = Reflector(transport, PODS)
            reflector.start()
            until(lambda: names(reflector) == ["b"], "the second list")
            until(lambda: not reflector.is_behind, "the new state")
            assert behind == [True, True]
            ended(reflector)
