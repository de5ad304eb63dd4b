"""`rebalancer run`: the controller."""

import argparse

from rebalancer.adapters.files.profiles import UnreadableProfile
from rebalancer.adapters.kubernetes.transport import ClusterError
from rebalancer.adapters.web import CannotListen
from rebalancer.cli import logs
from rebalancer.cli.errors import CliError, Exit
from rebalancer.cli.parsing import Parser
from rebalancer.cli.settings_flags import add_settings_arguments, load_flags
from rebalancer.controller import process
from rebalancer.controller.policy_source import UnreadablePolicy
from rebalancer.policy import PolicyError


def add_arguments(parser: Parser) -> None:
    """Declare a flag for each process setting."""
    add_settings_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run until a signal, or with --once until no work is left."""
    settings = load_flags(args)
    logs.configure_logs(level=settings.log_level, form=settings.log_format)
    try:
        process.run(settings)
    except PolicyError as error:
        number = len(error.problems) + error.unlisted
        raise CliError(
            f"{settings.policy} is not a valid policy, {number} problem{'s'[: number > 1]}:\n{error}"
        ) from None
    except (ClusterError, CannotListen, UnreadablePolicy, UnreadableProfile, process.StartError) as error:
        raise CliError(str(error)) from None
    return Exit.FINE
