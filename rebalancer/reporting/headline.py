"""The sentences that `status` and the page share: the headline, waits, holds, and the plan that waits for approval."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from rebalancer.documents.losses import LossStatus
from rebalancer.documents.overview import Figures
from rebalancer.documents.phrases import OR_ANOTHER, ago, domains_text, end_text, from_now, workload_names
from rebalancer.documents.status import ApprovalStatus, StatusDocument
from rebalancer.documents.waits import HoldStatus, NextMove, RepairWait
from rebalancer.model.modes import Mode
from rebalancer.model.reasons import Reason
from rebalancer.model.words import format_rest, name_list, plural, short_key, shorten_keys
from rebalancer.reporting.acting import describe_missing_rights, find_hindrance, is_of_last_leader

NOT_NOW: Final = "cannot be repaired now"
"""The words for a violation that evictions cannot repair now; its reason names the remedy."""

_ENDED_BY_A_CYCLE: Final = frozenset({Reason.BREAKER_OPEN, Reason.DOMAIN_UNSETTLED})
"""Holds that the first cycle after their time ends, unless a bound is exceeded again or a node lost before it."""

WITHOUT_NODE: Final = "pods wait for a node"
"""The state of workloads whose pods wait for a node while no rule is violated: constraints count placed pods."""

_FOR_LONG: Final = timedelta(hours=1)
"""A domain that has been lost for longer than this may have been removed on purpose."""


class Sign(StrEnum):
    """The meaning of a sign, which has the same shape, colour and word on the page and in the terminal."""

    VIOLATED = "violated"
    MOVING = "moving"
    WAITING = "waiting"
    UNREPAIRABLE = "unrepairable"
    GOOD = "good"
    PAUSE = "pause"
    NOTE = "note"
    NONE = "none"


class Headline(NamedTuple):
    """A sign and its words."""

    sign: Sign
    text: str


def headlines(status: StatusDocument, figures: Figures | None, now: datetime) -> Sequence[Headline]:
    """Say what is lost, if anything is, then what is happening and what comes next."""
    own = headline(status, figures, now)
    if status.lease is not None and (not status.lease.holder or status.lease.unread_since is not None):
        return [own]  # no process leads, or it cannot be known
    if status.losses and own.sign is Sign.GOOD:
        own = own._replace(sign=Sign.NOTE)
    return [*(Headline(Sign.VIOLATED, loss_sentence(loss, status.mode, now)) for loss in status.losses), own]


def loss_sentence(loss: LossStatus, mode: str, now: datetime) -> str:
    """Say what was lost and when, what it held, which rules are violated because of it, and when the repair begins."""
    domain, at = f"{short_key(loss.topology_key)} {loss.value}", _clock(loss.at, now)
    pods = plural(loss.pods, "pod")
    if loss.whole:
        what = f"{domain[0].upper()}{domain[1:]} lost at {at}: {plural(loss.lost, 'node')}, {pods}"
    elif loss.lost == 1 and loss.nodes:
        left = f"{loss.left} of {plural(loss.had, 'node')} {'is' if loss.left == 1 else 'are'} left"
        what = f"Node {loss.nodes[0]} of {domain} lost at {at}: {pods}; {left}"
    else:
        what = f"{domain[0].upper()}{domain[1:]} loses nodes since {at}: {loss.lost} of {loss.had} lost, {pods}"
    facts = [what, *_loss_facts(loss, mode, now)]
    if loss.empty and now - loss.at >= _FOR_LONG:
        facts.append(f"if the {short_key(loss.topology_key)} is gone for good, add it to topology.ignore")
    return "; ".join(facts)


def _loss_facts(loss: LossStatus, mode: str, now: datetime) -> Iterator[str]:
    back = "it is back" if loss.whole or loss.lost == 1 else "they are back"
    if loss.elsewhere:
        yield f"nodes of it are in {name_list(loss.elsewhere)} now"
    counted = ((loss.limits - loss.unsatisfiable, "limit"), (loss.constraints, "constraint"))
    violated = [plural(number, name) for number, name in counted if number]
    if not violated and not loss.unsatisfiable:
        return
    if violated:
        yield f"{' and '.join(violated)} violated"
    if loss.unsatisfiable:
        yield f"no placement satisfies {plural(loss.unsatisfiable, 'limit')} before {back}"
    elif loss.hopeless:
        yield f"no placement satisfies {'it' if loss.limits == 1 else 'them'} before {back}"
    elif loss.repair_at is not None and loss.repair_at > now and mode != Mode.OBSERVE:
        settling = " (settling)" if loss.settling else ""
        yield f"repair begins when {back} or in {format_rest(loss.repair_at - now)}{settling}"


def headline(status: StatusDocument, figures: Figures | None, now: datetime) -> Headline:
    """Say what is happening and what comes next; `figures` are the last cycle's, None if there are none."""
    lease = status.lease
    if lease is not None and lease.unread_since is not None:
        since = _clock(lease.unread_since, now)
        return Headline(Sign.NOTE, f"Who leads and what happens is not known since {since}")
    if lease is not None and not lease.holder:
        if lease.free_since is None and lease.error:
            return Headline(Sign.NOTE, "Whether a controller runs is not known")
        return Headline(Sign.NONE, "Nothing is watched, nothing is repaired")
    if status.paused is not None and status.paused.error:
        return Headline(Sign.PAUSE, "Paused until pause.yaml, which cannot be read, is corrected or removed")
    if status.paused is not None:
        until, by = status.paused.until, f" by {status.paused.by}" if status.paused.by else ""
        if until is not None and until <= now:
            return Headline(Sign.PAUSE, f"The pause{by} was over at {_clock(until, now)}: it ends with the next cycle")
        end = f"until {_clock(until, now)}" if until is not None else "until somebody resumes"
        return Headline(Sign.PAUSE, f"Paused{by} {end}")
    if figures is None:
        return Headline(Sign.NOTE, "The first cycle has not ended yet")
    if is_of_last_leader(status):
        return Headline(Sign.NOTE, "A new leader has not ended a cycle yet")
    return _hindrance(status, figures) or _repair(status, figures, now) or _rest(status, figures)


def _hindrance(status: StatusDocument, figures: Figures) -> Headline | None:
    """Say what keeps every eviction back."""
    if status.mode == Mode.OBSERVE:
        return None
    if hindrance := find_hindrance(status):
        return Headline(Sign.NONE, f"No eviction now: {hindrance}")
    if status.missing_rights and not figures.moving:
        text = describe_missing_rights(status.missing_rights)
        return Headline(Sign.NONE, text[0].upper() + text[1:])
    return None


def _repair(status: StatusDocument, figures: Figures, now: datetime) -> Headline | None:
    """Say what is moving, and what waits for what."""
    approval = status.approval
    if approval is not None and not approval.approved:
        expires = _clock(approval.expires_at, now)
        number = plural(approval.total, "eviction") + _later_steps(approval)
        return Headline(Sign.WAITING, f"A plan of {number} waits for approval until {expires}")
    following = ""
    if figures.next_at is not None and figures.next_at > now:
        left = format_rest(figures.next_at - now)
        soonest = f"the next eviction is in {left} at the earliest"
        following = f", a wait ends in {left}" if figures.may_go_sooner else f", {soonest}"
    if figures.moving:
        verb = "is" if figures.moving == 1 else "are"
        return Headline(Sign.MOVING, f"Repairing: {plural(figures.moving, 'pod')} {verb} moving{following}")
    if not figures.waiting:
        return None
    if status.mode == Mode.OBSERVE:
        would = plural(figures.waiting, "eviction")
        return Headline(
            Sign.VIOLATED, f"{_violated(figures)}: {would} would repair what can be, mode Observe makes none"
        )
    verb = "waits" if figures.waiting == 1 else "wait"
    return Headline(Sign.WAITING, f"{plural(figures.waiting, 'eviction')} {verb}{following}")


def next_word(figures: Figures) -> str:
    """Say what comes next at the figures' time: an eviction or, if one may go sooner, just the end of a wait."""
    return "a wait ends" if figures.may_go_sooner else "next"


def _rest(status: StatusDocument, figures: Figures) -> Headline:
    """Say which violations remain although nothing moves or waits."""
    if figures.unrepairable and figures.unrepairable == figures.violated:
        return Headline(Sign.UNREPAIRABLE, f"{_violated(figures)} and {NOT_NOW}")
    if figures.violated:
        return Headline(Sign.VIOLATED, f"{_violated(figures)}, nothing is planned")
    if not figures.workloads:
        return Headline(Sign.NOTE, "No workload has a spread constraint or a limit yet")
    reasons = sorted({wait.reason for wait in status.waits if wait.without_node})
    if reasons:
        return Headline(Sign.NOTE, f"No rule is violated, but {WITHOUT_NODE} ({', '.join(reasons)})")
    return Headline(Sign.GOOD, "Nothing is violated, nothing moves")


def _clock(moment: datetime, now: datetime) -> str:
    """Write a time, with the day unless it is today."""
    return f"{moment:%H:%M:%S} UTC" if moment.date() == now.date() else f"{moment:%d %b %H:%M:%S} UTC"


def _violated(figures: Figures) -> str:
    return f"{plural(figures.violated, 'workload')} violated"


def hold_sentence(hold: HoldStatus, now: datetime, *, goes_on: bool = True) -> str:
    """Say what is held, since when and why, and if the controller `goes_on`, until when."""
    since = f" since {hold.since:%Y-%m-%d %H:%M:%SZ} ({ago(hold.since, now)})" if hold.since is not None else ""
    said = f"{hold.scope}{since}: {hold.reason}: {hold.message}"
    end = f"; {end_text(hold.until, hold.ends_with, now, verb='ends')}" if goes_on else ""
    earliest = " at the earliest" if end and hold.until is not None and hold.reason in _ENDED_BY_A_CYCLE else ""
    return f"{shorten_keys(said)}{end}{earliest}"


def or_another(move: NextMove) -> str:
    """Return the words which say that by then another pod may be chosen; "" if none may."""
    return f", {OR_ANOTHER}" if move.or_another else ""


def next_move_text(move: NextMove) -> str:
    """Say which pod goes, from where and to where."""
    return f"{move.pod} from {move.node or 'no node'} to {domains_text(move.domains)}{or_another(move)}"


def wait_sentence(wait: RepairWait, now: datetime, *, goes_on: bool = True) -> str:
    """Say when and with what a repair goes on, if the controller `goes_on`, and why not sooner."""
    end = shorten_keys(end_text(wait.until, wait.ends_with, now, wait.usual)) if goes_on else "waited"
    then = ""
    if goes_on and wait.then is not None and (wait.until is not None or wait.ends_with):
        then = f", then {next_move_text(wait.then)}"
    what = [*wait.violated, *([_evictions(wait)] if wait.evictions else [])]
    of = f", {'; '.join(what)}" if what else ""
    said = f"{wait.reason}: {shorten_keys(wait.message)}"
    return f"{wait.namespace}/{workload_names(wait.workloads)}{of}: {end}{then}. {said}"


def _evictions(wait: RepairWait) -> str:
    """Say how many evictions the whole repair takes, and how many of them are blocked."""
    number = plural(wait.evictions, "eviction")
    if not wait.blocked:
        return number
    return f"{number} blocked" if wait.blocked == wait.evictions else f"{number}, {wait.blocked} of them blocked"


def approval_title(approval: ApprovalStatus) -> str:
    """Name the plan, and whether it waits for approval."""
    number = plural(approval.total, "eviction")
    if approval.approved:
        return f"Approved: plan {approval.hash}, {number}, {approval.left} of them still to be made"
    return f"To be approved: plan {approval.hash}, {number}{_later_steps(approval)}"


def _later_steps(approval: ApprovalStatus) -> str:
    """Say how many evictions the approval covers with the later steps; return "" if these add none."""
    covered = sum(repair.evictions for repair in approval.repairs)
    return f" (up to {covered} with later steps)" if covered > approval.total else ""


def approval_sentences(approval: ApprovalStatus, now: datetime) -> Iterator[str]:
    """Yield until when the plan is proposed or carried out, how and by whom it is approved, and what is not shown."""
    if approval.approved:
        yield f"Approved {ago(approval.since, now)}; without progress it ends {from_now(approval.expires_at, now)}."
    else:
        expires = from_now(approval.expires_at, now)
        yield f"Proposed {ago(approval.since, now)}; expires {expires}, and a new plan is proposed then."
        yield f"{approval.command} shows it and asks. Who may: {approval.who}."
        steps = "with its later steps, with --step without them" if approval.repairs else "without later steps"
        yield f"Once approved, it is carried out within all budgets, {steps}; what else waits needs its own approval."
    added = sum(bool(one.added) for one in approval.evictions)
    if added:
        which = f"{added} of these pods {'is' if added == 1 else 'are'} not evicted"
        yield f"{which}: as many are added first, and once all are Ready, the workload is scaled down."
    more = approval.left - len(approval.evictions)
    if more > 0:
        yield f"And {plural(more, 'more eviction')}; rebalancer approve --dry-run lists all."
