"""Where the policy comes from: a file, read again whenever its bytes change, or a ConfigMap's key, watched.

A mounted ConfigMap is a file that is exchanged as a whole by the kubelet; its bytes are compared every second, which
costs nothing and does not depend on how the exchange is done. The scheduler's configuration file is read with it.
"""

import threading
from collections.abc import Callable

from rebalancer.controller.profiles import NoProfile, profile_of
from rebalancer.controller.state import Happened, PolicyLoaded, PolicyRefused
from rebalancer.policy import PolicyError, load_policy

POLL_SECONDS = 1.0


def read_policy_text(data: bytes, source: str) -> Happened:
    """Turn a policy's bytes into the event that the loop is told."""
    try:
        policy = load_policy(data, source=source)
        return PolicyLoaded(policy=policy, profile=profile_of(policy))
    except (PolicyError, NoProfile) as error:
        return PolicyRefused(message=str(error))


class PolicyWatcher:
    """Reads bytes every second and tells the loop when they have changed.

    `read` returns the bytes, or raises OSError or LookupError with the reason why there are none: the last good
    policy then stays in force.
    """

    def __init__(
        self, *, read: Callable[[], bytes], source: str, tell: Callable[[Happened], None], first: bytes
    ) -> None:
        self._read = read
        self._source = source
        self._tell = tell
        self._last: bytes | str = first
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="policy", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End; the thread needs a second at the most."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(POLL_SECONDS):
            self.poll()

    def poll(self) -> None:
        """Look once."""
        try:
            found: bytes | str = self._read()
        except (OSError, LookupError) as error:
            found = f"{self._source}: {error}"
        if found == self._last:
            return
        self._last = found
        if isinstance(found, str):
            self._tell(PolicyRefused(message=found))
        else:
            self._tell(read_policy_text(found, self._source))
