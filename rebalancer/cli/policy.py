"""`rebalancer policy`: check a policy file, show it with every default, print the JSON Schema. Needs no cluster.

`validate --live` asks the queries of its guards, too: whether Prometheus understands them only Prometheus knows.
"""

import argparse
import json
import sys
from pathlib import Path

from rebalancer.admission.guards import Verdict
from rebalancer.cli.errors import CliError, Exit
from rebalancer.cli.files import read_any_policy, read_policy, source_name
from rebalancer.cli.parsing import Parser, add_verbs
from rebalancer.cli.terminal import say, write_lines
from rebalancer.model.visible import visible_json
from rebalancer.model.words import plural
from rebalancer.policy import Guards, TeamPolicy, json_schema, team_json_schema


def add_arguments(parser: Parser) -> None:
    """Declare the verbs below `policy`."""
    verbs = add_verbs(
        parser,
        {
            "validate": "Check a cluster or team policy and list all its problems with their lines",
            "schema": "Print the JSON Schema of policy files, for editors and CI",
            "show": "Print a policy with every default filled in",
        },
        dest="policy_verb",
    )
    verbs["validate"].add_argument("files", metavar="FILE", nargs="+", help="a policy file; - is standard input")
    verbs["validate"].add_argument(
        "--live",
        action="store_true",
        help="also ask the Prometheus of `guards` each query once; it is an error if one is not good",
    )
    verbs["schema"].add_argument("--team", action="store_true", help="that of team policies")
    verbs["show"].add_argument(
        "--policy",
        metavar="FILE",
        help="the policy: a file, - for standard input, or configmap:NAMESPACE/NAME (default: the shipped policy)",
    )
    verbs["show"].add_argument("--kubeconfig", metavar="FILE", help="the kubeconfig file, for a ConfigMap")
    verbs["show"].add_argument("--context", metavar="NAME", help="the kubeconfig's context, for a ConfigMap")
    verbs["validate"].set_defaults(act=_validate)
    verbs["schema"].set_defaults(act=_schema)
    verbs["show"].set_defaults(act=_show)


def run(args: argparse.Namespace) -> int:
    """Run the verb below `policy`."""
    code: int = args.act(args)
    return code


def _validate(args: argparse.Namespace) -> int:
    codes, wrong = [Exit.FINE], list[str]()
    for file in args.files:
        try:
            codes.append(_validate_file(file, live=args.live))
        except CliError as error:  # the others are checked, too
            first, *others = error.lines
            wrong += [f"error: {first}" if wrong else first, *others]
    if wrong:
        raise CliError(*wrong)
    return max(codes)


def _validate_file(file: str, *, live: bool) -> Exit:
    policy = read_any_policy(file)
    name = source_name(file)
    if isinstance(policy, TeamPolicy):
        say([f"{name}: valid (team policy, {plural(len(policy.groups), 'group')})"])
        return Exit.FINE
    say([f"{name}: valid (mode {policy.mode}, hash {policy.hash})"])
    folder = Path() if file == "-" else Path(file).parent
    return _ask(policy.guards, folder) if live else Exit.FINE


def _ask(guards: Guards, folder: Path) -> Exit:
    """Ask each query once, and write the answers; ERROR if one is not good."""
    from rebalancer.adapters.prometheus import PrometheusQueries  # noqa: PLC0415  # validate alone needs no HTTP client

    if not guards.queries:
        write_lines(["guards: no queries"])
        return Exit.FINE
    answers = PrometheusQueries(folder=folder).ask(guards)
    words = {Verdict.GOOD: "ok", Verdict.BAD: "not good", Verdict.ERROR: "error"}
    write_lines(f"guard {answer.name}: {words[answer.verdict]}: {answer.message}" for answer in answers)
    return Exit.FINE if all(answer.verdict is Verdict.GOOD for answer in answers) else Exit.ERROR


def _schema(args: argparse.Namespace) -> int:
    schema = team_json_schema() if args.team else json_schema()
    return _write(visible_json(json.dumps(schema, indent=2, ensure_ascii=False)) + "\n")


def _show(args: argparse.Namespace) -> int:
    return _write(read_policy(args.policy, kubeconfig=args.kubeconfig, context=args.context).policy.to_yaml())


def _write(text: str) -> Exit:
    sys.stdout.write(text)
    return Exit.FINE
