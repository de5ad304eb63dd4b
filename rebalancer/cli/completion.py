"""`rebalancer completion`: a script that completes commands, flags and their values in a shell.

It is made from the same parsers as the help texts and names everything, so that pressing Tab starts no program.
"""

import argparse
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from rebalancer.cli.errors import Exit
from rebalancer.cli.parsing import Parser
from rebalancer.cli.registry import VERBS

_EPILOG = (
    "bash: source <(rebalancer completion bash); zsh: source <(rebalancer completion zsh); "
    "fish: rebalancer completion fish | source. Put the line into the shell's start-up file to keep it."
)


@dataclass(frozen=True, kw_only=True)
class _Flag:
    """A flag: its names, one line of help, whether a value follows, and the values if they are known."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Command:
    """A command: its flags, the words that may follow it, and the commands below it."""

    name: str
    summary: str
    flags: list[_Flag] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    below: list["_Command"] = field(default_factory=list)


def add_arguments(parser: Parser) -> None:
    """Declare the shell."""
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="the shell")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    sys.stdout.writelines(f"{line}\n" for line in _SCRIPTS[args.shell](_commands()))
    return Exit.FINE


def _commands() -> list[_Command]:
    commands = []
    for verb in VERBS:
        parser = Parser(prog=verb.name, description=verb.summary)
        verb.load().add_arguments(parser)
        commands.append(_describe(verb.name, verb.summary, parser))
    return commands


def _describe(name: str, summary: str, parser: argparse.ArgumentParser) -> _Command:
    command = _Command(name=name, summary=summary)
    for action in parser._actions:  # noqa: SLF001  # argparse has no other list of what was declared
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001
            command.below.extend(_describe(below, helps.get(below, ""), made) for below, made in action.choices.items())
        elif action.option_strings:
            command.flags.append(
                _Flag(
                    names=tuple(action.option_strings),
                    help=(action.help or "").replace("%%", "%"),
                    takes_value=action.nargs != 0,
                    choices=tuple(map(str, action.choices or ())),
                )
            )
        else:
            command.words.extend(map(str, action.choices or ()))
    return command


def _bash(commands: list[_Command]) -> Iterator[str]:
    """Yield the script for bash: one case for each command, then one for each flag with a value."""
    yield "# Completion of rebalancer for bash."
    yield "_rebalancer() {"
    yield '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" path="" words="" word'
    yield '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do'
    yield '    case "$path $word" in'
    for path, _ in _paths(commands):
        above, _, last = path.rpartition(" ")
        yield f"      {shlex.quote(f'{above} {last}')}) path={shlex.quote(path)} ;;"
    yield "    esac"
    yield "  done"
    yield '  case "$path" in'
    yield f'    "") words="{" ".join(command.name for command in commands)} --help --version" ;;'
    for path, command in _paths(commands):
        yield f"    {shlex.quote(path)})"
        yield '      case "$prev" in'
        for flag in command.flags:
            if flag.takes_value:
                values = f'-W "{" ".join(flag.choices)}"' if flag.choices else "-f"
                yield f'        {"|".join(flag.names)}) COMPREPLY=($(compgen {values} -- "$cur")); return ;;'
        yield "      esac"
        yield f'      words="{" ".join(_words(command))}" ;;'
    yield "  esac"
    yield '  COMPREPLY=($(compgen -W "$words" -- "$cur"))'
    yield "}"
    yield "complete -o default -F _rebalancer rebalancer kubectl-rebalance"


def _zsh(commands: list[_Command]) -> Iterator[str]:
    """Yield the script for zsh, which reads bash's."""
    yield "autoload -U +X bashcompinit && bashcompinit"
    yield from _bash(commands)


def _fish(commands: list[_Command]) -> Iterator[str]:
    """Yield the script for fish: one line for each command and flag, with its help."""
    yield "# Completion of rebalancer for fish."
    yield "complete -c rebalancer -f"
    for command in commands:
        yield f"complete -c rebalancer -n __fish_use_subcommand -a {command.name} -d {shlex.quote(command.summary)}"
    for path, command in _paths(commands):
        seen = " ; and ".join(f"__fish_seen_subcommand_from {name}" for name in path.split())
        begin = f"complete -c rebalancer -n {shlex.quote(seen)}"
        for below in command.below:
            yield f"{begin} -a {below.name} -d {shlex.quote(below.summary)}"
        if command.words:
            yield f"{begin} -a {shlex.quote(' '.join(command.words))}"
        for flag in command.flags:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names)
            value = f" -x -a {shlex.quote(' '.join(flag.choices))}" if flag.choices else " -r -F"
            yield f"{begin} {names}{value if flag.takes_value else ''} -d {shlex.quote(flag.help)}"


def _paths(commands: list[_Command], above: str = "") -> Iterator[tuple[str, _Command]]:
    """Yield every command with its words from the first on."""
    for command in commands:
        path = f"{above} {command.name}".strip()
        yield path, command
        yield from _paths(command.below, path)


def _words(command: _Command) -> Iterator[str]:
    """Yield the words that may follow a command."""
    yield from (below.name for below in command.below)
    yield from command.words
    yield from (name for flag in command.flags for name in flag.names)


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
