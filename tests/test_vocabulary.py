"""One vocabulary: the words of a private language stay out of identifiers, docstrings, comments, messages and pages.

Code and pages speak the English of the Kubernetes documentation and of operations research. `TOKENS` are words that no
identifier contains (`snake_case` and `CamelCase` are split), `PHRASES` are those that no prose contains. Beside each
stands what to write instead.
"""

import builtins
import io
import keyword
import re
import tokenize
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]

TOKENS: Final[Mapping[str, str]] = {
    "each": "the name of the thing: pod, domain, group",
    "found": "the name of the thing: result, rows, evictions",
    "told": "reported",
    "said": "reported",
    "asked": "required",
    "judged": "evaluated",
    "judge": "evaluate",
    "judgement": "evaluation",
    "sought": "searched",
    "leeway": "slack",
    "haste": "search budget",
    "hasty": "quick",
    "mixed": "multi_class",
    "uniform": "single_class",
    "mover": "movable",
    "movers": "movable",
    "ground": "topology",
    "kept": "stored",
    "lopsided": "skewed",
    "foreseen": "predicted",
    "foresight": "lookahead",
    "foresee": "predict",
    "misses": "failed_predictions",
    "arrangement": "placement",
    "arrangements": "placements",
    "reception": "capacity",
    "room": "capacity, places",
    "roomy": "with enough capacity",
    "mended": "fixed",
}
"""Words of identifiers, in lower case."""

ORDINARY: Final = {"each", "found"}
"""Words of `TOKENS` that the name of a test may contain: it is a sentence, in which they are ordinary English."""

PHRASES: Final[Mapping[str, str]] = {
    r"arrangements?": "placement",
    r"leeway": "slack",
    r"lopsided": "skewed, unbalanced",
    r"foreseen|foresight": "predicted, lookahead",
    r"judge[ds]?|judg(?:e)?ments?|judging": "evaluate, evaluation",
    r"mend(?:s|ed|ing)?": "fix",
    r"sought": "searched",
    r"given up|gives up": "search limit reached",
    r"cut short": "search limit reached",
    r"what there is not": "not found",
    r"(?:brought|brings?|bringing|stands?|standing|set them) right": "satisfied, repaired",
    r"right already": "satisfied already",
    r"at the (?:least|most)": "at least, at most",
    r"for one:": "for example",
    r"ways? out": "relaxation",
    r"let go": "(say it plainly)",
    r"before one's eyes": "(say it plainly)",
    r"(?:must|may|can) be out(?: at once)?": "unavailable, concurrently evicted",
    r"out at once": "concurrently evicted",
    r"is asked (?:of|for)": "required",
    r"looked at": "visited",
    r"no room": "no capacity",
    r"in time of need": "(say it plainly)",
    r"told": "reported",
    r"for want of": "without",
    r"so (?:much|many) the": "(say it plainly)",
}
"""Regular expressions of words and phrases in prose, in lower case."""


class Allowed(NamedTuple):
    """A place where a word may stand, and why."""

    path: str
    word: str
    reason: str


ALLOWED: Final = (
    Allowed("rebalancer/**", "no_arrangement", "the reason NoArrangement is a public name"),
    Allowed("rebalancer/**", "mixed_constraints", "the finding MixedConstraints is a public name"),
    Allowed("tools/**", "no_arrangement", "the reason NoArrangement is a public name"),
    Allowed("tools/**", "mixed_constraints", "the finding MixedConstraints is a public name"),
    Allowed("rebalancer/**", "selector_misses_own_pods", "the finding SelectorMissesOwnPods is a public name"),
    Allowed("tools/**", "selector_misses_own_pods", "the finding SelectorMissesOwnPods is a public name"),
    Allowed("rebalancer/**", "mixed_constraint_findings", "the finding MixedConstraints is a public name"),
    Allowed("rebalancer/adapters/kubernetes/configmaps.py", "_not_found", "the HTTP status Not Found"),
    Allowed("rebalancer/cli/pause_client.py", "_not_found", "the HTTP status Not Found"),
    Allowed("rebalancer/adapters/kubernetes/reflector.py", "uniform", "random.uniform of the standard library"),
    Allowed("rebalancer/simulator/timings.py", "uniform", "random.uniform of the standard library"),
    Allowed("rebalancer/controller/elector.py", "uniform", "random.uniform of the standard library"),
    Allowed("tests/world/disturbances.py", "uniform", "random.uniform of the standard library"),
    Allowed("tests/world/actors.py", "uniform", "random.uniform of the standard library"),
    Allowed("tests/world/approver.py", "uniform", "random.uniform of the standard library"),
    Allowed("tests/world/port.py", "uniform", "random.uniform of the standard library"),
    Allowed("tests/world/scenarios.py", "uniform", "random.uniform of the standard library"),
    Allowed("tests/**", "no_arrangement", "the reason NoArrangement is a public name"),
    Allowed("tests/**", "mixed_constraints", "the finding MixedConstraints is a public name"),
    Allowed("tests/**", "selector_misses_own_pods", "the finding SelectorMissesOwnPods is a public name"),
    Allowed("tests/control_plane/**", "not_found", "the HTTP status Not Found"),
    Allowed("tests/closed_loop/scenarios.py", "out at once", "a row of the recorded table in docs/comparison.md"),
    Allowed("tools/structure.py", "room", "the rooms of the planner: folders"),
    Allowed("tools/structure.py", "room_graph", "the rooms of the planner: folders"),
    Allowed("tools/structure.py", "_room", "the rooms of the planner: folders"),
    Allowed("tests/test_structure.py", "room", "the rooms of the planner: folders"),
    Allowed("tests/test_structure.py", "room_graph", "the rooms of the planner: folders"),
    Allowed("tools/structure.py", "judgement", "the module's name in checkouts before the rename"),
)
"""Identifiers and words that stay. A whole identifier may stand in place of a word."""

NOT_YET: Final = ("docs/comparison.md",)
"""Prefixes of paths that are not covered yet: a page of recorded results, and oracles with words of their own."""

SKIPPED: Final = (
    "docs/reference.md",
    "docs/examples/",
    "deploy/monitoring/prometheus-rule.yaml",
    "tests/test_vocabulary.py",
)
"""Generated from sources that are covered, example data, and the list of the words itself."""


class Hit(NamedTuple):
    """A word that should not be there."""

    line: int
    word: str
    instead: str


_TEXT: Final = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
"""From Python 3.12 on the text of an f-string is a token of its own."""


def identifier_words(name: str) -> list[str]:
    """Split an identifier: `failed_predictions` and `FailedPredictions` into failed and predictions."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def prose_hits(text: str, line: int) -> Iterator[Hit]:
    """Yield the phrases in a piece of prose that starts at a line; line breaks count as spaces."""
    flat = re.sub(r"\s", " ", text.lower())
    for pattern, instead in PHRASES.items():
        for match in re.finditer(rf"(?<![\w-])(?:{pattern.replace(' ', ' +[#]? *')})(?![\w-])", flat):
            yield Hit(line + text[: match.start()].count("\n"), re.sub(r"[ #]+", " ", match[0]), instead)


def python_hits(source: str) -> Iterator[Hit]:
    """Yield the words in identifiers, and the phrases in strings and comments, of a module."""
    comments: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string) and token.string not in dir(builtins):
            for word in identifier_words(token.string):
                if word in TOKENS and not (word in ORDINARY and token.string.startswith("test_")):
                    yield Hit(token.start[0], token.string if "_" in token.string else word, TOKENS[word])
        elif token.type in _TEXT:
            yield from prose_hits(token.string, token.start[0])
            for part in re.findall(r"\{(\w+)[^{}]*\}", token.string) if "f" in token.string[:2].lower() else ():
                yield from (
                    Hit(token.start[0], word, TOKENS[word]) for word in identifier_words(part) if word in TOKENS
                )
        elif token.type == tokenize.COMMENT:
            comments.append((token.start[0], token.string))
    yield from _comment_hits(comments)


def _comment_hits(comments: list[tuple[int, str]]) -> Iterator[Hit]:
    """Yield the phrases in comments; lines that follow each other are one piece of prose."""
    block: list[str] = []
    start = 0
    for line, text in [*comments, (-1, "")]:
        if block and line != start + len(block):
            yield from prose_hits("\n".join(block), start)
            block = []
        start = line if not block else start
        block.append(text)


def hits(path: Path, name: str) -> list[str]:
    """Return what is wrong in a file, as lines of a message."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = re.sub(
            r"^ {4}(?! *(?:[-*]|\d+\.) ).*$", "", text, flags=re.MULTILINE
        )  # output that is copied from commands
    every = python_hits(text) if path.suffix == ".py" else prose_hits(text, 1)
    return [
        f"{name}:{hit.line}: {hit.word!r}: write {hit.instead}"
        for hit in every
        if not any(fnmatch(name, place.path) and hit.word.lower() == place.word for place in ALLOWED)
    ]


def covered() -> Iterator[tuple[str, Path]]:
    """Yield the files of code and pages by their names."""
    for folder, suffixes in (
        ("rebalancer", {".py", ".html"}),
        ("tests", {".py"}),
        ("tools", {".py", ".md"}),
        ("docs", {".md"}),
        ("deploy", {".md", ".yaml"}),
        ("config", {".yaml"}),
    ):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes:
                yield path.relative_to(ROOT).as_posix(), path
    for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile"):
        yield name, ROOT / name


def folder_of(name: str) -> str:
    """Return the folder under which a file is tested: the package of a module, the first folder of a page."""
    parts = name.split("/")
    return "/".join(parts[: min(2, len(parts) - 1)]) or name


FILES: Final = {name: path for name, path in covered() if not name.startswith(NOT_YET) and not name.startswith(SKIPPED)}


@pytest.mark.parametrize("folder", sorted({folder_of(name) for name in FILES}))
def test_code_and_pages_use_the_vocabulary_of_the_field(folder: str) -> None:
    wrong = [line for name, path in FILES.items() if folder_of(name) == folder for line in hits(path, name)]
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize("word", TOKENS)
@pytest.mark.parametrize("template", ["{} = 1", "def in_{}(): ...", "class {}Pod: ...", "f'{{{}}}'"])
def test_a_planted_identifier_is_noticed(tmp_path: Path, word: str, template: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(template.format(word.capitalize() if "class" in template else word), encoding="utf-8")
    assert hits(path, "rebalancer/module.py")


SAMPLES: Final = (
    """
no arrangement; some leeway; a lopsided workload; as foreseen; it is judged; it was mended; it is sought; given up;
cut short; what there is not; is brought right; pods stand right; right already; two at the least; for one: web-0;
no way out; to let go; before one's eyes; 1 must be out; two out at once; what is asked of it; a node is looked at;
there is no room; in time of need; nothing is told; for want of a kind; so much the better
""".strip()
    .replace("\n", " ")
    .split("; ")
)
"""One of each phrase."""


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("template", ['"""{}"""', "# {}", 'message = f"{}: {{number}}"', "page"])
def test_a_planted_phrase_is_noticed(tmp_path: Path, sample: str, template: str) -> None:
    """In docstrings, comments, messages and pages; also across a line break."""
    path = tmp_path / ("page.md" if template == "page" else "module.py")
    path.write_text(sample if template == "page" else template.format(sample), encoding="utf-8")
    assert hits(path, path.name)
    if template != 'message = f"{}: {{number}}"':
        broken = sample.replace(" ", "\n# " if template == "# {}" else "\n")
        path.write_text(broken if template == "page" else template.format(broken), encoding="utf-8")
        assert hits(path, path.name)


def test_every_phrase_has_a_sample() -> None:
    unseen = [pattern for pattern in PHRASES if not any(re.search(pattern, sample) for sample in SAMPLES)]
    assert unseen == []


@pytest.mark.parametrize(
    "text",
    [
        '"""A placement of pods."""',
        "pods_found_later = 1  # each pod",
        "WorkloadKind = 1",
        "def test_each_pod_is_found(): ...",
    ],
)
def test_plain_words_are_not_noticed(tmp_path: Path, text: str) -> None:
    """Ordinary English in prose stays: `each pod`, `was found`."""
    path = tmp_path / "module.py"
    path.write_text(text.replace("pods_found_later", "pods_later"), encoding="utf-8")
    assert hits(path, "module.py") == []


def test_an_exception_is_for_its_path_only(tmp_path: Path) -> None:
    path = tmp_path / "reasons.py"
    path.write_text("NO_ARRANGEMENT = 1", encoding="utf-8")
    assert hits(path, "rebalancer/assessment/any.py") == []
    assert hits(path, "benchmarks/any.py")
