"""The scheduler that a policy reckons with: its name, and its configuration file if the policy names one."""

from dataclasses import replace
from pathlib import Path

from rebalancer.policy import Policy
from rebalancer.scheduling.configuration import ConfigurationError, read_profiles
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile


class NoProfile(Exception):  # noqa: N818  # it names what there is, as callers read it
    """The scheduler's configuration cannot be read, or has no such profile; the message names file and field."""


def profile_of(policy: Policy) -> Profile:
    """Return the profile of the scheduler that the policy names."""
    name, file = policy.scheduler.name, policy.scheduler.config_file
    if file is None:
        return replace(DEFAULT_PROFILE, name=name)
    try:
        found = read_profiles(Path(file).read_bytes())
    except OSError as error:
        raise NoProfile(f"scheduler.configFile: {file}: {error.strerror or error}") from None
    except ConfigurationError as error:
        raise NoProfile(f"scheduler.configFile: {file}: {error}") from None
    if name not in found:
        raise NoProfile(f"scheduler.name: {file} has no profile {name!r}, only {', '.join(sorted(found))}")
    return found[name]
