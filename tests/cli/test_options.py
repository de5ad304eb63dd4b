"""The flags that the reading verbs share."""

import io
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rebalancer.cli.errors import UsageError
from rebalancer.cli.files import ReadPolicy
from rebalancer.cli.options import ReadOptions, add_read_arguments
from rebalancer.cli.parsing import Parser
from rebalancer.cli.selectors import parse_selector
from rebalancer.model.cluster import NEWEST, Version
from rebalancer.model.labels import LabelSelector, Operator, SelectorRequirement
from rebalancer.policy import default_policy
from rebalancer.reporting.text.layout import TextLayout
from tests.build import HEAD


def read(*argv: str) -> ReadOptions:
    parser = Parser(prog="rebalancer report", description="Report.")
    add_read_arguments(parser)
    return ReadOptions.of(parser.parse_args(argv), policy=default_policy())


def test_without_flags_the_whole_live_cluster_is_read() -> None:
    assert read() == ReadOptions(
        snapshots=(),
        server_version=NEWEST,
        at=None,
        kubeconfig=None,
        context=None,
        namespace=None,
        selector=LabelSelector(),
        controller_namespace="rebalancer-system",
        read_policy=ReadPolicy(policy=default_policy()),
        output="table",
        layout=TextLayout(),
        most=None,
    )


def test_every_flag_reaches_its_field() -> None:
    reading = read("--snapshot", "-", "--server-version", "v1.33.2", "--at", "2026-01-31T09:00:00+01:00", "-n", "shop")
    assert (reading.snapshots, reading.server_version, reading.namespace) == (("-",), Version(1, 33), "shop")
    assert reading.at == datetime(2026, 1, 31, 8, tzinfo=UTC)
    words = ("--kubeconfig", "k", "--context", "c", "--controller-namespace", "r", "-A", "-l", "app=web", "-o", "json")
    live = read(*words)
    assert (live.kubeconfig, live.context, live.namespace, live.output) == ("k", "c", None, "json")
    assert live.controller_namespace == "r"
    assert live.selector == LabelSelector.of({"app": "web"})


@pytest.mark.parametrize("argv", [["-A"], ["-l", "app=web"]])
def test_a_verb_about_one_object_takes_no_selection(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser(prog="rebalancer explain", description="Explain.")
    add_read_arguments(parser, namespace="the object's")
    reading = ReadOptions.of(parser.parse_args(["-n", "shop"]), policy=default_policy())
    assert (reading.namespace, reading.selector) == ("shop", LabelSelector())
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(argv)
    assert f"unrecognized arguments: {' '.join(argv)}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        ["--server-version", "1.33"],
        ["--at", "2026-01-31T08:00:00Z"],
        ["--snapshot", "x", "--kubeconfig", "k"],
        ["--snapshot", "x", "--context", "c"],
        ["--snapshot", "x", "--controller-namespace", "r"],
        ["--snapshot", "-", "--policy", "-"],
    ],
)
def test_flags_that_contradict_each_other_are_refused(argv: list[str]) -> None:
    """A flag that would be ignored is a mistake of its user."""
    with pytest.raises(UsageError):
        read(*argv)


@pytest.mark.parametrize(
    "argv",
    [["-n", "a", "-A"], ["-o", "xml"], ["--at", "noon"], ["--at", "2026-01-31"], ["--server-version", "new"]]
    + [["-l", text] for text in ("a=b=c", "a in (b", "(a)", "a,,b", "a=b c", "a in ()b", "ä", "a/b/c=d", ",")],
)
def test_values_that_mean_nothing_are_refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        read(*argv)
    assert "error: argument" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("", []),
        ("app", [SelectorRequirement("app", Operator.EXISTS)]),
        ("!app", [SelectorRequirement("app", Operator.DOES_NOT_EXIST)]),
        ("app=", [SelectorRequirement("app", Operator.IN, ("",))]),
        ("app==web", [SelectorRequirement("app", Operator.IN, ("web",))]),
        ("app != web", [SelectorRequirement("app", Operator.NOT_IN, ("web",))]),
        (
            "tier in (a, b),x.y/z notin (c) , !d",
            [
                SelectorRequirement("tier", Operator.IN, ("a", "b")),
                SelectorRequirement("x.y/z", Operator.NOT_IN, ("c",)),
                SelectorRequirement("d", Operator.DOES_NOT_EXIST),
            ],
        ),
    ],
)
def test_selectors_are_read_as_kubectl_reads_them(text: str, requirements: list[SelectorRequirement]) -> None:
    assert parse_selector(text) == LabelSelector.of(None, requirements)


def test_a_printed_selector_reads_back() -> None:
    """The model shows selectors as `-l` takes them."""
    selector = parse_selector("a=b,c!=d,e in (f,g),h notin (i,j),k,!l")
    assert parse_selector(str(selector)) == selector


@pytest.mark.parametrize(("policy", "folder"), [("sub/policy.yaml", "sub"), ("policy.yaml", "."), ("-", ".")])
def test_the_folder_of_the_policy_is_known(
    policy: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler's configuration is read from there; of standard input it is the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(HEAD.encode())))
    (tmp_path / "sub").mkdir()
    for name in ("policy.yaml", "sub/policy.yaml"):
        (tmp_path / name).write_text(HEAD)
    assert read("--policy", policy).read_policy.folders == (tmp_path / folder,)
