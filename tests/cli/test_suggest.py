"""`rebalancer suggest`: what it prints, and what it refuses."""

import json
from pathlib import Path

import pytest
import yaml

from rebalancer.cli.main import main
from rebalancer.documents.document import document_schema
from rebalancer.documents.suggestion import SuggestionDocument

GOLDEN = Path(__file__).parent / "golden"
SHARDS = ["suggest", "--limit", "<1/3", "--size", "10", "--domains", "2,2,2", "--group-size", "2"]


def test_the_table_equals_the_stored_example(capsys: pytest.CaptureFixture[str]) -> None:
    """A change of it is a decision."""
    assert main(SHARDS) == 0
    assert capsys.readouterr().out == (GOLDEN / "rebalancer-suggest-shards.txt").read_text()


def test_json_and_yaml_are_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """With the fields that its schema has."""
    main([*SHARDS, "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    main([*SHARDS, "-o", "yaml"])
    assert yaml.safe_load(capsys.readouterr().out) == document
    assert document["kind"] == "Suggestion"
    assert document.keys() == document_schema(SuggestionDocument)["$defs"]["SuggestionDocument"]["properties"].keys()


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
    """With the smallest change, and both constraints to paste. Fourteen are 7 and 7 by zone, 3 and 7 by node."""
    assert main(UNEVEN) == 0
    text = capsys.readouterr().out
    assert "Sizes up to 20 without a placement under the constraints: 14, 16-20.\n" in text
    assert "Sizes that pods which are placed one by one do not reach: 15.\n" in text
    assert "Add a node in the smallest zone: then each size has a placement.\n" in text
    (pasted,) = yaml.safe_load(text.partition("# Replace")[2].partition("\n")[2]).values()
    hard = {row["topologyKey"]: row["maxSkew"] for row in pasted if row["whenUnsatisfiable"] == "DoNotSchedule"}
    assert hard == {"kubernetes.io/hostname": 3, "topology.kubernetes.io/zone": 1}

    main([*UNEVEN, "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    assert document["zoneMaxSkew"] == 1
    assert document["impossible"] == [{"first": 14, "last": 14}, {"first": 16, "last": 20}]
    assert document["unreachable"] == [{"first": 15, "last": 15}]
    assert document["change"] == "Add a node in the smallest zone"


def test_zones_that_differ_too_much_leave_only_the_last_change(capsys: pytest.CaptureFixture[str]) -> None:
    """Zones of one, five and nine nodes: a second node in the first does not bring it near the others."""
    flags = ["--size", "60", "--domains", "1,5,9", "--zone-max-skew", "1"]
    main(["suggest", "--limit", "<=1/10", *flags])
    assert "without a placement" in (text := capsys.readouterr().out)
    assert "ScheduleAnyway: then each size has a placement." in text


def test_without_larger_domains_there_is_no_constraint_over_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suggest", "--limit", "<1/3", "--size", "10", "--domains", "6", "--zone-max-skew", "1"]) == 2
    assert "--zone-max-skew is about larger domains; give --domains as numbers in each" in capsys.readouterr().err


def test_equal_zones_leave_no_size_without_a_placement(capsys: pytest.CaptureFixture[str]) -> None:
    main(["suggest", "--limit", "<=1/2", "--size", "10", "--domains", "2,2", "--zone-max-skew", "1", "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    assert (document["impossible"], document["unreachable"], document["change"]) == ([], [], "")
