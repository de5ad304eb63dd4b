"""`rebalancer explain`: why a pod or a workload is, or is not, moved."""

import argparse
import sys
from collections.abc import Sequence

from rebalancer.cli.errors import CliError, Exit, UsageError
from rebalancer.cli.load import look
from rebalancer.cli.options import Reading, add_reading_arguments
from rebalancer.cli.parsing import Parser
from rebalancer.controller.profiles import profile_of
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload
from rebalancer.reporting.documents.document import to_json, to_yaml
from rebalancer.reporting.documents.explanation import explain_pod, explain_workload
from rebalancer.reporting.text.explanation import explanation_text
from rebalancer.scheduling.view import View

_KINDS = {
    **dict.fromkeys(("pod", "pods", "po"), "Pod"),
    **dict.fromkeys(("deployment", "deployments", "deploy"), "Deployment"),
    **dict.fromkeys(("statefulset", "statefulsets", "sts"), "StatefulSet"),
    **dict.fromkeys(("replicaset", "replicasets", "rs"), "ReplicaSet"),
}


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.add_argument("object", metavar="KIND/NAME", help="pod, deployment, statefulset or replicaset, and its name")
    add_reading_arguments(parser, namespace="the object's namespace (default: the one that has it)")


def run(args: argparse.Namespace) -> int:
    """Print the explanation; nothing is changed."""
    reading = Reading.of(args)
    kind, name = _parsed(args.object)
    seen = look(reading)
    found = _found(kind, name, reading.namespace, seen.snapshot)
    if isinstance(found, Pod):
        view = View(seen.snapshot, profile_of(reading.policy))
        document = explain_pod(found, view, seen.assessment, seen.plan)
    else:
        # A Deployment's ReplicaSet is judged as the Deployment.
        top = seen.snapshot.workload.get(found.owner.uid, found) if found.owner is not None else found
        reference = Reference(top.namespace, top.kind, top.name)
        document = explain_workload(reference, seen.assessment, seen.plan, seen.snapshot)
    match reading.output:
        case "json":
            sys.stdout.write(to_json(document).decode())
        case "yaml":
            sys.stdout.write(to_yaml(document))
        case _:
            sys.stdout.write(explanation_text(document))
    return Exit.FINE


def _parsed(text: str) -> tuple[str, str]:
    kind, _, name = text.partition("/")
    if not name or kind.lower() not in _KINDS:
        raise UsageError(
            f"found {text!r}, expected KIND/NAME such as pod/web-1; kinds: pod, deployment, statefulset, replicaset"
        )
    return _KINDS[kind.lower()], name


def _found(kind: str, name: str, namespace: str | None, snapshot: Snapshot) -> Pod | Workload:
    every: Sequence[Pod | Workload] = snapshot.pods if kind == "Pod" else snapshot.workloads
    matching = [
        each
        for each in every
        if each.name == name and namespace in {None, each.namespace} and (isinstance(each, Pod) or each.kind == kind)
    ]
    if not matching:
        where = f" in namespace {namespace}" if namespace is not None else ""
        raise CliError(f"there is no {kind} {name}{where}")
    if len(matching) > 1:
        spaces = ", ".join(sorted(each.namespace for each in matching))
        raise CliError(f"{kind} {name} is in namespaces {spaces}; choose one with -n")
    return matching[0]
