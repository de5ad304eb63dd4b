"""`rebalancer resilience`: what it prints, and what it refuses."""

import json
from collections.abc import Sequence

import pytest
import yaml

from rebalancer.cli.main import main
from rebalancer.documents.document import document_schema
from rebalancer.documents.resilience import ResilienceDocument
from rebalancer.model.nodes import HOSTNAME, ZONE
from tests.cli.test_golden import EXAMPLE

READ = ("--snapshot", str(EXAMPLE))


def test_json_and_yaml_are_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """With the fields that its schema has, and an entry for each zone and phase."""
    assert main(["resilience", *READ, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    main(["resilience", *READ, "-o", "yaml"])
    assert yaml.safe_load(capsys.readouterr().out) == document
    assert document["kind"] == "Resilience"
    assert document.keys() == document_schema(ResilienceDocument)["$defs"]["ResilienceDocument"]["properties"].keys()
    assert [(one["value"], one["phase"]) for one in document["domains"]] == [
        (zone, phase) for zone in "abc" for phase in ("silent", "gone")
    ]


def test_report_and_simulate_print_the_same_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """What is left after a loss has one answer, in words and in JSON; changes are looked for by `resilience` alone."""
    commands = (("resilience",), ("report", "--failures"), ("simulate", "--each", ZONE))
    texts, documents = [], []
    for command in commands:
        assert main([*command, *READ]) == 0
        texts.append(capsys.readouterr().out)
        assert main([*command, *READ, "-o", "json"]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    own, report, simulated = texts
    assert own.startswith(simulated)
    assert "comes back whole with nodeTaintsPolicy: Honor" in own.removeprefix(simulated)
    assert report.endswith(f"\n\nIF LOST\n{simulated}")
    assert documents[0]["changes"]
    assert {**documents[0], "changes": [], "planned": 0} == documents[2] == documents[1]["resilience"]


def test_only_workloads_that_a_repair_moves_are_counted_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    """Not `cart`, of which `plan` says that its budget never allows it."""
    assert main(["resilience", *READ, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert main(["plan", *READ, "-o", "json"]) == 0
    groups = json.loads(capsys.readouterr().out)["groups"]
    assert [len(groups), document["planned"]] == [4, 3]
    assert document["planned"] == sum(group["now"] + group["waiting"] > 0 for group in groups)


def test_a_report_has_the_losses_of_the_keys_and_workloads_that_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """On request only; `failures` sums up the phases of each domain."""
    flags = ("report", *READ, "-l", "app=web", "-o", "json")
    assert main([*flags, "--failures", HOSTNAME, "--failures"]) == 0
    document = json.loads(capsys.readouterr().out)
    losses = document["resilience"]
    assert losses["topologyKeys"] == [HOSTNAME, ZONE]
    assert {row["workload"]["name"] for loss in losses["domains"] for row in loss["workloads"]} == {"web"}
    (zone,) = [loss for loss in document["failures"] if (loss["topologyKey"], loss["domain"]) == (ZONE, "a")]
    phases = [loss["workloads"][0] for loss in losses["domains"] if (loss["key"], loss["value"]) == (ZONE, "a")]
    assert [row["now"] for row in phases] == [6, 6]
    assert zone["unplaceable"] == 12 - min(row["guaranteed"] for row in phases) == 5
    (group,) = zone["groups"]
    assert group == {
        "group": "workloads",
        "namespace": "shop",
        "key": {"workload": "Deployment/web"},
        "lost": 6,
        "share": 0.5,
        "holds": False,
    }
    (node,) = [loss for loss in document["failures"] if loss["domain"] == "a-0"]
    assert (node["groups"][0]["lost"], node["groups"][0]["holds"]) == (3, True)
    assert main([*flags]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["failures"], document["resilience"]) == (None, None)


def test_a_majority_that_a_loss_takes_for_a_time_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Also of workloads that come back whole, which the table leaves out."""
    assert main(["resilience", *READ, "--phase", "gone"]) == 0
    assert capsys.readouterr().out == (
        "If any one zone were lost: once its Node objects are deleted, of 4 workloads 4 come back whole for certain.\n"
        "Right after the worst loss 4 of 4 workloads have no majority of their pods: shop/cart (Deployment), "
        "shop/db (StatefulSet), shop/search (Deployment), shop/web (Deployment).\n"
    )
    assert main(["resilience", *READ, "--key", HOSTNAME]) == 0
    assert "majority" not in capsys.readouterr().out


def test_keys_and_phases_are_those_that_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resilience", *READ, "--key", "kubernetes.io/hostname", "--phase", "gone", "-o", "json"]) == 0
    domains = json.loads(capsys.readouterr().out)["domains"]
    assert {one["key"] for one in domains} == {"kubernetes.io/hostname"}
    assert {one["phase"] for one in domains} == {"gone"}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--key", "my zone"), 2, "found 'my zone', expected a label key such as app or app.kubernetes.io/name"),
        (("--phase", "half"), 2, "'silent', 'gone'"),
        (("pod/db-4",), 2, "pod/db-4 is a pod; name its workload"),
        (("weg",), 1, "no workload or pod is called weg"),
    ],
)
def test_what_makes_no_sense_is_refused(
    words: Sequence[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what was found, and what was expected."""
    assert main(["resilience", *words, *READ]) == code
    assert message in capsys.readouterr().err


def test_a_key_that_no_node_has_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resilience", *READ, "--key", "rack"]) == 0
    assert capsys.readouterr().out == "No node has the label rack: there is no domain. Name another key.\n"
