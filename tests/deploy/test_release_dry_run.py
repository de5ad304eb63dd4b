"""The release workflow, run without a network: what it builds, pins, signs and publishes, and what stops it."""

import hashlib
import re
import tarfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer import __version__
from tests.control_plane.build import MissingPart
from tests.deploy.dry_run import STAND_INS, DryRun, StepFailed, missing_programs
from tests.deploy.manifests import ROOT
from tests.deploy.rendering import program, require_programs
from tests.drawing import sampled
from tests.monitoring.programs import or_skip
from tools import release

WORKFLOW = ROOT / ".github" / "workflows" / "release.yaml"
REPOSITORY = "ghcr.io/example/rebalancer"
WHEEL, CHART = f"rebalancer-{__version__}-py3-none-any.whl", f"rebalancer-{__version__}.tgz"
ELSEWHERE = ("Install what the lock names", "Lint")
"""Steps that install and check what the tests themselves run with."""


def dry_run(folder: Path, tag: str = f"v{__version__}", failing: str = "nothing", text: str = "") -> DryRun:
    """Prepare a run of the workflow, or of another `text`; skipped where a runner's programs are missing."""
    if missing := missing_programs():
        or_skip(MissingPart(f"the scripts of workflows need {', '.join(missing)}"))
    require_programs("helm")
    text = text or WORKFLOW.read_text(encoding="utf-8")
    return DryRun(text, folder, tag=tag, helm=program("helm"), failing=failing, skipped=ELSEWHERE)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> DryRun:
    done = dry_run(tmp_path_factory.mktemp("release"))
    done.run()
    return done


def arguments(entry: Mapping[str, Any]) -> list[str]:
    return list(entry["arguments"])


def build(run: DryRun) -> Mapping[str, Any]:
    """Return the call that built the image."""
    (built,) = (entry for entry in run.asked("docker") if arguments(entry)[:2] == ["buildx", "build"])
    return built


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def image_digest(run: DryRun) -> str:
    """Return the digest that the registry's stand-in gave the image: that of the Dockerfile it was built from."""
    return sha256((Path(build(run)["folder"]) / "Dockerfile").read_bytes())


def test_what_is_left_out_is_what_other_lanes_run() -> None:
    steps = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["build"]["steps"]
    assert [step["run"] for step in steps if step.get("name") in ELSEWHERE] == ["make install", "make lint"]


def test_a_release_has_wheel_chart_manifest_plugin_and_sbom(run: DryRun) -> None:
    """All on the release's page, under the tag; the package index is given the wheel, and nothing else."""
    (created,) = map(arguments, run.asked("gh"))
    assert created[:3] == ["release", "create", f"v{__version__}"]
    assert "--verify-tag" in created
    files = {name.removeprefix("dist/") for name in created if name.startswith("dist/")}
    assert files == {WHEEL, CHART, "install.yaml", "rebalance.tar.gz", "rebalance.yaml", "sbom.json"}
    assert run.published == [WHEEL]


def test_the_image_is_built_from_pinned_bases_and_says_where_it_comes_from(run: DryRun) -> None:
    """Every argument of the Dockerfile has a value; times are those of the commit; it is pushed under its version."""
    inspected = [arguments(entry)[3] for entry in run.asked("docker") if "inspect" in entry["arguments"]]
    last, first = release.base_images()
    assert inspected == [last, first]
    pinned = release.base_images(Path(build(run)["folder"]))
    assert pinned == [f"{image}@{sha256(image.encode())}" for image in (last, first)]
    options = arguments(build(run))
    pairs = list(pairwise(options))
    given = dict(value.split("=", 1) for option, value in pairs if option == "--build-arg")
    assert given.keys() == set(re.findall(r"^ARG (\w+)=", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE))
    assert (given["VERSION"], given["SOURCE"]) == (__version__, "https://host.example/Example/rebalancer")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", given["CREATED"])
    assert given["BASE_DIGEST"] == sha256(last.encode())
    assert ("--output", "type=registry,rewrite-timestamp=true") in pairs
    assert ("--tag", f"{REPOSITORY}:{__version__}") in pairs


def test_what_is_published_is_signed_by_its_digest(run: DryRun) -> None:
    """The image, its list of contents, and the chart; nothing by a tag."""
    sign, attest, chart = map(arguments, run.asked("cosign"))
    image = f"{REPOSITORY}@{image_digest(run)}"
    assert (sign[0], sign[-1], attest[0], attest[-1]) == ("sign", image, "attest", image)
    assert ("--predicate", "dist/sbom.json") in pairwise(attest)
    (pushed,) = (arguments(entry) for entry in run.asked("helm") if arguments(entry)[0] == "push")
    assert pushed[1:] == [f"dist/{CHART}", f"oci://{REPOSITORY}/charts"]
    packed = sha256((run.artifact("published") / CHART).read_bytes())
    assert chart == ["sign", "--yes", f"{REPOSITORY}/charts/rebalancer@{packed}"]


def test_chart_and_manifest_name_the_image_by_its_digest(run: DryRun) -> None:
    files, digest = run.artifact("published"), image_digest(run)
    with tarfile.open(files / CHART) as archive:
        member = archive.extractfile("rebalancer/values.yaml")
        assert member is not None
        values = yaml.safe_load(member.read())["image"]
    assert (values["repository"], values["digest"]) == (REPOSITORY, digest)
    assert f"image: {REPOSITORY}@{digest}\n" in (files / "install.yaml").read_text(encoding="utf-8")
    address = f"https://host.example/Example/rebalancer/releases/download/v{__version__}/rebalance.tar.gz"
    plugin = yaml.safe_load((files / "rebalance.yaml").read_text(encoding="utf-8"))
    assert {platform["uri"] for platform in plugin["spec"]["platforms"]} == {address}


def test_only_who_needs_the_token_has_it_and_not_on_the_command_line(run: DryRun) -> None:
    """There every process of the machine could read it."""
    calls = [entry for name in STAND_INS for entry in run.asked(name)]
    assert not any("secrets" in argument for entry in calls for argument in entry["arguments"])
    given = {
        " ".join(entry["arguments"][:2]): entry["secret"].strip() for entry in calls if entry["secret"] is not None
    }
    logins = {"login ghcr.io", "registry login"}
    assert given == dict.fromkeys({*logins, "release create"}, "<secrets.GITHUB_TOKEN>")
    for job in run.jobs.values():
        assert "secrets" not in str(job.get("env"))


def test_what_the_runner_would_heed_and_this_does_not_is_refused(tmp_path: Path) -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    for number, (old, new) in enumerate(
        (
            ("      - name: Lint\n", "      - name: Lint\n        if: false\n"),
            ("    needs: build\n", "    needs: build\n    continue-on-error: true\n"),
            ("actions/checkout@", "actions/cache@"),
        )
    ):
        assert old in text
        with pytest.raises(NotImplementedError):
            dry_run(tmp_path / str(number), text=text.replace(old, new))


def test_a_tag_of_another_version_publishes_nothing(tmp_path: Path) -> None:
    run = dry_run(tmp_path, tag="v9.9.9")
    with pytest.raises(StepFailed, match="The tag is the version"):
        run.run()
    assert run.asked("docker") == run.asked("gh") == []


@pytest.mark.parametrize(
    ("failing", "step"),
    sampled(
        [
            ("helm push", "Publish and sign the chart"),
            ("docker buildx imagetools", "Base images by digest"),
            ("docker buildx build", "Build and push"),
            ("cosign", "Sign the image"),
        ]
    ),
)
def test_what_fails_stops_it_before_anything_follows(run: DryRun, tmp_path: Path, failing: str, step: str) -> None:
    """Nothing is signed that was not pushed, and no page is made of a release that is not complete."""
    stopped = dry_run(tmp_path, failing=failing)
    with pytest.raises(StepFailed, match=step):
        stopped.run(after=run)
    assert (stopped.asked("gh"), stopped.published) == ([], [])
    if failing.startswith("docker"):
        assert stopped.asked("cosign") == []
    if failing == "helm push":
        assert len(stopped.asked("cosign")) == 2
