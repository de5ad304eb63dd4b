"""Approvals: a watch on the ConfigMap `rebalancer-approval`; an approved plan does not wait for the interval."""

from collections.abc import Callable

from rebalancer.adapters.kubernetes.configmaps import APPROVAL, find_approval
from rebalancer.adapters.kubernetes.reflector import Contents, Reflector
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.controller.state import ApprovalRead, LoopEvent
from rebalancer.decoding.config_maps import CONFIG_MAPS, ConfigMap


def watch_approvals(transport: Transport, namespace: str, tell: Callable[[LoopEvent], None]) -> Reflector:
    """Return the watch, not yet started, that reports every change to the loop."""

    def report(contents: Contents) -> None:
        # What cannot be read approves nothing.
        config_maps: tuple[ConfigMap, ...] = contents.objects
        tell(ApprovalRead(approved=find_approval(config_maps[0]) if config_maps else ""))

    return Reflector(transport, CONFIG_MAPS, namespace=namespace, name=APPROVAL, changed=report)
