"""Each check turns what was read into a result: what was found, and the remedy if something is wrong.

If an object cannot be read, the result is "unknown", not "wrong", and says which right is missing.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from rebalancer.admission.guards import GuardAnswer, Verdict
from rebalancer.admission.rights import WAY_OUT
from rebalancer.assessment.findings import Finding
from rebalancer.documents.status import LeaseStatus, StatusDocument
from rebalancer.locations import ConfigMapPolicy
from rebalancer.model.cluster import Version, describe_unmodelled
from rebalancer.model.history import Author
from rebalancer.model.reasons import FindingKind
from rebalancer.model.words import format_rest, name_list, plural
from rebalancer.policy import Mode
from rebalancer.policy.team_maps import POLICY_KEY
from rebalancer.reporting.acting import describe_controller, describe_no_leader, find_trouble

_LEAST_CERTIFICATE: Final = timedelta(days=14)
"""A certificate that expires sooner than this has to be renewed."""


EVICT: Final = "evict"
"""The right to evict; all other rights are rights to read."""


_MEANT: Final = "--controller-namespace says which one is meant"


class Outcome(StrEnum):
    """What a check has found."""

    OK = "ok"
    NOTE = "note"
    """Nothing is wrong, but the fact may be interesting."""
    UNKNOWN = "unknown"
    WRONG = "wrong"


class Result(NamedTuple):
    """The result of a check: what was checked, what was found, and what to do, "" if nothing."""

    name: str
    outcome: Outcome
    text: str
    remedy: str = ""


class OtherProgram(NamedTuple):
    """Another program that evicts pods: its kind and name, and how it is stopped."""

    kind: str
    namespace: str
    name: str
    stops_by: str


def check_server(version: Version) -> Result:
    """Return whether the scheduler of the API server's release is modelled."""
    if unmodelled := describe_unmodelled(version):
        text, _, remedy = unmodelled.rpartition(". ")
        return Result("API server", Outcome.WRONG, text, remedy)
    return Result("API server", Outcome.OK, f"Kubernetes {version}, whose scheduler is modelled")


def check_controller(
    status: StatusDocument | None, lease: LeaseStatus, namespace: str, now: datetime, *, elsewhere: str = ""
) -> Result:
    """Return whether a controller leads and completes its cycles; if none does, `elsewhere` says where one does."""
    if status is None or status.last_cycle is None:
        if elsewhere:
            return Result("controller", Outcome.WRONG, f"none has run in namespace {namespace}; {elsewhere}", _MEANT)
        remedy = "apply deploy/ or install the chart, or name its namespace with --controller-namespace"
        return Result("controller", Outcome.WRONG, f"none has run in namespace {namespace}", remedy)
    if not lease.holder:
        outcome = Outcome.UNKNOWN if lease.error and lease.free_since is None else Outcome.WRONG
        text = describe_no_leader(lease, f"last cycle {status.last_cycle:%Y-%m-%d %H:%M:%SZ}", now)
        return Result("controller", outcome, text, f"see kubectl get pods -n {namespace}, and kubectl logs of its pods")
    outcome = Outcome.WRONG if find_trouble(status, now) else Outcome.OK
    remedy = "see the log of its pod" if outcome is Outcome.WRONG else ""
    return Result("controller", outcome, describe_controller(status, now), remedy)


def pass_over_rights(namespace: str) -> Result:
    """Return that the rights were not checked, because this namespace has no controller."""
    text = f"namespace {namespace} has no controller, and the account of another one was not asked about"
    return Result("rights", Outcome.UNKNOWN, text, _MEANT)


def check_rights(mode: Mode, missing: Mapping[str, Sequence[str]]) -> Result:
    """Return whether the controller's account has the rights that the mode needs.

    `missing` has the namespaces in which each missing right is missing; an empty sequence means all namespaces.
    """
    if not missing:
        return Result("rights", Outcome.OK, f"the controller's account has those of mode {mode}")
    lacks = [f"{right}{f' in {name_list(spaces)}' if spaces else ''}" for right, spaces in missing.items()]
    reads = [spaces for right, spaces in missing.items() if right != EVICT]
    remedies = [
        "apply deploy/base/cluster-role.yaml and deploy/base/workloads.yaml again: these ClusterRoles have them, "
        "and nothing else is in these files"
        if not all(reads)
        else "",
        "kubectl apply -n NAMESPACE -k deploy/workloads in each of these, or leave them out in eligibility.namespaces"
        if any(reads)
        else "",
        WAY_OUT if EVICT in missing else "",
    ]
    remedy = "; ".join(filter(None, remedies))
    return Result("rights", Outcome.WRONG, f"the controller's account may not {'; '.join(lacks)}", remedy)


def check_policy(
    name: str, doubt: str, author: Author, *, written: ConfigMapPolicy | None = None, missing: bool = False
) -> Result:
    """Return whether the policy as written is in force; `name` is the policy's name.

    `written` is the ConfigMap in which the controller's policy belongs; `missing` says that no policy is there.
    """
    if doubt:
        write = (
            "create its ConfigMap again: kubectl apply -f deploy/base/policy.yaml, or with your own policy.yaml in it"
        )
        return Result("policy", Outcome.WRONG, doubt, write if missing or written is None else _correct(written))
    by = author.who or author.manager
    at = f" at {datetime.fromtimestamp(author.at, UTC):%Y-%m-%d %H:%M:%SZ}" if author.at else ""
    changed = f", changed by {by}{at}" if by else ""
    return Result("policy", Outcome.OK, f"{name}{changed}")


def _correct(written: ConfigMapPolicy) -> str:
    """Say how to correct a policy, with a complete command, because `validate` takes files."""
    key = POLICY_KEY.replace(".", r"\.")
    read = f"kubectl get configmap {written.name} -n {written.namespace} -o jsonpath='{{.data.{key}}}'"
    return f"correct it; {read} | rebalancer policy validate - lists every problem"


def check_configuration(file: str, problem: str) -> Result:
    """Return whether the scheduler configuration that the policy names can be read."""
    if problem:
        remedy = "put the file into the ConfigMap of the policy, beside policy.yaml, or correct scheduler.configFile"
        return Result("scheduler.configFile", Outcome.WRONG, problem, remedy)
    return Result("scheduler.configFile", Outcome.OK, f"{file} is read" if file else "none: the scheduler's defaults")


def check_guards(answers: Sequence[GuardAnswer]) -> Result:
    """Return whether the query of every guard has a good answer.

    If a server cannot be asked from here, the result is unknown.
    """
    if not answers:
        return Result("guards", Outcome.OK, "no queries")
    bad = [answer for answer in answers if answer.verdict is not Verdict.GOOD]
    if not bad:
        return Result("guards", Outcome.OK, f"{plural(len(answers), 'guard')} good")
    text = "; ".join(f"guard {answer.name}: {answer.message}" for answer in bad)
    if all(answer.away for answer in bad):
        remedy = "asked from here; in the controller's pod the same command asks from there (kubectl exec)"
        return Result("guards", Outcome.UNKNOWN, text, remedy)
    return Result(
        "guards", Outcome.WRONG, text, "no step begins before they are good: see what they watch, or the query"
    )


def check_budgets(findings: Sequence[Finding]) -> Result:
    """Return whether a budget allows no eviction even if all its pods are Ready."""
    kinds = {FindingKind.BUDGET_ALWAYS_ZERO, FindingKind.BUDGET_NOT_COMPUTED}
    stuck = [finding for finding in findings if finding.kind in kinds]
    if not stuck:
        return Result("budgets", Outcome.OK, "every PodDisruptionBudget can allow an eviction")
    named = name_list(finding.object for finding in stuck)
    remedy = stuck[0].message.rpartition(". ")[2]
    return Result("budgets", Outcome.WRONG, f"{named}: no pod can ever be evicted", remedy)


def check_reach(outside: Mapping[str, int], total: int) -> Result:
    """Return how many workloads with constraints or limits the policy leaves out.

    `outside` is the number of these workloads by namespace.
    """
    number = sum(outside.values())
    if not number:
        return Result("workloads", Outcome.OK, f"{plural(total, 'workload')} with constraints or limits in reach")
    text = f"{number} of {plural(total, 'workload')} with constraints or limits are in {name_list(sorted(outside))}"
    remedy = "eligibility.namespaces leaves these out: they are reported, and never repaired"
    return Result("workloads", Outcome.NOTE, text, remedy)


def check_others(found: Sequence[OtherProgram], unknown: str) -> Result:
    """Return whether another program evicts pods, or another controller leads.

    `unknown` says what this account may not read.
    """
    if found:
        named = name_list(f"{one.kind} {one.namespace}/{one.name}" for one in found)
        return Result("others who evict", Outcome.WRONG, named, f"let one program evict: {found[0].stops_by}")
    if unknown:
        return Result("others who evict", Outcome.UNKNOWN, unknown, "an administrator may read them")
    return Result("others who evict", Outcome.OK, "no second controller and no descheduler is seen")


def check_monitoring(served: bool) -> Result:  # what was read
    """Return whether the API server knows the kinds of the shipped alerts."""
    if served:
        return Result("monitoring", Outcome.OK, "PrometheusRule and ServiceMonitor are served")
    text = "monitoring.coreos.com is not served: no PrometheusRule or ServiceMonitor is taken"
    remedy = "install the Prometheus operator's CRDs, or give Prometheus deploy/monitoring/rules.yaml as a file"
    return Result("monitoring", Outcome.NOTE, text, remedy)


def check_clocks(here: timedelta, leader: timedelta) -> Result:
    """Return whether clocks differ.

    The API server's clock is ahead of this machine's by `here`, and the leader's is ahead of the API server's by
    `leader`.
    """
    parts = []
    if here:
        parts.append(f"this machine's is {format_rest(abs(here))} {'behind' if here > timedelta(0) else 'ahead of'} it")
    if leader:
        side = "behind" if leader < timedelta(0) else "ahead of"
        parts.append(f"the leader's is {format_rest(abs(leader))} {side} it")
    if not parts:
        return Result("clocks", Outcome.OK, "they agree with the API server's")
    return Result("clocks", Outcome.WRONG, f"the API server's clock: {'; '.join(parts)}", "let NTP set them")


def check_certificate(end: datetime | None, now: datetime) -> Result:
    """Return whether the API server's certificate expires soon.

    `end` is None if no certificate was verified.
    """
    if end is None:
        return Result("certificate", Outcome.NOTE, "the API server's certificate was not verified")
    text = f"the API server's ends at {end:%Y-%m-%d %H:%M:%SZ}"
    if end - now < _LEAST_CERTIFICATE:
        return Result("certificate", Outcome.WRONG, text, "renew it, such as with kubeadm certs renew apiserver")
    return Result("certificate", Outcome.OK, text)
