"""Whatever names and texts have in them, no command's output is obeyed by a terminal, and no name begins a line."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from structlog.testing import capture_logs

from rebalancer.adapters.files import read_snapshot
from rebalancer.cli import main as entry
from rebalancer.cli import progress as progress_module
from rebalancer.cli.progress import progress
from rebalancer.cli.redraw import redrawing
from rebalancer.cli.terminal import ask
from rebalancer.model.cluster import NEWEST
from rebalancer.model.history import Entry
from rebalancer.model.visible import visible
from rebalancer.reporting.text.layout import TextLayout
from rebalancer.simulator import SimulatedCluster
from tests.adapters.kubernetes.fake_server import ApiServer, reachable
from tests.build import HEAD
from tests.cli.answers import Terminal, answer_with
from tests.cli.test_history import recorded
from tests.cli.test_status import running, show, written
from tests.controller.simulated import Simulation, eager
from tests.drawing import scaled
from tests.history.build import HISTORY
from tests.hostile import (
    HOSTILE,
    HOSTILE_TEXTS,
    KEY,
    OWNER,
    check_clean,
    encoded,
    hostile_cluster,
    ordinary_cluster,
    places,
    strings_in,
    with_text,
)

ORDINARY: Final = ordinary_cluster()
PLACES: Final = places()
ZONE: Final = "topology.kubernetes.io/zone"
READ: Final = "--snapshot", "FILE"
"""The name of the file with the hostile cluster stands in the place of FILE."""


class Printed(NamedTuple):
    out: str
    err: str


Run = Callable[..., Printed]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the files that commands read, by the words that stand for them."""
    folder = tmp_path_factory.mktemp("hostile")
    cluster = hostile_cluster()
    pod = next(item for item in cluster["items"] if item["kind"] == "Pod" and OWNER in item["metadata"]["name"])
    waiting = {**pod, "spec": {key: value for key, value in pod["spec"].items() if key != "nodeName"}}
    group = {"name": HOSTILE, "namespaces": [HOSTILE], "workloads": [f"StatefulSet/{HOSTILE}"], "limits": []}
    texts = {
        "FILE": encoded(cluster),
        "POD": encoded(waiting),
        "POLICY": HEAD.encode() + yaml.safe_dump({"groups": [group], HOSTILE: {HOSTILE: HOSTILE}}).encode(),
        "TEXT": HOSTILE.encode(),
    }
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    return {name: str(folder / name) for name in texts}


@pytest.fixture
def run(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command, and look at all that it writes."""

    def call(*words: str, color: bool = False) -> Printed:
        entry.main([files.get(word, word) for word in words] + (["--color", "always"] if color else []))
        out, err = capsys.readouterr()
        check_clean(out, color=color)
        check_clean(err)
        return Printed(out, err)

    return call


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        ("report",),
        ("report", "-o", "wide", "--failures", "-v"),
        ("report", "--map"),
        ("report", "--map", f"statefulset/{HOSTILE}db"),
        ("plan", "-v"),
        ("plan", "-o", "wide"),
        ("explain", f"statefulset/{HOSTILE}db", "-v"),
        ("explain", f"pod/{HOSTILE}{OWNER}-0"),
        ("predict", "--pod", "POD"),
        ("simulate", "-o", "wide"),
    ],
    ids=lambda words: "_".join(map(repr, words)) if isinstance(words, tuple) else None,
)
def test_a_table_shows_names_and_obeys_none(run: Run, words: tuple[str, ...], color: bool) -> None:
    """With colours, too: they are ours alone."""
    out = run(*words, *READ, color=color).out
    assert visible(HOSTILE) in out
    assert ("\x1b[" in out) == color


@pytest.mark.parametrize("verb", ["report", "plan", f"explain statefulset/{HOSTILE}db", "predict", "simulate"])
def test_documents_have_the_names_as_they_are(run: Run, verb: str) -> None:
    """JSON and YAML are the same document, with the characters of the names."""
    name, *words = verb.split(" ", 1)
    more = ("--pod", "POD") if name == "predict" else ()
    document = json.loads(run(name, *words, *more, *READ, "-o", "json").out)
    assert yaml.safe_load(run(name, *words, *more, *READ, "-o", "yaml").out) == json.loads(json.dumps(document))
    assert [text for text in strings_in(document) if HOSTILE in text]


def test_names_are_shown(run: Run) -> None:
    """One name a line."""
    for verb in ("report", "plan"):
        out = run(verb, *READ, "-o", "name").out
        assert all(visible(HOSTILE) in line for line in out.splitlines())


def test_a_dump_has_the_names_as_they_are(run: Run) -> None:
    """It gives the same answers."""
    out = run("snapshot", *READ).out
    assert read_snapshot(out.encode(), version=NEWEST, at=None, source="dump")[0].pods == cluster_read().pods


@pytest.mark.parametrize(
    "words",
    [
        ("explain", f"statefulset/{HOSTILE}", *READ),
        ("explain", HOSTILE, *READ),
        ("report", "-n", HOSTILE, *READ),
        ("report", "-l", HOSTILE, *READ),
        ("report", f"--{HOSTILE}"),
        (HOSTILE,),
        ("report", "--snapshot", HOSTILE),
        ("report", "--snapshot", "TEXT"),
        ("report", "--policy", "POLICY", *READ),
        ("policy", "validate", "POLICY", "TEXT", HOSTILE),
        ("predict", "--pod", "TEXT", *READ),
        ("simulate", "--remove-node", HOSTILE, *READ),
        ("simulate", "--scenario", "TEXT", *READ),
        ("pause", "--for", HOSTILE),
        ("history", HOSTILE),
        ("suggest", "--limit", "<=1/2", "--size", "6", "--domains", "3", "--key", HOSTILE),
        ("resilience", HOSTILE, *READ),
        ("resilience", "--key", HOSTILE, *READ),
    ],
    ids=lambda words: "_".join(map(repr, words)),
)
def test_what_is_wrong_is_said_in_lines_of_ours(run: Run, words: tuple[str, ...]) -> None:
    """A message that quotes a name, a file or a policy; a list of problems has its own lines."""
    err = run(*words).err
    assert err.startswith(("error: ", "warning: "))
    if "validate" in words:
        assert [line.partition(":")[0] == "error" for line in err.splitlines()] == [
            True,
            *[False] * 5,
            True,
            False,
            True,
        ]


def test_the_loss_of_each_domain_is_shown(run: Run) -> None:
    """Of a key that a tenant has chosen."""
    assert visible(HOSTILE) in run("simulate", "--each", f"{HOSTILE}{KEY}", *READ, color=True).out


def test_a_simulation_tells_its_story_in_lines_of_its_own(run: Run) -> None:
    """As it is played, where nobody watches."""
    out = run("simulate", "--live", *READ).out
    assert visible(HOSTILE) in out


def cluster_read() -> Any:
    """Return the hostile cluster as it is read."""
    return read_snapshot(encoded(hostile_cluster()), version=NEWEST, at=None, source="cluster")[0]


def hostile_entry(one: Entry) -> Entry:
    """Return an entry of the history whose texts are hostile."""
    fields = ("namespace", "workload", "what", "others", "pod", "node", "to", "who", "manager")
    return structs.replace(one, **{name: f"{HOSTILE}{getattr(one, name)}" for name in fields if getattr(one, name)})


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """Serve the API of a cluster in which a controller repairs, with its status and its history."""
    simulation = Simulation(SimulatedCluster(cluster_read(), seed=1), eager())
    with capture_logs():
        simulation.cycles(3)
    made = running(leader=HOSTILE)
    show(made, written(simulation.runner.state))
    made.objects.update(recorded(tuple(map(hostile_entry, HISTORY))).objects)
    with reachable(made, tmp_path, monkeypatch):
        yield made


def test_what_the_controller_has_stored_is_shown(server: ApiServer, run: Run) -> None:
    """Its status, its history, who leads."""
    for verb in ("status", "history"):
        for color in (False, True):
            assert visible(HOSTILE) in run(verb, color=color).out
        document = json.loads(run(verb, "-o", "json").out)
        assert [text for text in strings_in(document) if HOSTILE in text]
        assert yaml.safe_load(run(verb, "-o", "yaml").out).keys() == document.keys()
    for stored in server.objects.values():
        for text in stored.get("data", {}).values():
            check_clean(text)
    lines = run("history", "-o", "jsonl").out.splitlines()
    assert len(lines) == len(list(map(json.loads, lines))) > 20


@settings(max_examples=scaled(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(PLACES)), HOSTILE_TEXTS)
def test_no_place_where_a_text_is_read_is_obeyed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, text: str
) -> None:
    """Every text of every kind that is read, keys and values of mappings too: taken, or refused with a warning."""
    file = tmp_path / "cluster.json"
    file.write_bytes(encoded(with_text(ORDINARY, *PLACES[path], text)))
    for words in (("report", "-o", "wide", "--color", "always"), ("plan",)):
        entry.main([*words, "--snapshot", str(file)])
        out, err = capsys.readouterr()
        check_clean(out, color="always" in words)
        check_clean(err)


def test_places_are_of_every_kind_and_in_every_depth() -> None:
    """What the property above draws from is what the decoders know."""
    assert len(PLACES) > 350
    assert {
        "Pod.metadata.ownerReferences[].kind",
        "Pod.spec.topologySpreadConstraints[].topologyKey",
        "Pod.metadata.labels{key}",
        "Node.spec.taints[].value",
        "VerticalPodAutoscaler.metadata.name",
    } <= PLACES.keys()


def test_a_picture_a_question_and_what_is_being_done_are_cleaned_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal gets nothing but the codes of ours: those that redraw a picture, and those that remove a line."""
    answer_with(monkeypatch, "y")
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(progress_module, "_PATIENCE", 0.01)
    with redrawing() as show_lines, progress(HOSTILE):
        show_lines([HOSTILE, TextLayout(color=True).heading(HOSTILE)])
        assert ask(HOSTILE) == "y\n"
        time.sleep(0.1)
    for text in (out.getvalue(), err.getvalue()):
        assert visible(HOSTILE) in text
        check_clean(re.sub("\x1b\\[(H|K|J|\\?1049[hl])|\r(?=\x1b\\[K)", "", text), color=True)
