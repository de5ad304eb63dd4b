"""`rebalancer predict`: where kube-scheduler would put a pod, and why nowhere else."""

import argparse
import sys

import msgspec
from msgspec import structs

from rebalancer.adapters.files import UnreadableSnapshot
from rebalancer.adapters.files.encodings import convert_to_json
from rebalancer.cli.errors import CliError, Exit, UsageError
from rebalancer.cli.files import read_bytes
from rebalancer.cli.load import read
from rebalancer.cli.options import Reading, add_reading_arguments
from rebalancer.cli.parsing import Parser
from rebalancer.controller.profiles import NoProfile, profile_of
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import PODS
from rebalancer.decoding.lists import decode
from rebalancer.decoding.wire import Head
from rebalancer.model.pods import Pod, PodPhase
from rebalancer.model.snapshot import Fault
from rebalancer.reporting.documents.document import to_json, to_yaml
from rebalancer.reporting.documents.prediction import prediction_document
from rebalancer.reporting.text.prediction import prediction_text
from rebalancer.scheduling.predict import predict
from rebalancer.scheduling.template_defaults import apply_defaults
from rebalancer.scheduling.view import View

_HEAD = msgspec.json.Decoder(Head)


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--pod", metavar="FILE", required=True, help="the pod's manifest, JSON or YAML; - is standard input"
    )
    add_reading_arguments(parser, namespace="the pod's namespace (default: the manifest's, else default)")


def run(args: argparse.Namespace) -> int:
    """Print the prediction; nothing is changed."""
    reading = Reading.of(args)
    if args.pod == "-" and "-" in {reading.snapshot, args.policy}:
        raise UsageError("standard input holds either the pod or the rest; give one of them as a file")
    written = read_pod(args.pod, reading.namespace)
    try:
        profile = profile_of(reading.policy)
    except NoProfile as error:
        raise CliError(str(error)) from None
    view = View(read(reading), profile)
    # A pod that is there already, as `kubectl get pod -o yaml` prints it: as if it were to be placed again. Then
    # spec.nodeName is where the scheduler put it; else it is what the manifest asks for.
    same = [each for each in view.snapshot.pods if (each.namespace, each.name) == (written.namespace, written.name)]
    spec = apply_defaults(written.spec, written.labels, view)
    if any(each.node == spec.node_name for each in same):
        spec = structs.replace(spec, node_name=None)
    prediction = predict(structs.replace(written, spec=spec), view.without(same))
    match reading.output:
        case "json":
            sys.stdout.write(to_json(prediction_document(prediction)).decode())
        case "yaml":
            sys.stdout.write(to_yaml(prediction_document(prediction)))
        case _:
            sys.stdout.write(prediction_text(prediction))
    return Exit.FINE


def read_pod(file: str, namespace: str | None) -> Pod:
    """Read a pod's manifest, not placed yet; CliError names file, field and value of what the server would refuse."""
    source = "standard input" if file == "-" else file
    try:
        document = convert_to_json(read_bytes(file), source)
    except UnreadableSnapshot as error:
        raise CliError(str(error)) from None
    try:
        kind = _HEAD.decode(document).kind
    except msgspec.DecodeError as error:
        raise CliError(f"{source}: no Kubernetes object: {error}") from None
    if kind != PODS.name:
        raise CliError(f"{source}: found {kind or 'an object without kind'}, expected a Pod")
    found = decode(PODS, document, Interner())
    if isinstance(found, Fault):
        raise CliError(f"{source}: {found}")
    assert isinstance(found, Pod)
    if found.namespace and namespace not in {None, found.namespace}:
        raise UsageError(f"{source} names the namespace {found.namespace}, -n says {namespace}; leave one of them out")
    return structs.replace(
        found,
        namespace=found.namespace or namespace or "default",
        uid=f"{source}:{found.name}",
        spec=structs.replace(found.spec, node_name=found.node),
        node=None,
        phase=PodPhase.PENDING,
        deleted=None,
    )
