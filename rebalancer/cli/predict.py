"""`rebalancer predict`: where kube-scheduler would place a pod, and why not on other nodes."""

import argparse

import msgspec
from msgspec import structs

from rebalancer.adapters.files import UnreadableSnapshot
from rebalancer.adapters.files.encodings import read_documents
from rebalancer.cli.errors import CliError, Exit, UsageError
from rebalancer.cli.files import read_bytes, source_name
from rebalancer.cli.load import load_profile, load_snapshot
from rebalancer.cli.options import ReadOptions, add_read_arguments
from rebalancer.cli.output import write_document
from rebalancer.cli.parsing import Parser
from rebalancer.cli.progress import progress
from rebalancer.creation.defaults import apply_defaults
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import PODS
from rebalancer.decoding.lists import decode
from rebalancer.decoding.wire import Head
from rebalancer.documents.prediction import prediction_document
from rebalancer.model.pods import Pod, PodPhase
from rebalancer.model.snapshot import Fault
from rebalancer.reporting.text.prediction import prediction_text
from rebalancer.scheduling.predict import predict
from rebalancer.scheduling.view import View

_HEAD = msgspec.json.Decoder(Head)


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--pod", metavar="FILE", required=True, help="the pod's manifest, JSON or YAML; - is standard input"
    )
    add_read_arguments(parser, namespace="the pod's namespace (default: the manifest's, else default)")


def run(args: argparse.Namespace) -> int:
    """Print the prediction; nothing is changed."""
    options = ReadOptions.of(args)
    if args.pod == "-" and "-" in {*options.snapshots, args.policy}:
        raise UsageError("both --pod and another flag read standard input; give one of them as a file")
    written = read_pod(args.pod, options.namespace)
    profile = load_profile(options)
    with progress("reading the cluster"):
        view = View(load_snapshot(options), profile)
    # An existing pod, as `kubectl get pod -o yaml` prints it, is placed as if it were new. Its spec.nodeName is then
    # where the scheduler put it; otherwise it is what the manifest requires.
    existing = [pod for pod in view.snapshot.pods if (pod.namespace, pod.name) == (written.namespace, written.name)]
    spec = apply_defaults(written.spec, written.labels, view)
    if any(pod.node == spec.node_name for pod in existing):
        spec = structs.replace(spec, node_name=None)
    prediction = predict(structs.replace(written, spec=spec), view.without(existing))
    document = prediction_document(prediction)
    write_document(document, options.output, lambda: prediction_text(document, options.layout))
    return Exit.FINE


def read_pod(file: str, namespace: str | None) -> Pod:
    """Read a pod's manifest as an unplaced pod; CliError names file, field and value that the server would refuse."""
    source = source_name(file)
    try:
        document, *others = read_documents(read_bytes(file), source)
    except UnreadableSnapshot as error:
        raise CliError(str(error)) from None
    if others:
        raise CliError(f"{source}: another document begins; expected one, a Pod")
    try:
        kind = _HEAD.decode(document).kind
    except msgspec.DecodeError as error:
        raise CliError(f"{source}: not a Kubernetes object: {error}") from None
    if kind != PODS.name:
        raise CliError(f"{source}: found {kind or 'an object without kind'}, expected a Pod")
    pod = decode(PODS, document, Interner())
    if isinstance(pod, Fault):
        raise CliError(f"{source}: {pod}")
    assert isinstance(pod, Pod)
    if pod.namespace and namespace not in {None, pod.namespace}:
        raise UsageError(f"{source} is in namespace {pod.namespace}, but -n names {namespace}; leave out one of them")
    return structs.replace(
        pod,
        namespace=pod.namespace or namespace or "default",
        uid=f"{source}:{pod.name}",
        spec=structs.replace(pod.spec, node_name=pod.node),
        node=None,
        phase=PodPhase.PENDING,
        deleted=None,
    )
