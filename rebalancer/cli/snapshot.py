"""`rebalancer snapshot`: a dump of what the other commands need, to store, compare or share."""

import argparse
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from rebalancer.adapters.files import UnreadableSnapshot, reduce_snapshots
from rebalancer.adapters.kubernetes.listing import read_reduced
from rebalancer.adapters.kubernetes.transport import ClusterError, connect
from rebalancer.cli.errors import CliError, Exit, UsageError, warn
from rebalancer.cli.files import choose_policy, read_policy, read_snapshot_files
from rebalancer.cli.options import add_snapshot_argument
from rebalancer.cli.parsing import Parser
from rebalancer.cli.progress import progress
from rebalancer.cli.refusals import unreadable
from rebalancer.decoding.reduction import reduced_list
from rebalancer.locations import controller_namespace
from rebalancer.model.visible import visible_json

_EPILOG = (
    "The dump has the fields that Rebalancer reads and no others: no environment variables, commands, arguments, "
    "Secrets or ConfigMaps, and of the annotations only those that it reads. Names, labels, images and resources are "
    "in it. The other commands read it with --snapshot."
)


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="-", help="the file to write (default: -, standard output)"
    )
    add_snapshot_argument(parser, "reduce this output of kubectl get … -o json instead")
    parser.add_argument(
        "--policy",
        metavar="FILE",
        help="a policy, a file or configmap:NAMESPACE/NAME; the owners in its eligibility.owners are read too "
        "(default: the one in force in the live cluster, else the shipped one, which lists Kubernetes' own only)",
    )
    parser.add_argument("--kubeconfig", metavar="FILE", help="the kubeconfig file (default: as for report)")
    parser.add_argument("--context", metavar="NAME", help="the kubeconfig's context (default: the current one)")
    parser.add_argument(
        "--controller-namespace",
        metavar="NAME",
        help="where the controller of the live cluster runs, whose policy is taken (default: $REBALANCER_NAMESPACE, "
        "the pod's own, rebalancer-system)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the dump."""
    if args.snapshot is not None and any((args.kubeconfig, args.context, args.controller_namespace)):
        raise UsageError(
            "--kubeconfig, --context and --controller-namespace name a live cluster; leave them out or --snapshot"
        )
    if args.snapshot is not None and args.policy is not None:
        raise UsageError("--policy names owners to be read from a live cluster; leave it out or --snapshot")
    if args.snapshot is None:
        namespace = args.controller_namespace or controller_namespace()
        read = choose_policy(args.policy, namespace, kubeconfig=args.kubeconfig, context=args.context)
    else:
        read = read_policy(None)
    policy = read.policy
    try:
        if args.snapshot is None:
            transport = connect(kubeconfig=args.kubeconfig, context=args.context)
            warn(transport.warnings)
            with progress("reading the cluster"):
                items, known, faults = read_reduced(transport, policy.eligibility.foreign_owners)
            warnings = [f"left out: {fault}" for fault in faults]
            taken_at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        else:
            items, known, warnings, taken_at = reduce_snapshots(read_snapshot_files(args.snapshot))
    except ClusterError as error:
        raise unreadable(error) from None
    except UnreadableSnapshot as error:
        raise CliError(str(error)) from None
    warn(warnings)
    _write(args.output, reduced_list(items, known, taken_at))
    return Exit.FINE


def _write(name: str, pieces: Iterable[bytes]) -> None:
    if name == "-":
        sys.stdout.writelines(visible_json(piece.decode()) for piece in pieces)
        return
    with Path(name).open("wb") as file:
        file.writelines(pieces)
