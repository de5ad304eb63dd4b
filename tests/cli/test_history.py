"""`rebalancer history`: what it selects, its formats, and what it says where there is nothing to read."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from msgspec import structs

from rebalancer.cli import main as entry
from rebalancer.cli.errors import Exit
from rebalancer.documents.memory import memory_text
from rebalancer.history.contents import NO_CONTENTS, find_writes
from rebalancer.model.history import Entry, EntryKind
from rebalancer.model.moves import Memory
from rebalancer.ports import MEMORY_KEY, STATUS_KEY
from tests.adapters.kubernetes.fake_server import ApiServer, reachable
from tests.history import build
from tests.history.build import HISTORY

TOTAL = sum(entry.kind != EntryKind.SAMPLE for entry in HISTORY)
MAPS = "/api/v1/namespaces/rebalancer-system/configmaps/"


def recorded(entries: tuple[Entry, ...] = HISTORY) -> ApiServer:
    """Return an API server with the ConfigMaps of a history."""
    made = ApiServer()
    made.put(f"{MAPS}rebalancer-history")
    for number in range(8):
        made.put(f"{MAPS}rebalancer-history-{number}")
    for write in find_writes(NO_CONTENTS, entries):
        made.put(f"{MAPS}{write.name}", data={write.key: write.text})
    return made


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    made = recorded()
    with reachable(made, tmp_path, monkeypatch):
        yield made


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert entry.main(["history", *words]) == Exit.FINE
    return capsys.readouterr().out


def test_the_formats(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A document, and its entries one a line, oldest first; samples are the trend's."""
    document = json.loads(shown(capsys, "-o", "json"))
    assert (document["kind"], document["total"], len(document["entries"])) == ("History", TOTAL, TOTAL)
    lines = [json.loads(line) for line in shown(capsys, "-o", "jsonl").splitlines()]
    assert lines == document["entries"]
    assert [line["seq"] for line in lines] == sorted(line["seq"] for line in lines)
    assert yaml.safe_load(shown(capsys, "-o", "yaml"))["total"] == TOTAL
    table = shown(capsys).splitlines()
    assert len(table) == TOTAL + 1
    assert table[-1].endswith("37 entries dropped, which could not be stored in time")


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (["cart"], 9),
        (["deployment/cart"], 9),
        (["shop/Deployment/cart", "-n", "shop"], 9),
        (["cart", "-n", "other"], 0),
        (["statefulset/cart"], 0),
        (["-n", "shop"], 12),
        (["db"], 1),
        (["statefulset/db-replica"], 1),
        (["db-proxy", "-n", "shop"], 1),
        (["statefulset/db-proxy"], 0),
    ],
)
def test_what_is_selected(server: ApiServer, capsys: pytest.CaptureFixture[str], words: list[str], number: int) -> None:
    """A workload by its name, with kind or namespace, also one of several that are violated; no pause and no zone."""
    document = json.loads(shown(capsys, *words, "-o", "json"))
    assert (len(document["entries"]), document["total"]) == (number, TOTAL)


def test_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """By the clock of the command; the trend too, with the sample that still held then."""
    late = int(datetime.now(UTC).timestamp()) - HISTORY[-1].at - 60
    with reachable(recorded(tuple(structs.replace(one, at=one.at + late) for one in HISTORY)), tmp_path, monkeypatch):
        assert len(json.loads(shown(capsys, "--since", "2m", "-o", "json"))["entries"]) == 17
        for since in ("2m", "2h"):
            assert len(json.loads(shown(capsys, "--trend", "--since", since, "-o", "json"))["samples"]) == 1


def test_the_trend(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """In every format."""
    document = json.loads(shown(capsys, "--trend", "-o", "json"))
    assert (document["kind"], document["samples"][0]["violated"]) == ("Trend", 2)
    assert json.loads(shown(capsys, "--trend", "-o", "jsonl")) == document["samples"][0]
    assert yaml.safe_load(shown(capsys, "--trend", "-o", "yaml"))["kind"] == "Trend"
    assert "LARGEST SKEW" in shown(capsys, "--trend")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a/b/c/d"], "expected NAME, KIND/NAME or NAMESPACE/KIND/NAME"),
        (["shop/"], "expected NAME, KIND/NAME or NAMESPACE/KIND/NAME"),
        (["shop/deployment/web", "-n", "other"], "is in namespace shop, but -n names other"),
        (["web", "--trend"], "--trend counts all workloads"),
        (["--since", "soon"], "found 'soon'"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    """Named, before anything is read."""
    assert entry.main(["history", *words]) == Exit.USAGE
    assert message in capsys.readouterr().err


def test_where_nothing_can_be_read(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Another namespace, and a missing right."""
    listed = {"items": [{"metadata": {"namespace": "rebalancer-system", "name": "rebalancer-status"}}]}
    server.answers["GET", "/api/v1/configmaps"] = 200, listed
    assert entry.main(["history", "--controller-namespace", "other"]) == Exit.ERROR
    said = capsys.readouterr().err
    assert "namespace other has no ConfigMap of a history" in said
    assert "rebalancer history --controller-namespace rebalancer-system" in said
    for words in ("-n shop", "web -n shop --since 90s -o json", "--trend"):
        assert entry.main(["history", *words.split(), "--controller-namespace", "other"]) == Exit.ERROR
        assert f"rebalancer history {words} --controller-namespace rebalancer-system" in capsys.readouterr().err
    server.answers["GET", f"{MAPS}rebalancer-history-0"] = 403, "forbidden"
    assert entry.main(["history"]) == Exit.ERROR
    assert "the ClusterRole rebalancer-view has the right" in capsys.readouterr().err


def test_the_history_is_as_new_as_the_status(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """What is stored with the status and not written yet is shown, nothing twice; the first line says as of when."""
    new = (HISTORY[-1], build.entry(EntryKind.SAMPLE, 899), build.entry(EntryKind.PAUSED, 900, who="alice"))
    times = {"asOf": "2026-01-05T08:15:01Z", "lastCycle": "2026-01-05T08:14:59Z", "ofALaterRelease": 1}
    data = {STATUS_KEY: json.dumps(times), MEMORY_KEY: memory_text(Memory(outbox=new))}
    server.put(f"{MAPS}rebalancer-status", data=data)
    document = json.loads(shown(capsys, "-o", "json"))
    assert (document["asOf"], document["lastCycle"]) == (times["asOf"], times["lastCycle"])
    assert [one["seq"] for one in document["entries"][-2:]] == [HISTORY[-1].seq, new[-1].seq]
    assert document["total"] == len(document["entries"]) == TOTAL + 1
    head = "As of 2026-01-05 08:15:01Z, last cycle 2026-01-05 08:14:59Z"
    assert shown(capsys).splitlines()[0] == shown(capsys, "cart", "-n", "x").splitlines()[0] == head
    trend = json.loads(shown(capsys, "--trend", "-o", "json"))
    assert (trend["asOf"], [one["violated"] for one in trend["samples"]]) == (times["asOf"], [2, 0])
    assert shown(capsys, "--trend").splitlines()[0] == head
    server.put(f"{MAPS}rebalancer-status", data={STATUS_KEY: "{", MEMORY_KEY: "{"})
    assert json.loads(shown(capsys, "-o", "json"))["asOf"] is None


def test_without_the_right_to_read_the_status(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The history is shown, with what may be missing."""
    server.answers["GET", f"{MAPS}rebalancer-status"] = 403, "forbidden"
    assert entry.main(["history"]) == Exit.FINE
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == TOTAL + 1
    assert "as of when this is is not known, and the newest entries may be missing" in captured.err
