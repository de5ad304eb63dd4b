"""`rebalancer suggest`: what it prints, and what it refuses."""

import json
from pathlib import Path

import pytest
import yaml

from rebalancer.cli.main import main
from rebalancer.reporting.documents.document import document_schema
from rebalancer.reporting.documents.suggestion import SuggestionDocument

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
        (
            ["--group-size", "5"],
            "--group-size 5 is more than the 3 domains that its pods are separated over; give 3",
        ),
        (["--key", "my zone"], "found 'my zone', expected a label key such as app or app.kubernetes.io/name"),
        (["--key", ""], "found '', expected a label key"),
        (["--key", "a/b/c"], "found 'a/b/c', expected a label key"),
    ],
)
def test_what_makes_no_sense_is_refused(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the flag, what was found, and what was expected."""
    assert main([*SHARDS, *argv]) == 2
    assert message in capsys.readouterr().err
