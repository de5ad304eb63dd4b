"""What `pause` and `resume` share: the ConfigMap that they write, and messages where that is not allowed."""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager

from kubernetes import client

from rebalancer.adapters.kubernetes.configmaps import ControlMap
from rebalancer.adapters.kubernetes.lease import KubernetesLease
from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, Transport, connect
from rebalancer.cli.errors import CliError, warn
from rebalancer.history.declared import Declaration, format_declaration
from rebalancer.model.history import UNKNOWN
from rebalancer.ports import LeaseUnavailable
from rebalancer.settings import Settings

_FORBIDDEN, _NOT_FOUND = 403, 404


def connect_control(settings: Settings) -> tuple[Transport, ControlMap]:
    """Connect, and warn where no controller has ever led: a pause in the wrong namespace stops nothing."""
    timeout = settings.request_timeout.total_seconds()
    try:
        transport = connect(
            kubeconfig=str(settings.kubeconfig) if settings.kubeconfig else None,
            context=settings.context,
            read_timeout=timeout,
        )
    except ClusterError as error:
        raise CliError(str(error)) from None
    warn(transport.warnings)
    try:
        lease = KubernetesLease(transport, namespace=settings.namespace, timeout=timeout).read()
    except (LeaseUnavailable, RequestRefused):  # who may pause need not be allowed to read leases
        return transport, ControlMap(transport, settings.namespace)
    except ClusterError as error:
        raise CliError(str(error)) from None
    if lease is None:
        warn([f"no controller has run in namespace {settings.namespace}; choose its namespace with --namespace"])
    return transport, ControlMap(transport, settings.namespace)


def declare(transport: Transport, of: str) -> str:
    """Return the annotation that says who changes an object, and about what: by the API server, else UNKNOWN."""
    return format_declaration(Declaration(by=find_user(transport) or UNKNOWN, of=of))


def current_user(transport: Transport) -> str:
    """Return the caller's name as the API server knows it, else the local user name."""
    return find_user(transport) or getpass.getuser()


def find_user(transport: Transport) -> str:
    """Return the caller's name as the API server knows it, "" where it does not say."""
    try:
        review = client.AuthenticationV1Api(transport).create_self_subject_review(client.V1SelfSubjectReview())
    except (ClusterError, ValueError):  # the client's models refuse an answer of another form
        return ""
    user = review.status.user_info if review.status is not None else None
    return (user.username if user is not None else None) or ""


@contextmanager
def explain_refusals(control: ControlMap, verbs: str) -> Iterator[None]:
    """Turn a refused request into a CliError with the missing rights."""
    try:
        yield
    except RequestRefused as error:
        message = error.details.get("message", str(error))
        if error.status == _FORBIDDEN:
            namespace, _, name = str(control).removeprefix("ConfigMap ").partition("/")
            raise CliError(
                f"not allowed: {message}; grant the verbs {verbs} on configmaps in namespace {namespace} "
                f"(for a role with resourceNames: {name})"
            ) from None
        if error.status == _NOT_FOUND:
            raise CliError(f"{message}; choose the controller's namespace with --namespace") from None
        raise CliError(str(error)) from None
    except ClusterError as error:
        raise CliError(str(error)) from None
