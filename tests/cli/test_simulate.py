"""`rebalancer simulate`: what it prints, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rebalancer.cli.main import main
from rebalancer.documents.document import document_schema
from rebalancer.documents.simulation import SimulationDocument
from tests.cli.files import write_policy

EXAMPLE = "docs/examples/zone-returned.json"
ZONE = "topology.kubernetes.io/zone"
SIMULATE = ["simulate", "--snapshot", EXAMPLE]


def printed(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    assert main([*SIMULATE, *flags, "-o", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_document_has_every_event_and_the_report_of_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    """Its numbers agree with its events; its form is that of its schema."""
    document = printed(capsys)
    jsonschema.validate(document, document_schema(SimulationDocument))
    evicted = [event for event in document["events"] if event["what"] == "Evicted"]
    assert len(evicted) == document["evictions"] == document["lowerBound"] == 8
    assert document["settled"]
    assert document["events"] == sorted(document["events"], key=lambda event: event["at"])
    states = {row["workloads"][0]["name"]: row["state"] for row in document["report"]["constraints"]}
    assert states == {"cart": "Unfixable", "search": "Satisfied", "web": "Satisfied", "db": "Satisfied"}


def test_equal_flags_print_equal_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    """Another seed is another run."""
    one, same, other = (printed(capsys, "--seed", seed) for seed in ("1", "1", "2"))
    assert one == same
    assert one["events"] != other["events"]


def test_changes_come_in_the_order_of_the_flags(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever their kind; those of a scenario come after them."""
    flags = ["--cordon", "b-1", "--remove-node", "a-1", "--scale", "shop/deployment/web=6"]
    flags += ["--scenario", "docs/examples/zone-lost.yaml"]
    steps = [step["change"] for step in printed(capsys, *flags)["steps"]]
    assert steps == [
        "cordon b-1",
        "remove-node a-1",
        "scale shop/deployment/web=6",
        f"remove-domain {ZONE}=a",
        f"restore-domain {ZONE}=a",
    ]


def test_a_simulated_loss_says_that_it_is_one_order_of_one_phase(capsys: pytest.CaptureFixture[str]) -> None:
    """And which command says what holds in every order; a simulation without a loss needs none of that."""
    said = "One order of many was played, and lost nodes were deleted at once with their pods; rebalancer resilience "
    assert main([*SIMULATE, "--remove-domain", f"{ZONE}=a"]) == 0
    assert said in capsys.readouterr().out
    assert main([*SIMULATE, "--cordon", "a-0"]) == 0
    assert "resilience" not in capsys.readouterr().out


def test_json_and_yaml_are_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    document = printed(capsys)
    assert main([*SIMULATE, "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == document


def test_wide_leaves_no_event_out(capsys: pytest.CaptureFixture[str]) -> None:
    """The table has what a reader asks first, and counts the rest."""
    assert main([*SIMULATE]) == 0
    short = capsys.readouterr().out
    assert main([*SIMULATE, "-o", "wide"]) == 0
    wide = capsys.readouterr().out
    assert "Started" in wide
    assert "Started" not in short
    assert "more: -o wide, -o json" in short
    assert "more: -o wide, -o json" not in wide


def test_prevention_can_be_tried(capsys: pytest.CaptureFixture[str]) -> None:
    """The same night of scale-downs with and without it."""
    night = ["--scenario", "docs/examples/night.yaml", "--seed", "2"]
    without = printed(capsys, *night, "--prevention", "Off")
    steered = printed(capsys, *night, "--prevention", "Steer")
    assert steered["evictions"] < without["evictions"]


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--remove-node", "a-9"], 1, "remove-node a-9: node a-9 not found"),
        (["--restore-domain", f"{ZONE}=a"], 1, "was removed"),
        (["--each", "rack"], 1, "--each rack: no node has the label rack"),
        (["--each", ZONE, "--cordon", "a-0"], 2, "leave out the other changes"),
        (["-n", "shop"], 2, "leave out -n and -l"),
        (["-l", "app=web"], 2, "leave out -n and -l"),
        (["--scale", "web=3"], 2, "expected NAMESPACE/KIND/NAME=REPLICAS"),
        (["--prevention", "On"], 2, "On"),
        (["--seed", "one"], 2, "one"),
        (["--scenario", "nosuch.yaml"], 1, "nosuch.yaml cannot be read"),
        (["--scenario", EXAMPLE], 1, "expected steps only"),
        (["--scenario", "builtin:fire"], 1, "expected builtin:zone or builtin:deadlock"),
        (["--scenario", "builtin:zone"], 2, "has a cluster of its own; leave out --snapshot"),
        (["--live", "-o", "json"], 2, "a live simulation prints tables; leave out -o json"),
        (["--live", "--each", ZONE], 2, "and --live"),
        (
            ["--each", ZONE, "--prevention", "Steer"],
            2,
            "--each plays nothing; leave out the other changes, --prevention",
        ),
        (["--step"], 2, "need --live"),
        (["--page-address", "127.0.0.1:0"], 2, "need --live"),
    ],
)
def test_what_cannot_be_simulated_is_one_line(
    capsys: pytest.CaptureFixture[str], flags: list[str], code: int, message: str
) -> None:
    """With what to do instead; nothing is printed on standard output."""
    assert main([*SIMULATE, *flags]) == code
    out, error = capsys.readouterr()
    assert out == ""
    assert message in error
    assert "Traceback" not in error


def test_two_files_cannot_both_be_standard_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--snapshot", "-", "--scenario", "-"]) == 2
    assert "--scenario and --snapshot" in capsys.readouterr().err


def test_what_is_simulated_in_another_way_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Mode, windows and capacity of the policy; nothing where the policy is simulated as it is."""
    flags = [*SIMULATE, "--policy", write_policy(tmp_path, "groups: []\nmode: Evict\n")]
    assert main(flags) == 0
    assert "\nSimulated " not in capsys.readouterr().out
    more = 'groups: []\nwindows: [{schedule: "0 3 * * *", duration: 1h}]\ncapacity: {mode: Request}\n'
    write_policy(tmp_path, more)
    assert main(flags) == 0
    expected = "Simulated mode Evict (the policy says Observe), with every window open, without an autoscaler."
    assert expected in capsys.readouterr().out


def test_live_tells_the_story_and_then_prints_the_same_result(capsys: pytest.CaptureFixture[str]) -> None:
    """Watching changes nothing; a change without words is shown as it was written."""
    flags = [*SIMULATE, "--scenario", "docs/examples/zone-lost.yaml"]
    assert main(flags) == 0
    result = capsys.readouterr().out
    assert main([*flags, "--live"]) == 0
    story, _, rest = capsys.readouterr().out.partition("\n\n")
    assert rest == result
    lines = story.splitlines()
    assert lines[:2] == ["00:00  The cluster as it is", f"00:00  remove-domain {ZONE}=a"]
    assert sum("  Evicted: " in line for line in lines) == 8


def test_a_change_that_is_impossible_ends_the_story(capsys: pytest.CaptureFixture[str]) -> None:
    """With one line on standard error."""
    assert main([*SIMULATE, "--cordon", "a-0", "--remove-node", "z-9", "--live"]) == 1
    assert capsys.readouterr().err == "error: remove-node z-9: node z-9 not found\n"


def test_a_scenario_brings_its_cluster_and_its_policy(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """No cluster is read; --policy goes before the scenario's."""
    scenario = ["simulate", "--scenario", "docs/examples/zone-back/scenario.yaml", "-o", "json"]
    assert main(scenario) == 0
    own = json.loads(capsys.readouterr().out)
    assert (own["evictions"], own["lowerBound"], len(own["report"]["limits"])) == (3, 3, 0)
    assert [step["at"] for step in own["steps"]] == [0, 20, 180]
    assert main([*scenario, "--policy", write_policy(tmp_path, "spread: {actOn: []}\n")]) == 0
    assert json.loads(capsys.readouterr().out)["evictions"] == 0


def test_the_status_page_of_a_simulation_is_served_while_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--live", "--page-address", "127.0.0.1:0"]
    assert main([*SIMULATE, *flags]) == 0
    assert capsys.readouterr().out.startswith("Status page, while the simulation runs: http://localhost:")
