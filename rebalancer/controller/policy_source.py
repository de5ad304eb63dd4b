"""Where the policy comes from: a file, read again whenever its bytes change, or a watched key of a ConfigMap.

A mounted ConfigMap is a file that the kubelet replaces as a whole. Its bytes are compared every second, because that is
cheap and does not depend on how the file is replaced. The scheduler's configuration file is read with the policy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog

from rebalancer.adapters.files.profiles import UnreadableProfile, find_folders, read_profile
from rebalancer.adapters.kubernetes.configmaps import find_author, find_config_map
from rebalancer.adapters.kubernetes.reflector import Reflector
from rebalancer.adapters.kubernetes.transport import ClusterError, Transport
from rebalancer.controller.polling import PollingThread
from rebalancer.controller.state import LoopEvent, PolicyAuthorRead, PolicyLoaded, PolicyRefused
from rebalancer.decoding.config_maps import CONFIG_MAPS
from rebalancer.locations import ConfigMapPolicy, FilePolicy
from rebalancer.model.cluster import ConfigMap
from rebalancer.model.events import Regarding
from rebalancer.model.history import NOBODY, Author
from rebalancer.policy import Policy, PolicyError, default_policy, load_policy, policy_notes
from rebalancer.policy.team_maps import POLICY_KEY, POLICY_MAP
from rebalancer.scheduling.profile import Profile

if TYPE_CHECKING:
    from rebalancer.settings import Settings  # commands that read no settings need not wait for its declarations

POLL_SECONDS = 1.0
_SYNC_SECONDS = 30.0

_log = structlog.get_logger("rebalancer.policy")


class UnreadablePolicy(Exception):  # noqa: N818  # callers read it as a state
    """The policy that the settings name does not exist or cannot be read; the message names the place."""


@dataclass(frozen=True, kw_only=True)
class OpenedPolicy:
    """A policy, where it comes from, and how to read it again."""

    policy: Policy
    profile: Profile
    name: str
    first: bytes
    read: Callable[[], bytes] | None
    """Returns the policy's bytes; None for a policy that never changes."""
    reflector: Reflector | None
    regarding: Regarding
    folder: Path | None = None
    """The folder of a policy file, None for other policies."""
    folders: tuple[Path, ...] = ()
    """The folders for `read_profile`."""
    read_author: Callable[[bytes], Author] = lambda _: NOBODY
    """Returns the author of these bytes, as far as the ConfigMap shows it."""


def open_policy(settings: "Settings", transport: Transport) -> OpenedPolicy:
    """Read the policy that the settings name, and the scheduler's profile.

    Raises PolicyError, UnreadablePolicy or UnreadableProfile if there is no valid policy or profile.
    """
    default_object = Regarding(kind="ConfigMap", namespace=settings.namespace, name=POLICY_MAP)
    match settings.policy:
        case None:
            policy = default_policy()
            return OpenedPolicy(
                policy=policy,
                profile=read_profile(policy),
                name="the shipped policy",
                first=b"",
                read=None,
                reflector=None,
                regarding=default_object,
            )
        case FilePolicy(path=path):
            opened = _open(str(path), path.read_bytes, None, default_object, path)
            # A mounted ConfigMap: the kubelet's file does not show the author.
            return replace(opened, read_author=partial(read_policy_author, transport, settings.namespace, POLICY_MAP))
        case ConfigMapPolicy(namespace=namespace, name=name):
            reflector = Reflector(transport, CONFIG_MAPS, namespace=namespace, name=name)
            reflector.start()
            if not reflector.synced.wait(_SYNC_SECONDS):
                reflector.stop()
                raise UnreadablePolicy(f"ConfigMap {namespace}/{name} cannot be read: {reflector.error or 'no answer'}")
            regarding = Regarding(kind="ConfigMap", namespace=namespace, name=name)
            opened = _open(str(settings.policy), _make_key_reader(reflector), reflector, regarding)
            return replace(opened, read_author=partial(read_policy_author, transport, namespace, name))


def _open(
    name: str,
    read: Callable[[], bytes],
    reflector: Reflector | None,
    regarding: Regarding,
    file: Path | None = None,
) -> OpenedPolicy:
    try:
        data = read()
    except (OSError, LookupError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.args[0]
        raise UnreadablePolicy(f"{name}: {reason}") from None
    policy = load_policy(data, source=name)
    _log_notes(policy, name)
    folders = () if file is None else find_folders(file)
    return OpenedPolicy(
        policy=policy,
        profile=read_profile(policy, folders),
        name=name,
        first=data,
        read=read,
        reflector=reflector,
        regarding=regarding,
        folder=None if file is None else file.parent,
        folders=folders,
    )


def _make_key_reader(reflector: Reflector) -> Callable[[], bytes]:
    def read() -> bytes:
        config_maps: tuple[ConfigMap, ...] = reflector.contents().objects
        if not config_maps:
            raise LookupError("there is no such ConfigMap")
        if POLICY_KEY not in config_maps[0].data:
            raise LookupError(f"the ConfigMap has no key {POLICY_KEY}")
        return config_maps[0].data[POLICY_KEY].encode()

    return read


def read_policy_author(transport: Transport, namespace: str, name: str, data: bytes) -> Author:
    """Return the author of a policy in a ConfigMap; NOBODY if it has another policy, or cannot be read."""
    try:
        config_map = find_config_map(transport, namespace, name)
    except (ClusterError, msgspec.DecodeError):
        return NOBODY
    if config_map is None or config_map.data.get(POLICY_KEY, "").encode() != data:
        return NOBODY
    return find_author(config_map, POLICY_KEY)


def policy_event(
    data: bytes, source: str, folders: Sequence[Path] = (), author: Author | None = NOBODY
) -> PolicyLoaded | PolicyRefused:
    """Turn a policy's bytes into the loop's event: loaded, or refused with the reason. See `read_profile`."""
    try:
        policy = load_policy(data, source=source)
        _log_notes(policy, source)
        return PolicyLoaded(policy=policy, profile=read_profile(policy, folders), author=author)
    except (PolicyError, UnreadableProfile) as error:
        return PolicyRefused(message=str(error), author=author)
    except Exception as error:  # noqa: BLE001  # a defect of the reader refuses the policy, too
        _log.exception("policy cannot be read", source=source)
        return PolicyRefused(message=f"{source}: cannot be read ({type(error).__name__}); the log has the details")


def _log_notes(policy: Policy, source: str) -> None:
    for note in policy_notes(policy):
        _log.warning("policy leaves out a default", source=source, note=note)


class PolicyWatcher(PollingThread):
    """Reads the policy's bytes every second and tells the loop when they have changed.

    `read` returns the bytes, or raises OSError or LookupError with the reason why there are none; then the last valid
    policy stays in force. `folders` are the policy's, see `read_profile`. `read_author` says who has written the bytes.
    `keep` receives each valid policy.
    """

    def __init__(
        self,
        *,
        read: Callable[[], bytes],
        source: str,
        tell: Callable[[LoopEvent], None],
        first: bytes,
        folders: Sequence[Path] = (),
        read_author: Callable[[bytes], Author] | None = None,
        keep: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        self._read = read
        self._source = source
        self._tell = tell
        self._folders = folders
        self._read_author = read_author
        self._keep = keep
        self._last: bytes | str = first
        super().__init__("policy", POLL_SECONDS, self.poll)

    def poll(self) -> None:
        """Read once, and tell the loop about a change."""
        try:
            data: bytes | str = self._read()
        except (OSError, LookupError) as error:
            data = f"{self._source}: {error}"
        if data == self._last:
            return
        if isinstance(data, str):
            self._tell(PolicyRefused(message=data, missing=True))
        else:
            self._tell_policy(data)
        self._last = data

    def _tell_policy(self, data: bytes) -> None:
        """Tell the loop about a policy at once, and about its author later, because reading that may take seconds."""
        known = NOBODY if self._read_author is None else None
        event = policy_event(data, self._source, self._folders, author=known)
        self._tell(event)
        if isinstance(event, PolicyLoaded):
            self._keep(data)
        if self._read_author is not None:
            self._tell(PolicyAuthorRead(author=self._find_author(self._read_author, data)))

    def _find_author(self, read: Callable[[bytes], Author], data: bytes) -> Author:
        try:
            return read(data)
        except Exception:  # noqa: BLE001  # a name in the history is worth no policy
            _log.exception("the author of the policy cannot be read", source=self._source)
            return NOBODY
