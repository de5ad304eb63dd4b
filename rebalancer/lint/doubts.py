"""Why pods that find no node in the model may find one nevertheless: what the manifests or the snapshot leave open.

Some pods keep the old template. In a scale-down it is not known which pods are deleted. A pod of unknown priority may
preempt other pods.
"""

from typing import Final

from rebalancer.lint.ground import Ground
from rebalancer.lint.manifest import Manifest
from rebalancer.lint.strategy import count_kept_back, is_paused
from rebalancer.model.words import plural

PRIORITY_CLASS: Final = "PriorityClass"


def count_not_replaced(manifest: Manifest, ground: Ground) -> int:
    """Return how many pods of a manifest whose template differs from the cluster's are not created with it."""
    owner = ground.find_owner(manifest)
    if owner is None or owner.uid in ground.snapshot.workload:
        return 0
    if is_paused(manifest):
        return manifest.replicas
    rollout = ground.find_rollout(manifest)
    return count_kept_back(manifest, len(rollout[1])) if rollout is not None else 0


def has_unknown_priority(manifest: Manifest, ground: Ground) -> bool:
    """Return whether a template names a PriorityClass whose value was not read."""
    named = _name_class(manifest)
    classes = {one.name for one in ground.snapshot.priority_classes}
    return bool(named) and named not in classes and PRIORITY_CLASS in ground.snapshot.unknown


def describe_doubt(manifest: Manifest, ground: Ground, short: int) -> str:
    """Say why it is not proved that `short` pods of a manifest find no node; return "" if it is proved."""
    kept = count_not_replaced(manifest, ground)
    if is_paused(manifest) and kept:
        return "the Deployment is paused, and none is created before it is resumed"
    if short <= kept:
        return f"updateStrategy keeps {plural(kept, 'pod')} of the old template until they are deleted"
    if has_unknown_priority(manifest, ground):
        return (
            f"the snapshot has no PriorityClass {_name_class(manifest)}, by which they may preempt others: add "
            "PriorityClasses to it"
        )
    if ground.scaled_down is not None:
        return f"{ground.scaled_down} is scaled down by the same call, and which of its pods go is not known"
    return ""


def _name_class(manifest: Manifest) -> str:
    template = manifest.workload.template if manifest.workload is not None else None
    return template.spec.priority_class if template is not None else ""
