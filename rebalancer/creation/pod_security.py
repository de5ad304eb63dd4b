"""Whether the level of Pod Security that a namespace enforces admits a template.

Nothing can be said of a namespace without the label, or of exemptions, because the API server has its own defaults.
Source: `k8s.io/pod-security-admission/api/helpers.go`, PolicyToEvaluate.
"""

from typing import Final

from rebalancer.model.cluster import Namespace, Version
from rebalancer.model.facts import Refusal
from rebalancer.model.reasons import Reason
from rebalancer.model.words import name_list
from rebalancer.model.workloads import PodTemplate

_ENFORCE: Final = "pod-security.kubernetes.io/enforce"
_VERSION: Final = f"{_ENFORCE}-version"
_LEVELS: Final = {"baseline": ("baseline",), "restricted": ("baseline", "restricted")}


class PodSecurityViolated(Refusal):
    """The level of Pod Security that the namespace enforces refuses the replacement."""

    reason = Reason.CANNOT_CREATE
    namespace: str
    level: str
    version: str
    violations: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"namespace {self.namespace} enforces Pod Security {self.level}:{self.version}, which refuses its "
            f"replacement: {name_list(self.violations)}. Change the template, or the label {_ENFORCE} of the namespace"
        )


def refuse_by_security(template: PodTemplate, namespace: Namespace, server: Version) -> PodSecurityViolated | None:
    """Return why the level that a namespace enforces refuses a template's pods, or None."""
    level = namespace.labels.get(_ENFORCE, "privileged")
    if level == "privileged" or not template.security:
        return None
    # An unknown level counts as restricted, an unknown version as latest.
    levels = _LEVELS.get(level, _LEVELS["restricted"])
    named = namespace.labels.get(_VERSION, "latest")
    minor = _read_minor(named, server)
    violations = [
        one.what
        for one in template.security
        if one.level in levels and one.since <= minor and (not one.until or minor < one.until)
    ]
    return PodSecurityViolated(namespace.name, level, named, tuple(violations)) if violations else None


def _read_minor(text: str, server: Version) -> int:
    if text == "latest":
        return server.minor
    try:
        return min(Version.parse(text).minor, server.minor)
    except ValueError:
        return server.minor
