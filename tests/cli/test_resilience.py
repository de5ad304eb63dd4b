"""`rebalancer resilience`: what it prints, and what it refuses."""

import json
from collections.abc import Sequence

import pytest
import yaml

from rebalancer.cli.main import main
from rebalancer.documents.document import document_schema
from rebalancer.documents.resilience import ResilienceDocument
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
    assert capsys.readouterr().out == "No node has the label rack: there is no domain. Name another with --key.\n"
