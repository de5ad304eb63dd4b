"""The command that opens the page of the pod that leads.

A controller names itself POD_RANDOM in the Lease. A controller outside the cluster has its machine's name there, so
there is a command only if a pod of that name exists.
"""

import argparse
import shlex
from functools import lru_cache

from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, Transport
from rebalancer.documents.status import StatusDocument

_FORBIDDEN = 403


def find_page_command(transport: Transport, namespace: str, status: StatusDocument, args: argparse.Namespace) -> str:
    """Return the command, "" if no pod leads, or if the status does not say that the leader serves a page."""
    holder = status.lease.holder if status.lease is not None else ""
    pod = holder.rpartition("_")[0]
    if not (pod and status.page_port and status.leader == holder and _is_there(transport, namespace, pod)):
        return ""
    access = ((f"--{name}", str(getattr(args, name))) for name in ("kubeconfig", "context") if name in args)
    words = ("kubectl", *(word for pair in access for word in pair), "port-forward", "-n", namespace, f"pod/{pod}")
    return shlex.join((*words, str(status.page_port)))


@lru_cache(maxsize=1)
def _is_there(transport: Transport, namespace: str, pod: str) -> bool:
    """Return whether a pod of this name exists; asked once for each leader. If pods may not be read, assume so."""
    try:
        transport.request("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}")
    except RequestRefused as error:
        return error.status == _FORBIDDEN
    except ClusterError:
        return False
    return True
