"""`rebalancer status`: what the controller is doing, did last, and why nothing happens."""

import argparse
import sys
import time
from datetime import UTC, datetime

from msgspec import structs

from rebalancer.adapters.kubernetes.transport import ClusterError, Transport, connect
from rebalancer.cli.controller_state import read_lease, read_status
from rebalancer.cli.errors import CliError, Exit, warn
from rebalancer.cli.options import FORMATS, add_color_argument
from rebalancer.cli.parsing import Parser
from rebalancer.cli.settings_flags import add_settings_arguments, load_flags
from rebalancer.cli.terminal import find_layout
from rebalancer.reporting.acting import describe_controller
from rebalancer.reporting.documents.document import to_json, to_yaml
from rebalancer.reporting.documents.status import StatusDocument
from rebalancer.reporting.text.status import status_text

_INTERVAL = 2.0
"""Seconds between two looks at the status with --watch; the controller writes it at the end of a cycle."""


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.epilog = (
        "It reads the ConfigMap rebalancer-status, which the controller writes at the end of each cycle, and the Lease."
    )
    parser.add_argument("--watch", action="store_true", help="show it again whenever it changes, until Ctrl-C")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FORMAT",
        choices=FORMATS,
        default=FORMATS[0],
        help="table, json or yaml (default: table)",
    )
    add_color_argument(parser)
    add_settings_arguments(parser, only=("kubeconfig", "context", "namespace"))


def run(args: argparse.Namespace) -> int:
    """Print the status, once or at each change."""
    settings = load_flags(args)
    try:
        transport = connect(kubeconfig=str(settings.kubeconfig or "") or None, context=settings.context)
        warn(transport.warnings)
        last = None
        while True:
            status = _read(transport, settings.namespace)
            acting = describe_controller(status, datetime.now(UTC))
            # Where no controller leads the status stays as it is, and only the line says for how long.
            shown = status, acting if args.output == "table" else ""
            if shown != last:
                sys.stdout.write(_show(status, acting, args))
                sys.stdout.flush()
                last = shown
            if not args.watch:
                return Exit.FINE
            time.sleep(_INTERVAL)
    except ClusterError as error:
        raise CliError(str(error)) from None


def _read(transport: Transport, namespace: str) -> StatusDocument:
    status = read_status(transport, namespace)
    if status is None:
        raise CliError(
            f"no controller has written a status in namespace {namespace}; choose the controller's with --namespace"
        )
    return structs.replace(status, lease=read_lease(transport, namespace, datetime.now(UTC)))


def _show(status: StatusDocument, acting: str, args: argparse.Namespace) -> str:
    match args.output:
        case "json":
            return to_json(status).decode()
        case "yaml":
            return ("---\n" if args.watch else "") + to_yaml(status)
        case _:
            text = status_text(status, acting, datetime.now(UTC), find_layout(args.color))
            return text + ("\n" if args.watch else "")
