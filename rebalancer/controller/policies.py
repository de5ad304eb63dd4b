"""The policy at the start of the process, and who keeps it up to date from then on."""

from collections.abc import Callable
from dataclasses import dataclass

from rebalancer.adapters.kubernetes.configmaps import CONFIG_MAPS, ConfigMap
from rebalancer.adapters.kubernetes.reflector import Reflector
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.model.events import Regarding
from rebalancer.policy import Policy, default_policy, load_policy
from rebalancer.settings import ConfigMapPolicy, FilePolicy, Settings

CONFIG_MAP, KEY = "rebalancer-policy", "policy.yaml"
_SYNC_SECONDS = 30.0


class NoPolicy(Exception):  # noqa: N818  # it names what there is, as callers read it
    """There is no policy where one was named; the message says where."""


@dataclass(frozen=True, kw_only=True)
class PolicySource:
    """A policy, where it came from, and how to read it again. `read` None: it never changes."""

    policy: Policy
    name: str
    first: bytes
    read: Callable[[], bytes] | None
    reflector: Reflector | None
    regarding: Regarding


def open_policy(settings: Settings, transport: Transport) -> PolicySource:
    """Read the policy that the settings name; raise PolicyError or NoPolicy where there is no valid one."""
    ours = Regarding(kind="ConfigMap", namespace=settings.namespace, name=CONFIG_MAP)
    match settings.policy:
        case None:
            return PolicySource(
                policy=default_policy(), name="the shipped policy", first=b"", read=None, reflector=None, regarding=ours
            )
        case FilePolicy(path=path):
            return _opened(str(path), path.read_bytes, None, ours)
        case ConfigMapPolicy(namespace=namespace, name=name):
            reflector = Reflector(transport, CONFIG_MAPS, namespace=namespace, name=name)
            reflector.start()
            if not reflector.synced.wait(_SYNC_SECONDS):
                reflector.stop()
                raise NoPolicy(f"ConfigMap {namespace}/{name} cannot be read: {reflector.error or 'no answer'}")
            regarding = Regarding(kind="ConfigMap", namespace=namespace, name=name)
            return _opened(str(settings.policy), _key_reader(reflector), reflector, regarding)


def _opened(name: str, read: Callable[[], bytes], reflector: Reflector | None, regarding: Regarding) -> PolicySource:
    try:
        data = read()
    except (OSError, LookupError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.args[0]
        raise NoPolicy(f"{name}: {reason}") from None
    policy = load_policy(data, source=name)
    return PolicySource(policy=policy, name=name, first=data, read=read, reflector=reflector, regarding=regarding)


def _key_reader(reflector: Reflector) -> Callable[[], bytes]:
    def read() -> bytes:
        found: tuple[ConfigMap, ...] = reflector.contents().objects
        if not found:
            raise LookupError("there is no such ConfigMap")
        if KEY not in found[0].data:
            raise LookupError(f"the ConfigMap has no key {KEY}")
        return found[0].data[KEY].encode()

    return read
