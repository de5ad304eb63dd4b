"""`rebalancer policy`: check a policy file, show it with every default, print the JSON Schema. Needs no cluster."""

import argparse
import json
import sys

from rebalancer.cli.errors import Exit
from rebalancer.cli.files import read_any_policy, read_policy
from rebalancer.cli.parsing import Parser, add_verbs
from rebalancer.cli.terminal import find_layout
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
    verbs["validate"].add_argument("file", metavar="FILE", help="the policy file; - is standard input")
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
    sys.stdout.write(args.act(args))
    return Exit.FINE


def _validate(args: argparse.Namespace) -> str:
    policy = read_any_policy(args.file)
    if isinstance(policy, TeamPolicy):
        what = f"team policy, {plural(len(policy.groups), 'group')}"
    else:
        what = f"mode {policy.mode}, hash {policy.hash}"
    return "".join(f"{line}\n" for line in find_layout("never").wrap(f"{args.file}: valid ({what})"))


def _schema(args: argparse.Namespace) -> str:
    schema = team_json_schema() if args.team else json_schema()
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _show(args: argparse.Namespace) -> str:
    return read_policy(args.policy, kubeconfig=args.kubeconfig, context=args.context).policy.to_yaml()
