"""The scheduler profile that a policy names, from the scheduler's own configuration file."""

from collections.abc import Mapping, Sequence
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


def find_folders(file: Path) -> tuple[Path, ...]:
    """Return the folders beside a policy's file: its own, and, if it is a link, the folder of the link's target.

    In a mounted ConfigMap a link leads to a subfolder, which every change of the ConfigMap replaces.
    """
    own, target = file.parent.resolve(), file.resolve()
    return (own,) if target.is_relative_to(own) else (own, target.parent)


def read_profile(policy: Policy, folders: Sequence[Path] = (), mounted: Mapping[str, str] | None = None) -> Profile:
    """Return the scheduler profile that the policy names, from the configuration file that the policy names, if any.

    `folders` are the folders of the policy's own file, see `find_folders`. A relative path begins there, not in the
    working directory; for a policy without a file it begins in /etc/rebalancer. The file must be in or below one of
    these folders, links resolved: an author of the policy must not be able to read every file of the process. `mounted`
    are the controller's files in /etc/rebalancer, where these are known.
    """
    name, file = policy.scheduler.name, policy.scheduler.config_file
    if file is None:
        return replace(DEFAULT_PROFILE, name=name)
    beginnings = folders or [CONFIGURATION]
    text = (mounted or {}).get(Path(file).name) if (beginnings[0] / file).parent == CONFIGURATION else None
    try:
        if text is not None:
            return _choose(read_profiles(text.encode()), name, file)
        roots = [root.resolve() for root in dict.fromkeys((*folders, CONFIGURATION))]
        paths = [(beginning / file).resolve() for beginning in beginnings]
        paths = [
            path for path in paths if any(path.is_relative_to(root) for root in roots if root != Path(root.anchor))
        ]
        if not paths:
            expected = " or ".join(map(str, roots))
            raise UnreadableProfile(f"scheduler.configFile: {file} is not below {expected}; move it there")
        configured = read_profiles(next(filter(Path.exists, paths), paths[0]).read_bytes())
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
