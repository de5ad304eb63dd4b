"""`rebalancer policy`: check a policy file, show it with every default, print the JSON Schema. Needs no cluster."""

import argparse
import json
import sys

from rebalancer.cli.errors import CliError, Exit
from rebalancer.cli.files import read_any_policy, read_policy, source_name
from rebalancer.cli.parsing import Parser, add_verbs
from rebalancer.cli.terminal import say
from rebalancer.model.visible import visible_json
from rebalancer.model.words import plural
from rebalancer.policy import TeamPolicy, json_schema, team_json_schema


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
    wrong: list[str] = []
    for file in args.files:
        try:
            _validate_file(file)
        except CliError as error:  # the other files are checked, too
            first, *others = error.lines
            wrong += [f"error: {first}" if wrong else first, *others]
    if wrong:
        raise CliError(*wrong)
    return Exit.FINE


def _validate_file(file: str) -> None:
    if file.startswith("configmap:"):
        raise CliError(f"{file}: validate reads files; give it the policy as one, or see rebalancer check")
    policy = read_any_policy(file)
    name = source_name(file)
    if isinstance(policy, TeamPolicy):
        say([f"{name}: valid (team policy, {plural(len(policy.groups), 'group')})"])
    else:
        say([f"{name}: valid (mode {policy.mode}, hash {policy.hash})"])


def _schema(args: argparse.Namespace) -> int:
    schema = team_json_schema() if args.team else json_schema()
    return _write(visible_json(json.dumps(schema, indent=2, ensure_ascii=False)) + "\n")


def _show(args: argparse.Namespace) -> int:
    return _write(read_policy(args.policy, kubeconfig=args.kubeconfig, context=args.context).policy.to_yaml())


def _write(text: str) -> Exit:
    sys.stdout.write(text)
    return Exit.FINE
