"""Random edits of policies, and which policy must be in force after each: computed from the edits, never by parsing.

An edit writes bytes whose meaning its maker knows. So the reference shares no code with the reader, the parser or the
merge: it only remembers what the last valid text of each place said.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

HEAD: Final = b"apiVersion: rebalancer.dev/v1alpha1\nkind: RebalancePolicy\n"
TEAM_HEAD: Final = b"apiVersion: rebalancer.dev/v1alpha1\nkind: TeamPolicy\n"
NAMESPACES: Final = ("pay", "shop", "team-a")
LISTS: Final = {"[]": (), "[shop]": ("shop",), "['*']": NAMESPACES, "['team-*', pay]": ("pay", "team-a")}
_CONFIGURATION: Final = b"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@dataclass(frozen=True)
class Meaning:
    """What a valid cluster policy says; `nonce` is its interval in seconds, another for each text."""

    mode: str
    nonce: int
    teams: tuple[str, ...] = ()


@dataclass(frozen=True)
class Edit:
    """The files of a mounted policy, None for a mount that is gone; what they mean, or the reason to be reported.

    A valid edit has a `meaning`; `reason` is part of the message about an invalid one.
    """

    name: str
    files: dict[str, bytes] | None
    meaning: Meaning | None = None
    reason: str = ""


@dataclass(frozen=True)
class TeamEdit:
    """The text of a team policy, None to delete it; its `perWorkload` if it is valid, None for no such budget."""

    name: str
    namespace: str
    text: str | None
    valid: bool
    budget: int | None = None


class Mount:
    """A ConfigMap volume as the kubelet keeps it: links to `..data`, a link that is exchanged as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.policy = folder / "policy.yaml"
        self._number = 0
        folder.mkdir()
        for name in ("policy.yaml", "scheduler.yaml"):
            (folder / name).symlink_to(f"..data/{name}")

    def write(self, files: dict[str, bytes] | None) -> None:
        """Exchange all files at once; None takes the whole mount away."""
        data = self.folder / "..data"
        if files is None:
            data.unlink(missing_ok=True)
            return
        self._number += 1
        version = self.folder / f"..{self._number}"
        version.mkdir()
        for name, content in files.items():
            (version / name).write_bytes(content)
        fresh = self.folder / "..data_tmp"
        fresh.symlink_to(version.name)
        fresh.rename(data)


Make = Callable[[Random, int, Path], Edit]


def _policy(mode: str, nonce: int, rest: str = "", teams: str = "[]") -> bytes:
    text = f"mode: {mode}\ninterval: {nonce}s\nteamPolicies: {{namespaces: {teams}}}\n{rest}"
    return HEAD + text.encode()


def _valid(random: Random, nonce: int, _: Path) -> Edit:
    mode, teams = random.choice(["Observe", "Approve", "Evict"]), random.choice(list(LISTS))
    rest = random.choice(["", "# äöü\n", "budgets: {perCycle: 7}\n", "groups: [{name: g, selector: {}}]\n"])
    text = _policy(mode, nonce, rest, teams)
    bom = random.choice([b"", b"\xef\xbb\xbf"])
    return Edit("valid", {"policy.yaml": bom + text}, Meaning(mode, nonce, LISTS[teams]))


def _observing(_: Random, nonce: int, __: Path) -> Edit:
    return Edit("observing", {"policy.yaml": _policy("Observe", nonce)}, Meaning("Observe", nonce))


def _with_scheduler(random: Random, nonce: int, folder: Path) -> Edit:
    text = _policy("Evict", nonce, f"scheduler: {{name: packer, configFile: {folder / 'scheduler.yaml'}}}\n")
    profile, reason = random.choice(
        [
            (_CONFIGURATION + b"profiles: [{schedulerName: packer}]\n", ""),
            (_CONFIGURATION + b"profiles: [{schedulerName: other}]\n", "has no profile 'packer'"),
            (b"\xff\xfe", "scheduler.configFile"),
            (b"[" * 3000, "scheduler.configFile"),
            (None, "scheduler.configFile"),
        ]
    )
    files = {"policy.yaml": text} if profile is None else {"policy.yaml": text, "scheduler.yaml": profile}
    return Edit("scheduler", files, None if reason else Meaning("Evict", nonce), reason)


def _broken(random: Random, nonce: int, _: Path) -> Edit:
    text = _policy("Evict", nonce)
    rest, reason = random.choice(
        [
            (b"mode: Observe\n", "mode: found twice"),
            (b"budget: {}\n", "budget: unknown field"),
            (b"planTTL: 5 parsecs\n", "planTTL: found"),
            (b"budgets: {perNode: -1}\n", "budgets.perNode"),
            (b"breaker: [\n", "not valid YAML"),
            (b"\tx: y\n", "not valid YAML"),
            (b"---\n" + HEAD, "a second document begins here"),
            (b"nodes: !!python/name:os.system x\n", "found the tag"),
            (b"spread: {for: 2026-13-45}\n", "spread.for"),
            (b"windows: [{schedule: '* * *', duration: 1h}]\n", "windows[0].schedule"),
        ]
    )
    return Edit("broken", {"policy.yaml": text + rest}, reason=reason)


def _undecodable(random: Random, nonce: int, _: Path) -> Edit:
    garbage = bytes(random.randrange(32, 127) for _ in range(random.randrange(50)))
    return Edit("undecodable", {"policy.yaml": _policy("Evict", nonce) + b"#" + garbage + b"\xff"}, reason="0xff")


def _binary(random: Random, _: int, __: Path) -> Edit:
    return Edit("binary", {"policy.yaml": b"\x80\x00" + random.randbytes(200)}, reason="found the byte 0x80")


def _empty(random: Random, _: int, __: Path) -> Edit:
    content = random.choice([b"", b"\n", b"# nothing\n", b"~\n"])
    return Edit("empty", {"policy.yaml": content}, reason="the file is empty")


def _other_kind(random: Random, _: int, __: Path) -> Edit:
    content, reason = random.choice([(TEAM_HEAD, "kind: found"), (b"- a\n", "found a list"), (b"text\n", "found text")])
    return Edit("other kind", {"policy.yaml": content}, reason=reason)


def _too_large(random: Random, nonce: int, _: Path) -> Edit:
    filler = b"#" * (1024 * 1024 + random.randrange(100))
    return Edit("too large", {"policy.yaml": _policy("Evict", nonce) + filler}, reason="expected at most 1,048,576")


def _bomb(_: Random, nonce: int, __: Path) -> Edit:
    return Edit("bomb", {"policy.yaml": _policy("Evict", nonce) + make_bomb()}, reason="more than 25,000 values")


def make_bomb() -> bytes:
    """Return YAML whose aliases mean a billion values."""
    levels = (f"a{level + 1}: &a{level + 1} [{', '.join([f'*a{level}'] * 10)}]\n" for level in range(9))
    return ("a0: &a0 x\n" + "".join(levels)).encode()


def _deep(random: Random, nonce: int, _: Path) -> Edit:
    opening = random.choice(["[", "{a: ", "- "])
    nested = f"groups: {opening * random.randrange(200, 2000)}" if opening != "- " else f"groups:\n  {opening * 200}x"
    return Edit("deep", {"policy.yaml": _policy("Evict", nonce) + nested.encode()}, reason="nested deeper than 32")


def _vanished(random: Random, _: int, __: Path) -> Edit:
    files = random.choice([None, {}, {"other.yaml": HEAD}])
    return Edit("vanished", files, reason="policy.yaml")


_MAKERS: Final[tuple[tuple[Make, int], ...]] = (
    (_valid, 10),
    (_observing, 3),
    (_with_scheduler, 4),
    (_broken, 6),
    (_undecodable, 2),
    (_binary, 1),
    (_empty, 1),
    (_other_kind, 1),
    (_too_large, 2),
    (_bomb, 2),
    (_deep, 2),
    (_vanished, 4),
)


@dataclass
class Edits:
    """Draws edits. Some write again what was written before: a rollback, or the text that is there already."""

    random: Random
    folder: Path
    _history: list[Edit] = field(default_factory=list)
    _nonce: int = 0

    def draw(self) -> Edit:
        """Return the next edit of the cluster policy."""
        if self._history and self.random.random() < 0.2:
            return self.random.choice(self._history[-20:])
        self._nonce += 1
        makers, weights = zip(*_MAKERS, strict=True)
        make: Make = self.random.choices(makers, weights)[0]
        edit = make(self.random, self._nonce, self.folder)
        self._history.append(edit)
        return edit

    def draw_team(self) -> TeamEdit:
        """Return the next edit of a team policy."""
        namespace, number = self.random.choice(NAMESPACES), self.random.randrange(10)
        head = TEAM_HEAD.decode()
        budget = head + f"budgets: {{perWorkload: {number}}}\n"
        limits = ", ".join(f"{{name: l{index}, topologyKey: k, maxPods: {index + 1}}}" for index in range(51))
        return self.random.choice(
            [
                TeamEdit("budget", namespace, budget, valid=True, budget=number),
                TeamEdit("budget", namespace, budget + "groups: []\n", valid=True, budget=number),
                TeamEdit("nothing", namespace, head, valid=True),
                TeamEdit("deleted", namespace, None, valid=True),
                TeamEdit("unknown field", namespace, budget + "mode: Evict\n", valid=False),
                TeamEdit(
                    "namespaces", namespace, head + "groups: [{name: g, selector: {}, namespaces: {}}]\n", valid=False
                ),
                TeamEdit(
                    "limits",
                    namespace,
                    head + f"groups: [{{name: g, selector: {{}}, limits: [{limits}]}}]\n",
                    valid=False,
                ),
                TeamEdit("bomb", namespace, head + make_bomb().decode(), valid=False),
                TeamEdit("deep", namespace, head + "groups: " + "[" * 500, valid=False),
                TeamEdit("too large", namespace, head + "#" * 65536, valid=False),
                TeamEdit("undecodable", namespace, head + "\ud800", valid=False),
                TeamEdit("empty", namespace, "", valid=False),
                TeamEdit("cluster policy", namespace, HEAD.decode() + "mode: Evict\n", valid=False),
            ]
        )


@dataclass
class Reference:
    """What must be in force: the last valid cluster policy, and the last valid policy of each team that was read."""

    meaning: Meaning
    reason: str = ""
    texts: dict[str, TeamEdit] = field(default_factory=dict)
    readings: dict[str, tuple[TeamEdit | None, bool]] = field(default_factory=dict)
    """By namespace: the last valid team policy, None if there was none, and whether the newest is valid."""

    def read(self, edit: Edit) -> None:
        """Take the cluster policy as it was read."""
        if edit.meaning is not None:
            self.meaning, self.reason = edit.meaning, ""
        else:
            self.reason = edit.reason

    def read_teams(self) -> None:
        """Take the team policies of the namespaces that the cluster policy lists; the others are forgotten."""
        readings: dict[str, tuple[TeamEdit | None, bool]] = {}
        for namespace in self.meaning.teams:
            edit = self.texts.get(namespace, TeamEdit("absent", namespace, None, valid=True))
            before = self.readings.get(namespace, (None, True))[0]
            readings[namespace] = (edit, True) if edit.valid else (before, False)
        self.readings = readings

    @property
    def invalid_teams(self) -> set[str]:
        """The namespaces whose team policy is not valid, of those that the cluster policy lists."""
        return {name for name, (_, valid) in self.readings.items() if not valid and name in self.meaning.teams}

    def expect_team(self, namespace: str) -> tuple[int | None, bool]:
        """Return the budget of a team that must be in force, and whether its namespace must be left alone."""
        if namespace not in self.meaning.teams or namespace not in self.readings:
            return None, False
        last, _ = self.readings[namespace]
        return (None, True) if last is None else (last.budget, False)
