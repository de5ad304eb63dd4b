"""What a policy relaxes was not repaired: the history says which of the two has ended a violation of a limit."""

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.controller.loop import step
from rebalancer.controller.state import CycleDue, PolicyAuthorRead, PolicyLoaded, ProcessFacts
from rebalancer.documents.history import history_document
from rebalancer.model.history import Author
from rebalancer.policy import Policy
from tests.build import a_cluster, a_policy, a_state
from tests.drawing import examples

COUNTS = [counts for counts in product(range(5), repeat=3) if any(counts)]
SHARES = ["1/4", "1/3", "1/2", "2/3", "3/4"]


def with_share(share: str) -> Policy:
    return a_policy(
        f"""groups:
- name: db
  selector: {{}}
  limits: [{{name: zones, topologyKey: topology.kubernetes.io/zone, maxShare: "<={share}"}}]
"""
    )


def is_violated(counts: tuple[int, ...], share: str) -> bool:
    return max(counts) > Fraction(share) * sum(counts)


# A share and the pods of three zones, drawn from those that violate it and from those that do not.
VIOLATED, ALLOWED = (
    [(share, counts) for share in SHARES for counts in COUNTS if is_violated(counts, share) is wanted]
    for wanted in (True, False)
)


@examples(60)
@given(st.sampled_from(VIOLATED), st.sampled_from(ALLOWED))
def test_a_limit_that_the_pods_of_now_would_violate_is_not_satisfied_but_relaxed(
    until_then: tuple[str, tuple[int, ...]], then: tuple[str, tuple[int, ...]]
) -> None:
    """Where no pod moved, and wherever the moves alone do not do; the entry comes after that of the policy."""
    (old, before), (new, after) = until_then, then
    first, second = (
        a_cluster("abc", 1, {f"{zone}-1": count for zone, count in zip("abc", counts, strict=True)}).snapshot()
        for counts in (before, after)
    )
    start = first.taken_at
    now = start + timedelta(minutes=1)
    author = Author(manager="helm")
    state = a_state(with_share(old), start, process=ProcessFacts(history_name="pod"))
    state, _ = step(state, PolicyAuthorRead(author=author), start)
    state, _ = step(state, CycleDue(snapshot=first), start)
    state, _ = step(state, PolicyLoaded(policy=with_share(new), author=None), now)
    state, _ = step(state, CycleDue(snapshot=replace(second, taken_at=now)), now)
    state, _ = step(state, PolicyAuthorRead(author=author), now)
    changed = [] if old == new else ["PolicyChanged"]
    relaxed = is_violated(after, old)
    entries = history_document(state.memory.outbox, total=0).entries
    told = [one for one in entries if one.at == now and one.kind != "Sample"]
    assert [one.kind for one in told] == [*changed, "NoLongerRequired" if relaxed else "Satisfied"]
    if relaxed:
        bounds = f"maxShare <={old} -> maxShare <={new}"
        assert told[-1].what == f"limit db/zones {bounds}: the policy asks for less since {now:%Y-%m-%d %H:%M:%SZ}"
