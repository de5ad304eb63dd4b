"""The kill switch as the loop sees it: the ConfigMap `rebalancer-control`, watched, so that it acts at once."""

from collections.abc import Callable

from rebalancer.adapters.kubernetes.configmaps import CONFIG_MAPS, CONTROL, ConfigMap
from rebalancer.adapters.kubernetes.reflector import Contents, Reflector
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.admission.pause import KEY, Pause, read_pause
from rebalancer.controller.state import LoopEvent, PauseRead


def watch_pauses(transport: Transport, namespace: str, tell: Callable[[LoopEvent], None]) -> Reflector:
    """Return the watch that tells the loop of every change, not yet started."""
    return Reflector(
        transport,
        CONFIG_MAPS,
        namespace=namespace,
        name=CONTROL,
        changed=lambda contents: tell(PauseRead(pause=pause_from_contents(contents))),
    )


def pause_from_contents(contents: Contents) -> Pause | None:
    """Find the pause in what was read of the ConfigMap, None if there is none."""
    for fault in contents.faults:
        return Pause(unreadable=fault.message)
    found: tuple[ConfigMap, ...] = contents.objects
    return parse_pause(found[0]) if found else None


def parse_pause(found: ConfigMap) -> Pause | None:
    """Read the pause that a ConfigMap holds, None if it holds none."""
    if KEY in found.binary:
        return Pause(unreadable="it is not text in UTF-8")
    return read_pause(found.data[KEY]) if KEY in found.data else None
