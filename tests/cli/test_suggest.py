"""`rebalancer suggest`: what it prints, and what it refuses."""

import json
from typing import Any

import jsonschema
import pytest
import yaml

from rebalancer.cli.main import main
from rebalancer.documents.document import document_schema
from rebalancer.lint.document import LintDocument

SHARDS = ["suggest", "--limit", "<1/3", "--size", "10", "--domains", "2,2,2", "--group-size", "2"]


def findings(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, list[dict[str, Any]]]:
    """Return the findings by their rules."""
    assert main([*argv, "-o", "json"]) == 0
    by_rule: dict[str, list[dict[str, Any]]] = {}
    for one in json.loads(capsys.readouterr().out)["findings"]:
        by_rule.setdefault(one["rule"], []).append(one)
    return by_rule


def test_json_and_yaml_are_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """That of lint."""
    main([*SHARDS, "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    main([*SHARDS, "-o", "yaml"])
    assert yaml.safe_load(capsys.readouterr().out) == document
    assert document["kind"] == "Lint"
    jsonschema.validate(document, document_schema(LintDocument))


def test_every_number_of_the_constraints_is_in_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    """The cap, the worst case of each constraint, from how many domains on it is enough, and the constraint itself."""
    one = findings(capsys, "suggest", "--limit", "<1/3", "--size", "10", "--domains", "6")["limit-not-guaranteed"][0]
    assert one["numbers"] == {
        "pods": 10,
        "cap": 3,
        "most": 10,
        "domains": 6,
        "maxSkew": 2,
        "mostWithMaxSkew": 3,
        "domainsNeeded": 5,
        "looserMaxSkew": 3,
        "looserMostWithMaxSkew": 4,
        "looserDomainsNeeded": 8,
    }
    assert one["patch"][0]["value"] == [
        {
            "topologyKey": "kubernetes.io/hostname",
            "maxSkew": 2,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "pods"}},
        }
    ]


def test_groups_that_can_deadlock_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    """With all outcomes, those that end so, and the maxSkew with none."""
    (one,) = findings(capsys, *SHARDS)["groups-deadlock"]
    assert one["numbers"] == {"groups": 5, "groupSize": 2, "ways": 1715328, "stuck": 3456, "freeFrom": 3}


@pytest.mark.parametrize(
    ("share", "size", "message"),
    [
        (
            "<1/3",
            "6",
            "allows 1 of 6 pods in a domain of kubernetes.io/hostname: it takes 6 domains, and the cluster has 3",
        ),
        ("<1/3", "2", "allows none of 2 pods in a domain, so every placement violates it. Allow more in the"),
    ],
)
def test_a_limit_that_no_placement_keeps(
    share: str, size: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Is the only finding: no constraint helps."""
    ((rule, (one,)),) = findings(capsys, "suggest", "--limit", share, "--size", size, "--domains", "3").items()
    assert (rule, one["severity"]) == ("limit-impossible", "error")
    assert message in one["message"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--limit", "1/3"], "found '1/3', expected an operator and a share such as \"<1/3\""),
        (["--limit", "<2"], "found '<2', expected"),
        (["--size", "0"], "found '0', expected a number from 1 to 5000"),
        (["--size", "many"], "found 'many', expected a number"),
        (["--domains", "2,,2"], "found '', expected a number"),
        (["--domains", "3000,3000"], "found 6000 domains, expected 5000 at most"),
        (["--size", "5001"], "found '5001', expected a number from 1 to 5000"),
        (["--size", "-6"], "found '-6', expected a number from 1 to 5000"),
        (["--domains", "0"], "found '0', expected a number from 1 to 5000"),
        (["--domains", "2,0"], "found '0', expected a number from 1 to 5000"),
        (["--group-size", "0"], "found '0', expected a number from 1 to 5000"),
        (["--group-size", "4"], "--group-size 4 does not divide --size 10"),
        (["--group-size", "20"], "--group-size 20 does not divide --size 10"),
        (["--group-size", "5"], "--group-size 5 is more than the 3 domains that its pods are separated over; give 3"),
        (["--key", "my zone"], "found 'my zone', expected a label key such as app or app.kubernetes.io/name"),
        (["--key", ""], "found '', expected a label key"),
        (["--key", "a/b/c"], "found 'a/b/c', expected a label key"),
    ],
)
def test_what_makes_no_sense_is_refused(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the flag, what was found, and what was expected."""
    assert main([*SHARDS, *argv]) == 2
    assert message in capsys.readouterr().err


UNEVEN = ["suggest", "--limit", "<=40%", "--size", "20", "--domains", "2,1", "--zone-max-skew", "1"]
"""Zones of two nodes and one; at most eight of twenty pods may be on a node, which maxSkew 3 guarantees."""


def test_sizes_that_two_constraints_leave_without_a_placement_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """With the smallest change. Fourteen are 7 and 7 by zone, 3 and 7 by node."""
    found = findings(capsys, *UNEVEN)
    without, unreached = found["sizes-without-placement"]
    assert without["sizes"] == [{"first": 14, "last": 14}, {"first": 16, "last": 20}]
    assert unreached["sizes"] == [{"first": 15, "last": 15}]
    assert without["message"].endswith("14, 16-20. Add a node in the smallest zone: then each number has one")
    assert found["limit-not-guaranteed"][0]["patch"][0]["value"]["maxSkew"] == 3


def test_without_larger_domains_there_is_no_constraint_over_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suggest", "--limit", "<1/3", "--size", "10", "--domains", "6", "--zone-max-skew", "1"]) == 2
    assert "--zone-max-skew is about larger domains; give --domains as numbers in each" in capsys.readouterr().err


def test_equal_zones_leave_no_size_without_a_placement(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--limit", "<=1/2", "--size", "10", "--domains", "2,2", "--zone-max-skew", "1"]
    assert "sizes-without-placement" not in findings(capsys, "suggest", *flags)


def test_zones_lie_in_regions(capsys: pytest.CaptureFixture[str]) -> None:
    """What is larger than the key: three regions of one, one and two zones."""
    flags = ["--key", "topology.kubernetes.io/zone", "--domains", "1,1,2", "--zone-max-skew", "1"]
    found = findings(capsys, "suggest", "--limit", "<=1/3", "--size", "8", *flags)
    assert "1 over topology.kubernetes.io/region" in found["sizes-without-placement"][0]["message"]
