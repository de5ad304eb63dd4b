"""`rebalancer pause` and `resume`: what they write, what they say, and what they say where they may not."""

import getpass
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from rebalancer.account.people import Acts, find_people, pause_token
from rebalancer.adapters.kubernetes.configmaps import find_author, find_pause
from rebalancer.admission.pause import KEY, read_pause
from rebalancer.cli import main as entry
from rebalancer.cli.errors import Exit
from rebalancer.decoding.config_maps import CONFIG_MAPS
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.lists import decode
from rebalancer.history.declared import ANNOTATION, read_declaration
from rebalancer.history.people import people_entries
from rebalancer.model.history import UNKNOWN, Noted
from tests.adapters.kubernetes.fake_server import Answer, ApiServer, reachable

MAP = "/api/v1/namespaces/rebalancer-system/configmaps/rebalancer-control"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/rebalancer-system/leases/rebalancer"
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def switch(data: dict[str, str] | None = None) -> ApiServer:
    """Return an API server as far as the switch needs one: `data` of the ConfigMap."""
    made = ApiServer()
    made.answers["POST", REVIEW] = 201, {"status": {"userInfo": {"username": "alice"}}}
    made.put(LEASE, spec={"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": "2999-01-01T00:00:00Z"})
    made.put(MAP, metadata={"namespace": "rebalancer-system"}, data=data or {})
    return made


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    made = switch()
    with reachable(made, tmp_path, monkeypatch):
        yield made


def test_pause_and_resume(server: ApiServer) -> None:
    """Keys of others stay as they are; what each says is a golden text."""
    server.put(MAP, data={"approved": "f00"})
    assert entry.main(["pause", "--reason", "zone b\nis upgraded"]) == Exit.FINE
    assert server.data(MAP) == {"approved": "f00", "pause.yaml": "reason: zone b is upgraded\nby: alice\n"}
    assert entry.main(["resume"]) == Exit.FINE
    assert server.data(MAP) == {"approved": "f00"}
    assert entry.main(["resume"]) == Exit.FINE
    assert server.data(MAP) == {"approved": "f00"}


@pytest.mark.parametrize(
    ("review", "who"), [((201, {"status": {"userInfo": {"username": "bob"}}}), "bob"), (403, UNKNOWN)]
)
def test_who_resumes_is_declared(server: ApiServer, review: Answer, who: str) -> None:
    """Beside the change, with the pause that it ends; the next pause removes that."""
    assert entry.main(["pause"]) == Exit.FINE
    pause = read_pause(server.data(MAP)["pause.yaml"])
    server.answers["POST", REVIEW] = review
    assert entry.main(["resume"]) == Exit.FINE
    declared = read_declaration(server.objects[MAP]["metadata"]["annotations"][ANNOTATION])
    assert (declared.by, declared.of) == (who, pause_token(pause))
    assert entry.main(["pause"]) == Exit.FINE
    assert ANNOTATION not in server.objects[MAP]["metadata"]["annotations"]


def test_a_pause_of_a_moment_is_known_from_what_resume_writes(server: ApiServer) -> None:
    """A controller that has read the ConfigMap neither before nor in between has both, with who and when."""
    assert entry.main(["pause", "--reason", "a look"]) == Exit.FINE
    written = {"manager": "rebalancer", "operation": "Update", "time": "2026-01-05T08:00:00Z", "fieldsType": "FieldsV1"}
    server.objects[MAP]["metadata"]["managedFields"] = [{**written, "fieldsV1": {"f:data": {"f:pause.yaml": {}}}}]
    assert entry.main(["resume"]) == Exit.FINE
    read = decode(CONFIG_MAPS, json.dumps(server.objects[MAP]).encode(), Interner())
    said, _ = find_people(Noted(), Acts(pause=find_pause(read), pause_author=find_author(read, KEY)), datetime.now(UTC))
    begun, ended = people_entries(said, datetime.now(UTC))
    at = int(datetime(2026, 1, 5, 8, tzinfo=UTC).timestamp())
    assert (begun.kind, begun.at, begun.who, begun.what) == ("Paused", at, "alice", "a look")
    assert (ended.kind, ended.since, ended.who) == ("Resumed", at, "alice")
    assert 0 <= datetime.now(UTC).timestamp() - ended.at < 60


def test_a_pause_for_a_while(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """It ends so long after now."""
    now = datetime.now(UTC)
    assert entry.main(["pause", "--for", "1h30m", "--reason", "a look first"]) == Exit.FINE
    pause = read_pause(server.data(MAP)["pause.yaml"])
    assert pause.until is not None
    assert timedelta(seconds=-1) <= pause.until - now - timedelta(hours=1, minutes=30) < timedelta(seconds=60)
    assert f"paused by alice until {pause.until:%Y-%m-%d %H:%M:%SZ}: a look first" in capsys.readouterr().out


def test_a_pause_needs_no_reason(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """In an emergency nobody looks a flag up; the pause says that none was given."""
    assert entry.main(["pause"]) == Exit.FINE
    assert capsys.readouterr().out.startswith("Now paused by alice until somebody resumes: no reason given\n")
    assert (
        read_pause(server.data(MAP)["pause.yaml"]).message == "paused by alice until somebody resumes: no reason given"
    )


def test_what_was_written_by_hand_is_resumed_too(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A pause that is over or unreadable is removed, and its text is printed."""
    server.put(MAP, data={"pause.yaml": "until: 2020-01-01T00:00:00Z"})
    assert entry.main(["resume"]) == Exit.FINE
    assert "(it had ended)" in capsys.readouterr().out
    server.put(MAP, data={"pause.yaml": "untill: tomorrow"})
    assert entry.main(["resume"]) == Exit.FINE
    assert capsys.readouterr().out.startswith("Resumed; the pause could not be read (Object contains unknown field")
    assert server.data(MAP) == {}
    server.put(MAP, data={"pause.yml": "", "approved": "f00"})
    assert entry.main(["resume"]) == Exit.FINE
    assert "Removed pause.yml from ConfigMap" in capsys.readouterr().out
    assert server.data(MAP) == {"approved": "f00"}


def test_a_server_that_does_not_say_who_asks(server: ApiServer) -> None:
    """Then it is the local user: a kill switch does not fail without a name."""
    server.answers["POST", REVIEW] = 403
    assert entry.main(["pause", "--reason", "x"]) == Exit.FINE
    assert read_pause(server.data(MAP)["pause.yaml"]).by == getpass.getuser()


def test_before_the_first_start_it_holds_for_one_that_starts(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The installation has the ConfigMap; that evictions stop is not said where nobody has ever led."""
    del server.objects[LEASE]
    server.put(MAP.replace("rebalancer-system", "ops"), metadata={"namespace": "ops"})
    assert entry.main(["pause", "--reason", "x"]) == Exit.FINE
    shown = capsys.readouterr()
    assert "Evictions stop" not in shown.out
    assert (
        "No controller has led in namespace rebalancer-system yet: the pause holds for a controller that" in shown.out
    )
    assert shown.err == (
        "warning: ConfigMap rebalancer-control is in namespace ops: "
        "rebalancer pause --reason x --controller-namespace ops\n"
    )
    server.answers["GET", LEASE] = 403
    assert entry.main(["pause", "--reason", "x"]) == Exit.FINE
    assert capsys.readouterr().err == "", "who may not read leases is not warned of what is not known"


def test_where_no_controller_runs_it_holds_for_the_next_one(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """One has led before: it was stopped, or has died. That evictions stop is said of one that runs."""
    ended = {"renewTime": "2026-01-05T09:00:00Z"}
    for spec in ({"holderIdentity": "", **ended}, {"holderIdentity": "dead", "leaseDurationSeconds": 15, **ended}):
        server.put(LEASE, spec=spec)
        assert entry.main(["pause", "--reason", "x"]) == Exit.FINE
        shown = " ".join(capsys.readouterr().out.split())
        assert "Evictions stop" not in shown
        assert "No controller runs, so nothing is evicted: the pause holds from the start of the next one." in shown
    server.answers["GET", LEASE] = 403
    assert entry.main(["pause", "--reason", "x"]) == Exit.FINE
    assert "whether one runs is not known" in " ".join(capsys.readouterr().out.split())


def written(server: ApiServer) -> list[tuple[str, str]]:
    """Return the requests that may have changed an object."""
    return [request for request in server.requests if request[0] not in {"GET", "PATCH"} and request[1] != REVIEW]


PAUSE = ["pause", "--for", "2h", "--reason", "zone b\nis upgraded"]
FLAGS = ["-n", "--namespace", "--controller-namespace"]


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize(
    ("words", "again"),
    [
        (PAUSE, "rebalancer pause --for 2h --reason 'zone b is upgraded' --context c --controller-namespace"),
        (["resume"], "rebalancer resume --context c --controller-namespace"),
    ],
)
def test_in_a_namespace_without_the_switch_nothing_is_written(
    words: list[str], again: str, flag: str, server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The namespaces that have one are listed, with the command; one that is paused there goes on."""
    server.put(MAP.replace("rebalancer-system", "ops"), metadata={"namespace": "ops"}, data={})
    before = dict(server.objects)
    assert entry.main([*words, "--context", "c", flag, "shop"]) == Exit.ERROR
    assert capsys.readouterr().err == (
        "error: nothing was changed: namespace shop has no ConfigMap rebalancer-control, so no controller reads it "
        "there\n"
        f"ConfigMap rebalancer-control is in namespace ops: {again} ops\n"
        f"ConfigMap rebalancer-control is in namespace rebalancer-system: {again} rebalancer-system\n"
    )
    assert server.objects == before
    assert written(server) == []


@pytest.mark.parametrize("words", [["pause"], ["resume"]])
def test_who_may_not_list_namespaces_is_told_who_finds_the_switch(
    words: list[str], server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers["GET", "/api/v1/configmaps"] = 403
    assert entry.main([*words, "-n", "shop"]) == Exit.ERROR
    assert capsys.readouterr().err == (
        "error: nothing was changed: namespace shop has no ConfigMap rebalancer-control, so no controller reads it "
        "there\n"
        "The controller's namespace is not known: you may not list ConfigMaps in all namespaces. Somebody who may "
        "finds it with: kubectl get configmaps --all-namespaces --field-selector metadata.name=rebalancer-control\n"
        f"Then: rebalancer {words[0]} --controller-namespace NAMESPACE\n"
    )
    assert written(server) == []


@pytest.mark.parametrize("words", [["pause"], ["resume"]])
def test_a_cluster_without_a_switch_needs_an_installation(
    words: list[str], server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a controller has led without one, which people have started by hand, it is to be created."""
    del server.objects[MAP]
    assert entry.main(words) == Exit.ERROR
    assert capsys.readouterr().err == (
        "error: nothing was changed: namespace rebalancer-system has no ConfigMap rebalancer-control, but a controller "
        "has led there. Create it, then repeat: kubectl create configmap rebalancer-control --namespace "
        "rebalancer-system\n"
    )
    del server.objects[LEASE]
    assert entry.main(words) == Exit.ERROR
    assert capsys.readouterr().err == (
        "error: nothing was changed: namespace rebalancer-system has no ConfigMap rebalancer-control, so no controller "
        "reads it there\n"
        "No namespace has a ConfigMap rebalancer-control: the installation (deploy/, or its chart) creates it.\n"
    )
    assert written(server) == []


def test_of_many_namespaces_the_first_are_listed(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Everybody can create a ConfigMap of that name in a namespace of their own."""
    for number in range(20):
        server.put(MAP.replace("rebalancer-system", f"t{number}"), metadata={"namespace": f"t{number:02}"})
    assert entry.main(["pause", "-n", "shop"]) == Exit.ERROR
    error = capsys.readouterr().err
    assert error.count("--controller-namespace") == 10
    assert "It is in 11 more namespaces: kubectl get configmaps" in error


@pytest.mark.parametrize("words", [["pause"], ["resume"]])
@pytest.mark.parametrize("listed", [403, None])
def test_a_missing_right_names_the_cluster_role(
    words: list[str], listed: int | None, server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a namespace that is seen to have no switch, the namespace is the mistake."""
    for method, place in (("GET", MAP), ("PATCH", MAP), ("GET", (other := MAP.replace("rebalancer-system", "shop")))):
        server.answers[method, place] = 403
    server.answers["PATCH", other] = 403
    if listed:
        server.answers["GET", "/api/v1/configmaps"] = listed
    assert entry.main(words) == Exit.ERROR
    assert capsys.readouterr().err == (
        "error: not allowed: scripted answer 403; the ClusterRole rebalancer-pause has the right: bind it in namespace "
        "rebalancer-system if the controller runs there, else choose its namespace with --controller-namespace\n"
    )
    assert entry.main([*words, "-n", "shop"]) == Exit.ERROR
    error = capsys.readouterr().err
    assert ("nothing was changed: namespace shop has no ConfigMap" in error) == (listed is None)
    assert ("the ClusterRole rebalancer-pause" in error) == (listed is not None)


def test_the_role_rebalancer_pause_has_every_right_that_pause_and_resume_need(server: ApiServer) -> None:
    """In its namespace; a SelfSubjectReview is open to everybody."""
    assert entry.main(["pause"]) == Exit.FINE
    assert entry.main(["resume"]) == Exit.FINE
    people = list(yaml.safe_load_all(Path("deploy/base/people.yaml").read_text()))
    (role,) = (role for role in people if role["metadata"]["name"] == "rebalancer-pause")
    granted = {
        (verb.upper(), resource, name)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
        for name in rule["resourceNames"]
    }
    used = {(method, *path.split("/")[-2:]) for method, path in server.requests if path != REVIEW}
    assert used == granted


def test_any_other_refusal_is_shown(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """What was refused, in one line; the exit code is 1."""
    server.put(MAP, data={"pause.yaml": "reason: x"})
    server.answers["PATCH", MAP] = 500
    for command in (["pause", "--reason", "x"], ["resume"]):
        assert entry.main(command) == Exit.ERROR
        message = capsys.readouterr().err
        assert message.startswith("error: ")
        assert message.count("\n") == 1
        assert "PATCH" in message
        assert "HTTP 500" in message


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--reason", " \n"], "--reason is empty"),
        (["--reason", "x", "--for", "5"], "found '5', expected a duration such as 90s"),
        (["--reason", "x", "--for", "0s"], "expected more than 0s"),
        (["--reason", "x", "--for", "9999h"], "expected at most 8760h"),
    ],
)
def test_wrong_usage(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No request is sent to any server."""
    assert entry.main(["pause", *flags]) == Exit.USAGE
    assert message in capsys.readouterr().err
