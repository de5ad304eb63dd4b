"""The command line: `rebalancer VERB …`, also as `kubectl rebalance VERB …`. Each verb has its module.

To add a verb, write a module here with two functions and a line in `registry.VERBS`:

    def add_arguments(parser: Parser) -> None: ...   # flags and positionals of this verb
    def run(args: argparse.Namespace) -> int: ...    # do it and return the exit code

The module is imported when its verb is called, so it may import what it needs at the top. Flags that several verbs
share are declared in `options` (a cluster or a snapshot, a selection, a format) and `settings_flags` (process settings,
from their declarations). A verb writes its result to standard output, raises `errors.CliError` for problems that the
user can fix, and does not catch Ctrl-C or a closed pipe: `main` turns them into exit codes.
"""
