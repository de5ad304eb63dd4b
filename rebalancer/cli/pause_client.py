"""The common part of the verbs that write a ConfigMap for the controller: the write, and messages if it fails.

A pause in a namespace where no controller reads it would stop nothing. So a ConfigMap that the installation has not
created is never created here.
"""

import argparse
import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import msgspec
from kubernetes import client

from rebalancer.adapters.kubernetes.configmaps import ControlMap, find_namespaces
from rebalancer.adapters.kubernetes.lease import KubernetesLease
from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, Transport, connect
from rebalancer.cli.elsewhere import list_elsewhere, repeat_command
from rebalancer.cli.errors import CliError, warn
from rebalancer.cli.settings_flags import load_flags
from rebalancer.history.declared import Declaration, format_declaration
from rebalancer.model.history import UNKNOWN, EndedPause
from rebalancer.policy.durations import parse_duration
from rebalancer.ports import LeaseUnavailable

_FORBIDDEN, _NOT_FOUND = 403, 404
_PAUSE: Final = "rebalancer-pause"


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A ConfigMap that people write, and what is known about its installation."""

    transport: Transport
    control: ControlMap
    role: str
    """The ClusterRole that allows to write it."""
    command: tuple[str, ...]
    """The typed command, without the namespace."""
    led: bool | None
    """Whether a controller has ever led in its namespace, None if not known."""

    def missing(self) -> CliError:
        """Return the error for a namespace without this ConfigMap."""
        namespace, name = self.control.namespace, self.control.name
        absent = f"nothing was changed: namespace {namespace} has no ConfigMap {name}"
        elsewhere = tuple(list_elsewhere(self.transport, name, namespace, self.command))
        if self.led:
            creation = f"kubectl create configmap {name} --namespace {namespace}"
            return CliError(f"{absent}, but a controller has led there. Create it, then repeat: {creation}", *elsewhere)
        nowhere = f"No namespace has a ConfigMap {name}: the installation (deploy/, or its chart) creates it."
        read = "so no controller reads it there" if self.led is False else "and whether a controller runs is not known"
        return CliError(f"{absent}, {read}", *(elsewhere or (nowhere,)))

    def forbidden(self, message: str) -> CliError:
        """Return the error for a forbidden write: it says that the namespace is wrong, else which right is missing."""
        namespace, name = self.control.namespace, self.control.name
        try:
            if namespace not in find_namespaces(self.transport, name):
                return self.missing()
        except (ClusterError, msgspec.DecodeError):
            pass  # the right to write one ConfigMap does not include listing all
        return CliError(
            f"not allowed: {message}; the ClusterRole {self.role} has the right: bind it in namespace {namespace} if "
            "the controller runs there, else choose its namespace with --controller-namespace"
        )


def connect_switch(args: argparse.Namespace, verb: str, *words: str) -> Target:
    """Connect to the kill switch's ConfigMap, and read whether a controller has led in its namespace."""
    settings = load_flags(args)
    timeout = settings.request_timeout.total_seconds()
    try:
        transport = connect(
            kubeconfig=str(settings.kubeconfig) if settings.kubeconfig else None,
            context=settings.context,
            read_timeout=timeout,
        )
        warn(transport.warnings)
        return Target(
            transport=transport,
            control=ControlMap(transport, settings.namespace),
            role=_PAUSE,
            command=repeat_command(args, verb, *words),
            led=_has_led(KubernetesLease(transport, namespace=settings.namespace, timeout=timeout)),
        )
    except ClusterError as error:
        raise CliError(str(error)) from None


def _has_led(lease: KubernetesLease) -> bool | None:
    """Return whether the Lease exists; None if the caller may not read it."""
    try:
        return lease.read() is not None
    except (LeaseUnavailable, RequestRefused):
        return None


def declare(transport: Transport, of: str, ended: EndedPause | None = None) -> str:
    """Return the annotation on who changes an object, and about what; the name is the API server's, else UNKNOWN."""
    return format_declaration(Declaration(by=find_user(transport) or UNKNOWN, of=of, ended=ended))


def current_user(transport: Transport) -> str:
    """Return the caller's name as the API server knows it, else the local user name."""
    return find_user(transport) or getpass.getuser()


def find_user(transport: Transport) -> str:
    """Return the caller's name as the API server knows it, "" if the server does not say."""
    try:
        review = client.AuthenticationV1Api(transport).create_self_subject_review(client.V1SelfSubjectReview())
    except (ClusterError, ValueError):  # the client's models raise for an answer of another form
        return ""
    user = review.status.user_info if review.status is not None else None
    return (user.username if user is not None else None) or ""


@contextmanager
def explain_refusals(target: Target) -> Iterator[None]:
    """Turn a refused request into a CliError: the namespace is wrong, or a right is missing."""
    try:
        yield
    except RequestRefused as error:
        if error.status == _FORBIDDEN:
            raise target.forbidden(error.details.get("message", str(error))) from None
        if error.status == _NOT_FOUND:
            raise target.missing() from None
        raise CliError(str(error)) from None
    except ClusterError as error:
        raise CliError(str(error)) from None


def parse_duration_flag(text: str) -> timedelta:
    """Read the duration that a flag gives."""
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"found {text!r}, {error}") from None
    if not duration:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected more than 0s")
    return duration
