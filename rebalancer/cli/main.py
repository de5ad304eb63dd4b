"""The entry point: runs the verb and turns its end into an exit code and at most one message."""

import errno
import gc
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import PurePath
from types import TracebackType

from rebalancer import __version__
from rebalancer.cli.errors import CliError, Exit, UsageError, traceback_lines, write_error
from rebalancer.cli.interrupts import is_interrupt
from rebalancer.cli.parsing import Parser, add_verbs, suggest_flag
from rebalancer.cli.registry import VERBS, Verb

_DESCRIPTION = (
    "Keeps Kubernetes workloads spread the way kube-scheduler would count it: "
    "the fewest evictions, proved, within every budget."
)
_EPILOG = (
    "Exit codes: 0 fine, 1 error, 2 wrong usage, 3 --detailed-exitcode or --fail-on applies, 130 Ctrl-C. "
    "Each command has its own --help."
)

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a write that name no file. They come from standard output, because commands name the files they write."""

_YOUNG = 5_000_000
"""After this many new objects the garbage collector runs. A plan over tens of thousands of workloads makes millions and
hardly a cycle; at Python's default, collecting takes as long as planning. `run` collects after each cycle."""


def collect_rarely() -> None:
    """Let the garbage collector run only after `_YOUNG` new objects."""
    gc.set_threshold(_YOUNG, 20, 100)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; `argv` is without the program's name."""
    collect_rarely()
    sys.excepthook = _show_exception
    prog = _program_name(sys.argv[0])
    arguments = list(sys.argv[1:] if argv is None else argv)
    verb = next((verb for verb in VERBS if arguments and verb.name == arguments[0]), None)
    try:
        code = _show_overview(prog, arguments) if verb is None else _run(verb, prog, arguments[1:])
        sys.stdout.flush()
    except SystemExit as stop:  # argparse: help, version, or a usage message that it has already shown
        return stop.code if isinstance(stop.code, int) else Exit.ERROR
    except CliError as error:
        return _report_failure(*error.lines, code=error.exit_code)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED if verb is None else verb.interrupted
    except BrokenPipeError:  # the reader has closed the pipe, as `| head` does
        _discard_output()
        return Exit.FINE
    except OSError as error:  # files that cannot be read or written; any other error keeps its traceback
        where = error.filename or ("standard output" if error.errno in _FULL else "")
        return _report_failure(": ".join(filter(None, [where, error.strerror or str(error)])), code=Exit.ERROR)
    except Exception as error:
        if not is_interrupt(error):
            raise
        return Exit.INTERRUPTED if verb is None else verb.interrupted
    return code


def _run(verb: Verb, prog: str, arguments: Sequence[str]) -> int:
    module = verb.load()
    parser = Parser(prog=f"{prog} {verb.name}", description=f"{verb.summary}.")
    module.add_arguments(parser)
    return module.run(parser.parse_args(arguments))


def _show_overview(prog: str, arguments: Sequence[str]) -> int:
    """Show help or the version if no verb is named, or raise UsageError."""
    parser = Parser(prog=prog, description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=f"rebalancer {__version__}")
    add_verbs(parser, {verb.name: verb.summary for verb in VERBS}, dest="verb")
    if not arguments:
        parser.print_help(sys.stderr)
        return Exit.USAGE
    flags = parser.list_flags()
    if not arguments[0].startswith("-"):
        is_flag = f"--{arguments[0]}" in flags  # many programs have a command `help`
        near = [f"--{arguments[0]}"] if is_flag else get_close_matches(arguments[0], [verb.name for verb in VERBS], n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"unknown command {arguments[0]!r}; {hint}`{prog} --help` lists the commands")
    if arguments[0] in flags:
        parser.parse_args(arguments)  # shows the help or the version, and exits
    hint = suggest_flag(arguments[0], flags)
    raise UsageError(f"found {arguments[0]!r}, expected a command first; {hint}`{prog} --help` lists them")


def _program_name(path: str) -> str:
    """Name the program as the user called it: kubectl runs the plugin `kubectl-rebalance`."""
    return "kubectl rebalance" if PurePath(path).name.startswith("kubectl-rebalance") else "rebalancer"


def _report_failure(*lines: str, code: Exit) -> Exit:
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()
    first, *others = lines
    write_error([f"error: {first}", *others])
    return code


def _show_exception(_: type[BaseException], error: BaseException, __: TracebackType | None) -> None:
    """Show an unexpected error as Python does, but without control characters in the message."""
    write_error(traceback_lines(error))


def _discard_output() -> None:
    """Discard standard output, so that the interpreter's last flush does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":  # the image starts this module, because its interpreter has no installed scripts
    sys.exit(main())
