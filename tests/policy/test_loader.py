"""Reading policy files: the strict rules, and the lines that a person gets for breaking one."""

import time
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from rebalancer.policy import (
    AntiAffinity,
    CapacityMode,
    Policy,
    PolicyError,
    PolicyProblem,
    default_policy,
    load_policy,
    load_team_policy,
)
from tests.build import HEAD
from tests.drawing import examples
from tests.policy.strategies import documents

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[2] / "config" / "examples"


def load(text: str) -> Policy:
    return load_policy(dedent(text).encode(), source="policy.yaml")


def refused(text: str | bytes) -> list[str]:
    data = text if isinstance(text, bytes) else dedent(text).encode()
    with pytest.raises(PolicyError) as caught:
        load_policy(data, source="policy.yaml")
    return str(caught.value).splitlines()


def test_the_smallest_policy_means_the_default_one() -> None:
    """Every field has a default but the two that name the format; the shipped policy adds its group and its terms."""
    assert load(HEAD) == default_policy().model_copy(update={"groups": (), "anti_affinity": AntiAffinity()})


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_is_valid(path: Path) -> None:
    """As it is shipped."""
    load_one = load_team_policy if path.stem == "team-policy" else load_policy
    assert load_one(path.read_bytes(), source=path.name).groups


@given(documents)
def test_a_written_policy_reads_back_as_itself(document: dict[str, object]) -> None:
    """`to_yaml` prints what `load_policy` reads, for every policy there is."""
    policy = load_policy(yaml.safe_dump(document, allow_unicode=True).encode(), source="policy.yaml")
    again = load_policy(policy.to_yaml().encode(), source="shown.yaml")
    assert again == policy
    assert again.hash == policy.hash
    assert again.to_yaml() == policy.to_yaml()


def test_all_problems_are_reported_together_in_the_order_of_the_lines() -> None:
    """One run of `policy validate` is enough to fix a file."""
    broken = GOLDEN / "broken.yaml"
    assert refused(broken.read_bytes()) == broken.with_suffix(".txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "policy.yaml:1: the file is empty; expected at least apiVersion and kind"),
        ("# nothing\n", "policy.yaml:1: the file is empty"),
        ("~\n", "policy.yaml:1: the file is empty"),
        ("\n- a\n", "policy.yaml:2: found a list at the top level; expected a mapping"),
        ("text\n", "policy.yaml:1: found text at the top level"),
        ("!!set {a}\n", "policy.yaml:1: found a mapping at the top level"),
        (HEAD + "---\n" + HEAD, "policy.yaml:3: a second document begins here; expected one in a file"),
        (HEAD + "mode: [\n", "policy.yaml:4: not valid YAML: while parsing a flow node"),
        (HEAD + "\tmode: Evict\n", "policy.yaml:3: not valid YAML: "),
        (HEAD + "mode: *unknown\n", "policy.yaml:3: not valid YAML: found undefined alias 'unknown'"),
        (HEAD + "mode: \x07\n", "policy.yaml:3: not valid YAML: character #x0007"),
        (HEAD + 'mode: "\\U00110000"\n', "policy.yaml:3: not valid YAML: no such character"),
        (HEAD.encode() + b"mode: \xff\n", "policy.yaml:3: found the byte 0xff; expected text in UTF-8"),
        (HEAD + "1: x\n", 'policy.yaml:3: found the key 1; expected text, "1" in quotes'),
        (HEAD + "? [a]\n: x\n", "policy.yaml:3: found a key that is not text; expected text"),
        (HEAD + "mode: !!python/name:os.system x\n", "policy.yaml:3: mode: found the tag "),
        (HEAD + "mode: !own x\n", "policy.yaml:3: mode: found the tag '!own'; expected a plain value"),
        (HEAD + "<<: 5\n", 'policy.yaml:3: ["<<"]: expected a mapping or a list of mappings'),
        (HEAD + "<<: {}\n<<: {}\n", 'policy.yaml:4: ["<<"]: found twice; expected one with a list'),
        ("mode: Evict\n", "policy.yaml:1: apiVersion: missing; expected apiVersion: rebalancer.dev/v1alpha1"),
        ("kind: List\n" + HEAD[:-1], "policy.yaml:3: kind: found twice; the first is on line 1; expected one"),
    ],
)
def test_what_is_no_policy_at_all_is_named_with_its_line(text: str | bytes, problem: str) -> None:
    """Where nothing can be checked further, the message still says where and what."""
    assert any(line.startswith(problem) for line in refused(text)), refused(text)


def test_the_manifest_of_a_config_map_is_one_problem_with_the_way_out() -> None:
    """Not one for each of its fields: the policy is within."""
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: policy}\ndata: {policy.yaml: 'mode: Evict'}\n"
    (problem,) = refused(manifest)
    assert problem.startswith("policy.yaml:2: kind: found the manifest of a ConfigMap; expected the policy itself")
    assert "data.policy.yaml" in problem


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("budgets: {maxUnavailable: 150%}", 'found "150%"; expected at most 100%'),
        ("breaker: {unreadyNodes: 101%}", 'found "101%"; expected at most 100%'),
        ("eligibility: {selector: app=redis}", "did you mean {matchLabels: {app: redis}}?"),
        (
            "groups: [{name: a, selector: 'app=redis,tier==cache', groupBy: [Workload], limits: []}]",
            "did you mean {matchLabels: {app: redis, tier: cache}}?",
        ),
        ("eligibility: {selector: {matchLabels: app=redis}}", "expected a mapping; did you mean {app: redis}?"),
        ("eligibility: {selector: app in (a)}", "expected a label selector such as {matchLabels: {app: redis}}"),
    ],
)
def test_what_is_expected_is_said_in_the_form_of_the_file(field: str, problem: str) -> None:
    """The bound of a percentage, and a selector that was written as for `kubectl -l`."""
    assert any(problem in line for line in refused(HEAD + field)), refused(HEAD + field)


@pytest.mark.parametrize("field", ["canary: {}"])
def test_what_nothing_acts_on_is_not_accepted(field: str) -> None:
    """A window that is accepted and ignored would evict outside of it."""
    assert refused(HEAD + field)[0].startswith("policy.yaml:3: " + field.split(":", maxsplit=1)[0])


@pytest.mark.parametrize("number", ["0x10", "010", "1_0", "1:30", "1e3", ".inf", "+ 1", "9" * 30, "2.0"])
def test_only_plain_decimal_numbers_are_numbers(number: str) -> None:
    """YAML 1.1 reads 010 as 8 and 1:30 as 90; a budget must not depend on knowing that."""
    (line,) = refused(HEAD + f"budgets: {{perCycle: {number}}}\n")
    assert line.startswith("policy.yaml:3: budgets.perCycle: found ")


def test_anchors_and_merge_keys_mean_what_they_say() -> None:
    """A value may be written once and used often; a field's own value wins over a merged one."""
    policy = load(
        HEAD
        + """\
budgets: &few {perCycle: 1, perNode: &one 1}
nodes: {settle: &time 7m}
spread: {for: *time}
"""
    )
    assert (policy.budgets.per_cycle.value, policy.spread.for_, policy.nodes.settle.total_seconds()) == (
        1,
        policy.nodes.settle,
        420,
    )
    merged = load(
        HEAD
        + """\
eligibility:
  namespaces: {<<: [{include: [a]}, {include: [b], exclude: [c]}], exclude: [d]}
"""
    )
    assert merged.eligibility.namespaces.include == ("a",)
    assert merged.eligibility.namespaces.exclude == ("d",)


def test_a_byte_order_mark_and_windows_line_ends_are_fine() -> None:
    """Files come from every editor."""
    assert load_policy(b"\xef\xbb\xbf" + HEAD.replace("\n", "\r\n").encode(), source="x") == load(HEAD)


BOMBS = {
    "deep flow": b"[" * 2**20,
    "deep block": b"- " * 2**19,
    "many keys": b"".join(b"k%d: 1\n" % number for number in range(80_000)),
    "many unknown": b"".join(b"k%d: 1\n" % number for number in range(11_000)),
    "long list": b"a: [" + b"1," * 500_000 + b"]",
    "empty values": b"a:\n" * 300_000,
    "aliases": b"\n".join(
        [b"a0: &a0 {x: 1}"] + [b"a%d: &a%d [%s]" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 12)]
    ),
    "merges": b"\n".join(
        [b"a0: &a0 {}"] + [b"a%d: &a%d {<<: [%s]}" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 12)]
    ),
    "an alias to itself": b"a: &a [*a]",
    "a merge of itself": b"a: &a {<<: *a}",
    "too large": b"#" * (2**20 + 1),
}


@pytest.mark.parametrize("data", BOMBS.values(), ids=BOMBS)
def test_a_file_made_to_exhaust_the_reader_is_refused_within_seconds(data: bytes) -> None:
    """Whoever may write the ConfigMap must not be able to stop the controller with it."""
    began = time.monotonic()
    assert len(refused(data)) <= 101
    assert time.monotonic() - began < 10


def _mutated(text: str, *, at: int, length: int, insertion: str) -> str:
    return text[:at] + insertion + text[at + length :]


SHIPPED = default_policy().to_yaml()


@examples(500)
@given(
    st.lists(
        st.builds(
            dict,
            at=st.integers(0, len(SHIPPED)),
            length=st.integers(0, 12),
            insertion=st.sampled_from(
                ["", "\n", "  ", ": ", "- ", "&a ", "*a", "<<: ", "[", "}", "!!", "?", "|", "'", "1"]
            )
            | st.text(max_size=4),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_damaged_file_is_read_or_refused_never_anything_else(damages: list[dict[str, object]]) -> None:
    """A controller that polls its policy survives every half-written file; each problem's line exists."""
    text = SHIPPED
    for damage in damages:
        text = _mutated(text, **damage)  # type: ignore[arg-type]
    problems = _problems(text.encode("utf-8", "surrogatepass"))
    assert all(1 <= problem.line <= len(text.splitlines()) + 1 for problem in problems)
    assert all(f"{problem}".isprintable() for problem in problems)


def _problems(data: bytes) -> tuple[PolicyProblem, ...]:
    try:
        load_policy(data, source="policy.yaml")
    except PolicyError as error:
        return error.problems
    return ()


@given(st.binary(max_size=200))
def test_bytes_are_read_or_refused_never_anything_else(data: bytes) -> None:
    """The same for what was never YAML."""
    with pytest.raises(PolicyError):
        load_policy(data, source="policy.yaml")


@given(documents, st.data())
def test_the_line_of_a_problem_is_the_line_of_its_field(document: dict[str, object], data: st.DataObject) -> None:
    """Put one bad value anywhere into a good file: exactly that line and field are named."""
    lines = yaml.safe_dump({"spread": {"for": "1s"}} | document, sort_keys=False, allow_unicode=True).splitlines()
    candidates = [number for number, line in enumerate(lines) if line.endswith(("s", "m", "h")) and ": " in line]
    candidates = [number for number in candidates if lines[number].split(": ")[0].strip() in _DURATIONS]
    if not candidates:
        return
    chosen = data.draw(st.sampled_from(candidates))
    name = lines[chosen].split(": ")[0]
    lines[chosen] = f"{name}: 5 parsecs"
    with pytest.raises(PolicyError) as caught:
        load_policy("\n".join(lines).encode(), source="policy.yaml")
    (problem,) = caught.value.problems
    assert problem.line == chosen + 1
    assert problem.field.split(".")[-1] == name.strip()


_DURATIONS = {"interval", "planTTL", "for", "minAge", "settle"}


FRAGMENTS = (
    *(
        "a",
        "mode",
        ": ",
        "\n",
        "  ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "? ",
        "!!float ",
        "!!int ",
        "!!binary ",
        "!!set ",
        "!!bool ",
    ),
    *(
        "2026-13-45",
        "!!timestamp ",
        "&a ",
        "*a",
        "<<: ",
        "|",
        ">",
        "9" * 5000,
        "0x",
        "1:30",
        "\ud800",
        "'",
        '"',
        "\\U00110000",
    ),
    *(
        "%YAML 1.1\n",
        "%TAG ! tag:x\n",
        "---",
        "...",
        "\ufeff",
        "\x85",
        "\u2028",
        "groups: ",
        "interval: ",
        "selector: ",
    ),
)


@given(st.text() | st.lists(st.sampled_from(FRAGMENTS)).map("".join), st.sampled_from(["", HEAD]))
@example("2026-13-45", "")
@example("mode: !!float x", HEAD)
@example("interval: !!int", HEAD)
@example("? [a]: b", HEAD)
def test_text_is_read_or_refused_never_anything_else(text: str, header: str) -> None:
    """PyYAML raises more than its own errors for text that it cannot convert."""
    assert all(problem.line >= 1 for problem in _problems((header + text).encode("utf-8", "surrogatepass")))


@pytest.mark.parametrize("written", ["Off", '"Off"', "false"])
def test_off_is_the_mode_off_with_and_without_quotes(written: str) -> None:
    """YAML 1.1 reads an Off without quotes as false."""
    policy = load(f"{HEAD}capacity: {{mode: {written}}}\n")
    assert policy.capacity.mode is CapacityMode.OFF
    assert policy.hash == load(HEAD).hash


@pytest.mark.parametrize("written", ["true", "On", "off course", "0"])
def test_no_other_value_is_the_mode_off(written: str) -> None:
    assert refused(f"{HEAD}capacity: {{mode: {written}}}\n")


def test_an_error_has_a_line_for_each_problem_whatever_a_message_quotes() -> None:
    """The controller stores and reports it as text."""
    problems = PolicyProblem(1, "groups", "found a\nb"), PolicyProblem(2, "", "\x1b[2J")
    error = PolicyError(source="policy.yaml", problems=problems, unlisted=1)
    assert str(error).splitlines() == [
        "policy.yaml:1: groups: found a\\nb",
        "policy.yaml:2: \\x1b[2J",
        "policy.yaml: and 1 more",
    ]
