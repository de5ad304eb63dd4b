"""Values of the right type that the API server refuses: amounts out of range, and fields that exclude each other.

Source: `pkg/apis/apps/validation/validation.go` (ValidateRollingUpdateDeployment, ValidateDeploymentStrategy),
`pkg/apis/policy/validation/validation.go` (ValidatePodDisruptionBudgetSpec).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rebalancer.lint.finding import Finding, Operation, Rule, Severity
from rebalancer.lint.manifest import Manifest, Path

_PERCENT: Final = re.compile(r"[0-9]+%")
_STRATEGY: Final[Path] = ("spec", "strategy")
_UPDATE: Final[Path] = (*_STRATEGY, "rollingUpdate")
_WHOLE: Final = 100


def check_refusals(manifest: Manifest) -> Iterator[Finding]:
    """Yield values that the API server refuses."""
    if manifest.kind == "PodDisruptionBudget":
        yield from _budget(manifest)
    elif manifest.workload is not None:
        replicas = manifest.find(("spec", "replicas"))
        if isinstance(replicas, int) and replicas < 0:
            yield _refuse(manifest, ("spec", "replicas"), f"replicas: {replicas} is less than 0")
        if manifest.kind == "Deployment":
            yield from _strategy(manifest)


def _is_amount(value: Any, *, at_most_all: bool = True) -> bool:
    """Return whether a value is a number of pods or a share of them, up to 100% if `at_most_all`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value >= 0
    if not isinstance(value, str) or not _PERCENT.fullmatch(value):
        return False
    return not at_most_all or int(value[:-1]) <= _WHOLE


def _budget(manifest: Manifest) -> Iterator[Finding]:
    paths: list[Path] = [("spec", name) for name in ("minAvailable", "maxUnavailable")]
    written = [path for path in paths if manifest.find(path) is not None]
    if len(written) == len(paths):
        patch = (Operation("remove", paths[0]),)
        yield _refuse(manifest, paths[0], "minAvailable and maxUnavailable exclude each other", patch)
    for path in written:
        yield from _amount(manifest, path)


def _strategy(manifest: Manifest) -> Iterator[Finding]:
    for path in (_STRATEGY, _UPDATE):
        value = manifest.find(path)
        if value is None:
            return
        if not isinstance(value, Mapping):
            yield _refuse(manifest, path, f"{path[-1]}: {value} is not an object")
            return
    if manifest.find(("spec", "strategy", "type")) == "Recreate":
        patch = (Operation("remove", _UPDATE),)
        yield _refuse(manifest, _UPDATE, "rollingUpdate and type: Recreate exclude each other", patch)
        return
    surge, unavailable = (*_UPDATE, "maxSurge"), (*_UPDATE, "maxUnavailable")
    yield from _amount(manifest, surge, at_most_all=False)
    yield from _amount(manifest, unavailable)
    if all(manifest.find(path) in (0, "0%") for path in (surge, unavailable)):
        patch = (Operation("replace", unavailable, 1),)
        yield _refuse(manifest, unavailable, "maxSurge and maxUnavailable are both 0, so no pod can be replaced", patch)


def _amount(manifest: Manifest, path: Path, *, at_most_all: bool = True) -> Iterator[Finding]:
    value = manifest.find(path)
    if value is None or _is_amount(value, at_most_all=at_most_all):
        return
    most = " of up to 100%" if at_most_all else ""
    yield _refuse(manifest, path, f"{path[-1]}: {value} is neither a number from 0 on nor a percentage{most}")


def _refuse(manifest: Manifest, path: Path, message: str, patch: tuple[Operation, ...] = ()) -> Finding:
    return Finding(
        rule=Rule.REFUSED_VALUE,
        severity=Severity.ERROR,
        manifest=manifest,
        path=path,
        message=f"{message}: the API server refuses it",
        patch=patch,
    )
