"""The message if the API server does not let a command read; imported only if a cluster is read."""

from typing import Final

from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused
from rebalancer.cli.errors import CliError

_UNAUTHORIZED, _FORBIDDEN = 401, 403

VIEW: Final = "the ClusterRole rebalancer-view has the right"


def unreadable(error: ClusterError, *, remedy: str = VIEW) -> CliError:
    """Return the error of a command whose read has failed; `remedy` says how to get the right if it is missing."""
    if not isinstance(error, RequestRefused) or error.status not in {_UNAUTHORIZED, _FORBIDDEN}:
        return CliError(str(error))
    message = error.details.get("message", error)
    if error.status == _FORBIDDEN:
        return CliError(f"not allowed to read the cluster: {message}; {remedy}")
    return CliError(
        f"the API server does not accept the kubeconfig's credentials: {message}; log in again, or choose another "
        "--context"
    )
