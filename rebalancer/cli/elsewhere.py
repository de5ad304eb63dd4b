"""The message if a command's ConfigMap is missing: which namespaces have it, and the command for each.

The namespaces are listed as far as the caller may see them.
"""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from rebalancer.adapters.kubernetes.configmaps import find_namespaces
from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, Transport
from rebalancer.settings import flag_of

_FORBIDDEN: Final = 403
_FLAG: Final = "--controller-namespace"
_MOST: Final = 10
"""Up to this many namespaces are listed, because anybody can create a ConfigMap of that name in their namespace."""


def repeat_command(args: argparse.Namespace, verb: str, *words: str) -> tuple[str, ...]:
    """Return the command that was given, without its namespace; `words` are the verb's own arguments."""
    given = ((flag_of(name), getattr(args, name, None)) for name in ("kubeconfig", "context"))
    access = ((flag, str(value)) for flag, value in given if value is not None)
    return ("rebalancer", verb, *words, *(word for pair in access for word in pair))


def list_elsewhere(transport: Transport, name: str, namespace: str, command: Sequence[str]) -> Iterator[str]:
    """Yield the other namespaces with a ConfigMap of this name, each with the command for it."""
    search = f"kubectl get configmaps --all-namespaces --field-selector metadata.name={name}"
    try:
        others = [other for other in find_namespaces(transport, name) if other != namespace]
    except (ClusterError, msgspec.DecodeError) as error:
        refused = isinstance(error, RequestRefused) and error.status == _FORBIDDEN
        why = "you may not list ConfigMaps in all namespaces" if refused else str(error)
        yield f"The controller's namespace is not known: {why}. Somebody who may finds it with: {search}"
        yield f"Then: {shlex.join(command)} {_FLAG} NAMESPACE"
        return
    for other in others[:_MOST]:
        yield f"ConfigMap {name} is in namespace {other}: {shlex.join((*command, _FLAG, other))}"
    if len(others) > _MOST:
        yield f"It is in {len(others) - _MOST} more namespaces: {search}"
