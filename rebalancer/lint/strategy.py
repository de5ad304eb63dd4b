"""How a workload's pods are updated: how many may be surplus or missing, and which pods keep the old template."""

from typing import Any, NamedTuple

from rebalancer.lint.manifest import Manifest, Path

_DEFAULT = "25%"


class RollingUpdate(NamedTuple):
    """How many pods may exist above and below the wanted number.

    `unavailable_path` is the path of the field for the pods below it.
    """

    surge: int
    unavailable: int
    unavailable_path: Path = ("spec", "strategy", "rollingUpdate", "maxUnavailable")


def read_rolling_update(manifest: Manifest) -> RollingUpdate | None:
    """Return the strategy of a Deployment that updates step by step; None for other manifests.

    A share of surplus pods rounds up, a share of missing pods rounds down. If both are 0, one pod may be missing.
    Source: `pkg/controller/deployment/util/deployment_util.go` (ResolveFenceposts), `pkg/apis/apps/v1/defaults.go`.
    """
    if manifest.kind != "Deployment" or manifest.find(("spec", "strategy", "type")) == "Recreate":
        return None
    at: Path = ("spec", "strategy", "rollingUpdate")
    surge = _resolve(manifest.find((*at, "maxSurge")), manifest.replicas, up=True)
    unavailable = _resolve(manifest.find((*at, "maxUnavailable")), manifest.replicas, up=False)
    return RollingUpdate(surge, unavailable if surge or unavailable else 1)


def read_partition(manifest: Manifest) -> int | None:
    """Return how many pods a StatefulSet's rolling update leaves at the old template.

    None for other kinds, and if it does not update one pod at a time. Source: `pkg/apis/apps/v1/defaults.go`.
    """
    strategy = manifest.find(("spec", "updateStrategy")) or {}
    written = strategy.get("rollingUpdate") or {}
    if manifest.kind != "StatefulSet" or strategy.get("type") == "OnDelete" or written.get("maxUnavailable", 1) != 1:
        return None
    return int(written.get("partition") or 0)


def count_kept_back(manifest: Manifest, pods: int) -> int:
    """Return how many of its pods a StatefulSet's update leaves at the old template until somebody deletes them."""
    strategy = manifest.find(("spec", "updateStrategy")) or {}
    if manifest.kind != "StatefulSet":
        return 0
    if strategy.get("type") == "OnDelete":
        return pods
    return min(pods, int((strategy.get("rollingUpdate") or {}).get("partition") or 0))


def is_paused(manifest: Manifest) -> bool:
    """Return whether a Deployment is paused; its controller then creates no pod of a new template."""
    return manifest.kind == "Deployment" and bool(manifest.find(("spec", "paused")))


def _resolve(amount: Any, replicas: int, *, up: bool) -> int:
    """Return the number that a number or a share means. The API server refuses other values; they get the default."""
    if isinstance(amount, int):
        return max(0, amount)
    text = amount if isinstance(amount, str) and amount.removesuffix("%").isdigit() else _DEFAULT
    share = int(text.removesuffix("%")) * replicas
    return -(-share // 100) if up else share // 100
