"""What is reported of workloads whose pods have volumes.

Volumes only take nodes away from a pod. If a pod finds no node even when its volumes are ignored, it finds none with
them, either. Everything else depends on volumes that may be unknown: their lists were not read, or a StatefulSet's
controller has yet to create the claims.
"""

from collections.abc import Collection
from dataclasses import replace

from msgspec import structs

from rebalancer.model.facts import Fact
from rebalancer.model.moves import Reference
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.words import name_list
from rebalancer.model.workloads import Workload
from rebalancer.resilience.loss import Loss, lose
from rebalancer.resilience.rows import Remaining, Verdict
from rebalancer.scheduling.unpredictable import FOR_CLAIMS
from rebalancer.scheduling.view import View


class VolumesUnknown(Fact):
    """Nothing is known of the volumes of a workload's pods. `besides` says what else is uncertain, "" if nothing is."""

    cause: str
    besides: str

    def __str__(self) -> str:
        besides = f"; besides, {self.besides}" if self.besides else ""
        return f"its volumes are not known here: {self.cause}{besides}"


class ClaimsMissing(Fact):
    """A template names claims that do not exist, so its pods get no node until somebody creates the claims."""

    missing: str

    def __str__(self) -> str:
        return f"{self.missing}, and its pods wait until then"


def find_with_volumes(loss: Loss) -> Collection[Reference]:
    """Return the workloads whose pods have claims."""
    return {one.workload for one in loss.services if one.workload is not None and one.sample.claims}


def drop_volumes(loss: Loss) -> Loss:
    """Return the loss in a cluster in which no pod has a claim."""
    before = loss.before
    view = View(_without_claims(before.snapshot), before.profile)
    return lose(view, loss.nodes, loss.phase, drained=loss.drained)


def _without_claims(snapshot: Snapshot) -> Snapshot:
    return replace(
        snapshot,
        pods=tuple(structs.replace(pod, claims=()) if pod.claims else pod for pod in snapshot.pods),
        workloads=tuple(map(_with_template_without_claims, snapshot.workloads)),
    )


def _with_template_without_claims(owner: Workload) -> Workload:
    template = owner.template
    if template is None or not (template.claims or template.claim_templates):
        return owner
    return structs.replace(owner, template=structs.replace(template, claims=(), claim_templates=()))


def join_with_bare(row: Remaining, bare: Remaining | None, loss: Loss) -> Remaining:
    """Return the row of a workload, with the reason of `bare`, its row without volumes (None if it is then whole).

    If the pods may find a node without volumes, the reason is that the volumes are not known, or else the row's own.
    """
    if bare is not None and bare.verdict is Verdict.NO and bare.possible <= row.possible:
        return structs.replace(row, possible=bare.possible, reason=bare.reason)
    unknown = _find_unknown(row.workload, loss, str(bare.reason) if bare is not None else "")
    return row if row.verdict is Verdict.NO or unknown is None else structs.replace(row, reason=unknown)


def _find_unknown(workload: Reference, loss: Loss, besides: str) -> Fact | None:
    """Return what is unknown about the volumes of a workload's next pod; None if they are known."""
    snapshot = loss.before.snapshot
    unread = next((kind for kind in FOR_CLAIMS if kind in snapshot.unknown), None)
    if unread is not None:
        cause = f"no {unread} list was read; add it to the snapshot, or the right to list them"
        return VolumesUnknown(cause, besides)
    samples = (one.sample for one in loss.services if one.workload == workload)
    missing = [name for pod in samples for name in pod.claims if (pod.namespace, name) not in snapshot.claim]
    if not missing:
        return None
    are = "is" if len(missing) == 1 else "are"
    there = f"PersistentVolumeClaim {name_list(missing)} {are} not there yet"
    return VolumesUnknown(there, besides) if workload.kind == "StatefulSet" else ClaimsMissing(there)
