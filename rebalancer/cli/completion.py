"""`rebalancer completion`: a script that completes commands, flags and their values in a shell.

The script is made from the parsers and lists every value, so pressing Tab starts no program.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import Final

import shtab

from rebalancer.cli.errors import Exit
from rebalancer.cli.parsing import Parser, add_verbs
from rebalancer.cli.registry import VERBS

_EPILOG: Final = (
    'bash: eval "$(rebalancer completion bash)"; zsh: eval "$(rebalancer completion zsh)"; '
    "fish: rebalancer completion fish | source. Put the line into the shell's start-up file to keep it."
)

_PLUGIN: Final = {
    "bash": "complete -o bashdefault -F _shtab_rebalancer kubectl-rebalance\n",
    "zsh": "compdef _shtab_rebalancer kubectl-rebalance\n",
    "fish": "complete -c kubectl-rebalance -w rebalancer\n",
}
"""For each shell, the line that completes kubectl's plugin, too."""


def add_arguments(parser: Parser) -> None:
    """Declare the shell."""
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=tuple(_PLUGIN), help="the shell")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    parser = Parser(prog="rebalancer", description="")
    parser.add_argument("--version", action="version", help="show the version and exit")
    verbs = add_verbs(parser, {verb.name: verb.summary for verb in VERBS}, dest="verb")
    for verb in VERBS:
        verb.load().add_arguments(verbs[verb.name])
    for action in _list_actions(parser):
        if isinstance(action.metavar, str):
            action.metavar = action.metavar.replace(":", " ")  # zsh would run the text after a colon
            if action.metavar.startswith("FILE"):
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # shtab reads it
    sys.stdout.write(f"{shtab.complete(parser, shell=args.shell)}\n{_PLUGIN[args.shell]}")
    return Exit.FINE


def _list_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of the commands below it."""
    for action in parser._actions:  # noqa: SLF001  # argparse has no other list of what was declared
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for below in action.choices.values():
                yield from _list_actions(below)
