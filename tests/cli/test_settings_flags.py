"""The flags made from the settings' declarations."""

import os

import pytest

from rebalancer.cli.errors import CliError
from rebalancer.cli.parsing import Parser
from rebalancer.cli.registry import VERBS, Verb
from rebalancer.cli.settings_flags import add_settings_arguments, load_flags
from rebalancer.policy import Mode
from rebalancer.settings import Settings, flag_of, variable_of


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("REBALANCER_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def parser() -> Parser:
    parser = Parser(prog="rebalancer run", description="Run.")
    add_settings_arguments(parser)
    return parser


def test_help_names_flag_default_and_variable_of_every_setting(parser: Parser) -> None:
    """One place to look up, complete because it is generated."""
    shown = " ".join(parser.format_help().split())
    for name in Settings.model_fields:
        assert f"{flag_of(name)} " in shown
        assert f"${variable_of(name)}]" in shown
    assert "[default: 15s; $REBALANCER_LEASE_DURATION]" in shown


ALIASED = {"run", "status", "pause", "resume", "approve", "apply", "cleanup"}


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_the_controllers_namespace_has_one_name_in_every_verb(verb: Verb) -> None:
    """Wherever a cluster is reached; where -n cannot mean workloads it is an alias, and help shows it as one."""
    parser = Parser(prog=verb.name, description="")
    verb.load().add_arguments(parser)
    flags = parser.list_flags()
    assert ("--controller-namespace" in flags) == ("--kubeconfig" in flags)
    shown = " ".join(parser.format_help().split())
    assert ("--controller-namespace NAME, -n NAME, --namespace NAME" in shown) == (verb.name in ALIASED)
    if verb.name in ALIASED:
        for flag in ("--controller-namespace", "--namespace", "-n"):
            words = ["file", flag, "ops"] if verb.name == "apply" else [flag, "ops"]
            assert load_flags(parser.parse_args(words)).namespace == "ops"


def test_a_flag_wins_over_the_environment(parser: Parser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REBALANCER_MODE", "Evict")
    monkeypatch.setenv("REBALANCER_CONTEXT", "prod")
    settings = load_flags(parser.parse_args(["--mode", "Observe", "--once"]))
    assert (settings.mode, settings.once, settings.context) == (Mode.OBSERVE, True, "prod")


def test_wrong_values_are_reported_with_their_flags(parser: Parser) -> None:
    with pytest.raises(CliError, match='--mode: found "evict"; expected Observe, Approve or Evict') as caught:
        load_flags(parser.parse_args(["--mode", "evict", "--retry-period", "5"]))
    assert '--retry-period: found "5"; expected a duration' in str(caught.value)
