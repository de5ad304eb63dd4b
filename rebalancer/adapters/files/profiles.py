"""The scheduler profile that a policy names, from the scheduler's own configuration file."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from rebalancer.policy import Policy
from rebalancer.scheduling.configuration import ConfigurationError, read_profiles
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile

CONFIGURATION: Final = Path("/etc/rebalancer")
"""Where deploy/ mounts the policy; the scheduler's configuration may lie there, too."""


class UnreadableProfile(Exception):  # noqa: N818  # callers read it as a state
    """The scheduler's configuration cannot be read or has no such profile; the message names file and field."""


def read_profile(policy: Policy, folder: Path | None = None, mounted: Mapping[str, str] | None = None) -> Profile:
    """Return the scheduler profile that the policy names, from its configuration file where the policy names one.

    The file must lie in `folder`, which is that of the policy's own file, or in /etc/rebalancer, or below them, links
    resolved: who may write the policy may not therefore read every file of the process. `mounted` are the files that
    the controller has in /etc/rebalancer, where these are known.
    """
    name, file = policy.scheduler.name, policy.scheduler.config_file
    if file is None:
        return replace(DEFAULT_PROFILE, name=name)
    text = (mounted or {}).get(Path(file).name) if Path(file).parent == CONFIGURATION else None
    try:
        if text is not None:
            return _choose(read_profiles(text.encode()), name, file)
        path = Path(file).resolve()
        folders = [CONFIGURATION] if folder is None else [folder, CONFIGURATION]
        if not any(path.is_relative_to(root) for root in map(Path.resolve, folders) if root != Path(root.anchor)):
            expected = " or ".join(str(root.absolute()) for root in folders)
            raise UnreadableProfile(f"scheduler.configFile: {file} is not below {expected}; move it there")
        configured = read_profiles(path.read_bytes())
    except (OSError, RuntimeError) as error:  # RuntimeError: links that form a loop
        raise UnreadableProfile(f"scheduler.configFile: {file}: {getattr(error, 'strerror', None) or error}") from None
    except ConfigurationError as error:
        raise UnreadableProfile(f"scheduler.configFile: {file}: {error}") from None
    return _choose(configured, name, file)


def _choose(configured: Mapping[str, Profile], name: str, file: str) -> Profile:
    if name not in configured:
        raise UnreadableProfile(
            f"scheduler.name: {file} has no profile {name!r}; set it to the schedulerName of one of its profiles"
        )
    return configured[name]
