"""The sentence of every fact, in facts.txt, and what holds for all of them.

`python -m tests.facts.test_facts` writes the file anew; a change of it is a decision.
"""

import importlib
import pkgutil
import re
from dataclasses import Field
from pathlib import Path

import pytest
from msgspec import Struct, structs

import rebalancer
from rebalancer.assessment.assess import assess
from rebalancer.model.facts import NOT_BY_ITSELF, Fact, Refusal
from rebalancer.model.moves import NO_MEMORY, Reference
from rebalancer.planning.plan import PlanRefusal
from rebalancer.planning.plan_file import read_plan, write_plan
from rebalancer.policy import default_policy
from rebalancer.scheduling.view import View
from tests.facts.examples import all_facts, examples
from tests.planning.clusters import planned, returned

GOLDEN = Path(__file__).parent / "facts.txt"


def sentences() -> str:
    """Return a line for each example: class, reason, sentence, and when what it keeps goes on."""
    return "".join(f"{type(fact).__name__}{_reason(fact)}: {fact}{_end(fact)}\n" for fact in examples())


def _end(fact: Fact) -> str:
    if not isinstance(fact, Refusal) or fact.end == NOT_BY_ITSELF:
        return ""
    at = f"at {fact.end.at:%Y-%m-%d %H:%M:%SZ}" if fact.end.at is not None else ""
    after = f"in {fact.end.after}" if fact.end.after is not None else ""
    return f" [ends {at}{after}{fact.end.event}]"


def _reason(fact: Fact) -> str:
    return f" ({fact.reason})" if isinstance(fact, Refusal) else ""


def test_every_fact_says_what_the_golden_file_has() -> None:
    """A sentence names object, field and value, and what to do where that is known."""
    assert sentences() == GOLDEN.read_text(encoding="utf-8"), "renew it with python -m tests.facts.test_facts"


@pytest.mark.parametrize("fact", examples(), ids=lambda fact: type(fact).__name__)
def test_a_sentence_fits_into_another_one(fact: Fact) -> None:
    """It follows a colon, and another may follow it."""
    sentence = str(fact)
    assert sentence == sentence.strip()
    assert "\n" not in sentence
    assert not sentence.endswith((".", ";", ","))


@pytest.mark.parametrize("fact", examples(), ids=lambda fact: type(fact).__name__)
def test_no_sentence_means_the_controller_by_this_account(fact: Fact) -> None:
    """Who reads it with `plan` or `status` has an account of their own, which may have the right."""
    ends = fact.end.event if isinstance(fact, Refusal) else ""
    assert "this account" not in f"{fact} {ends}"


@pytest.mark.parametrize("fact", examples(), ids=lambda fact: type(fact).__name__)
def test_a_duration_is_written_in_one_form(fact: Fact) -> None:
    """5m everywhere, and 300s nowhere."""
    assert not re.search(r"(?<![0-9.])(?:[6-9][0-9]|[0-9]{3,}) ?s(?:econds)?\b", str(fact))


def test_facts_are_values_of_their_own_kind() -> None:
    """Equal facts are equal and hash alike, so that plans can be compared; nothing can change them."""
    for first, second in zip(examples(), examples(), strict=True):
        assert (first, hash(first)) == (second, hash(second))
        assert (first.__struct_config__.frozen, first.__struct_config__.gc) == (True, False)
    kinds = [kind.__struct_config__.tag for kind in all_facts()]
    assert len(set(kinds)) == len(kinds)


def test_every_refusal_of_a_plan_is_written_and_read_back_equal() -> None:
    """With its kind; also facts within facts."""
    snapshot = returned()
    assessment = assess(View(snapshot), default_policy(), NO_MEMORY)
    made, cart = planned(snapshot), Reference("shop", "Deployment", "cart")
    rows = [PlanRefusal(workload=cart, pod=None, refusal=fact) for fact in examples() if isinstance(fact, Refusal)]
    everything = structs.replace(made, refusals=tuple(rows))
    assert read_plan(write_plan(everything), assessment, snapshot) == everything


def test_no_struct_has_a_default_of_dataclasses() -> None:
    """`dataclasses.field` in a msgspec Struct is the default itself: mypy accepts it, and reading it fails."""
    for module in pkgutil.walk_packages(rebalancer.__path__, "rebalancer."):
        importlib.import_module(module.name)
    left, wrong = [Struct], []
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        wrong += [kind.__name__ for default in kind.__struct_defaults__ if isinstance(default, Field)]
    assert wrong == []


if __name__ == "__main__":
    GOLDEN.write_text(sentences(), encoding="utf-8")


STAYS = frozenset(
    [
        "ClaimBeingDeleted",
        "ClaimLost",
        "ConstraintsTooCostly",
        "DefinitionsDiffer",
        "DisruptedAsWhole",
        "EvictionResponders",
        "FailedPredictions",
        "HostPortsOfSeveralClasses",
        "LimitRangeViolated",
        "LocalVolumes",
        "MirrorPod",
        "ModeObserves",
        "NamedObjectMissing",
        "NamespaceBeingDeleted",
        "NamespaceExcluded",
        "NoBetterPlace",
        "NoNodeAdmits",
        "NoPlacement",
        "NoPlacementOfClasses",
        "NoSafeAddition",
        "NoSafeEviction",
        "NoSequence",
        "NobodyRecreates",
        "NodeUnable",
        "NodesTakeNoMore",
        "NotActedOn",
        "NotAddedTo",
        "NotItsConstraint",
        "NotModelledApart",
        "NotReplaced",
        "NotSelected",
        "NothingRecreates",
        "ObjectUnreadable",
        "OnDeleteRevision",
        "OtherScheduler",
        "OthersNeedNotMove",
        "OthersStay",
        "OwnPodsNotSelected",
        "OwnerBeingDeleted",
        "OwnerKindNotListed",
        "OwnerPaused",
        "OwnerUnknown",
        "OwnsObjects",
        "PodAffinityRequired",
        "PodGroupUnknown",
        "PodSecurityViolated",
        "PriorityClassMissing",
        "PriorityTooHigh",
        "QuotaNeedsRequests",
        "RequestAboveLimit",
        "RequestsUncertain",
        "SampleDecides",
        "SeveralBudgets",
        "StepExceedsBudget",
        "TeamPolicyUnreadable",
        "TemplatesDiffer",
        "TermNotActedOn",
        "TooFewDomains",
        "TooFewDomainsApart",
        "TooFewReplicas",
        "TooManyPlaceholders",
        "TooManyTerms",
        "Unpredictable",
        "VolumeInUse",
        "VolumePinned",
        "WorkloadUnpredictable",
    ]
)
"""What does not end by itself: somebody has to change the workload, the policy or the cluster."""


def test_each_refusal_says_when_it_ends_or_is_one_that_does_not_by_itself() -> None:
    """A new one is a decision: an operator reads it as an answer."""
    refusals = [kind for kind in all_facts() if issubclass(kind, Refusal)]
    ends = {kind: [kind.ends, kind.ends_at, kind.ends_after, kind._end is not Refusal._end] for kind in refusals}
    assert {kind.__name__ for kind, said in ends.items() if not any(said)} == STAYS


def test_an_end_is_said_in_one_way() -> None:
    """The event, the moment, the span or a method: of two, one would be ignored."""
    for kind in all_facts():
        if issubclass(kind, Refusal):
            own = kind.__mro__[: kind.__mro__.index(Refusal)]
            names = ("ends", "ends_at", "ends_after", "_end")
            assert sum(name in vars(base) for base in own for name in names) <= 1, kind


_SPAN = re.compile(r"\b(\d+[dhms])+ (left|ago)\b|\b(attempt|again|there) in \d")


@pytest.mark.parametrize("fact", examples(), ids=lambda fact: type(fact).__name__)
def test_beside_its_end_no_refusal_says_how_long_something_lasts(fact: Fact) -> None:
    """A screen counts the end down; a span that was right when it was written would contradict it."""
    if isinstance(fact, Refusal):
        assert not _SPAN.search(fact.timeless)
        assert not fact.timeless.endswith((".", ";", ","))
