"""What is published: images by digest, by pinned actions with the least permissions, with a list of its contents."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rebalancer import __version__
from tests.deploy.manifests import DEPLOY, ROOT, documents
from tools import release, sbom

WORKFLOW = ROOT / ".github" / "workflows" / "release.yaml"
DIGEST = "sha256:" + "0123456789abcdef" * 4
REPOSITORY = "registry.example/platform/rebalancer"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy what the release workflow changes."""
    for name in ("Dockerfile", release.VALUES, release.OVERLAY, *release.MANIFESTS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_nothing_is_published_before_every_image_has_a_digest(copy: Path) -> None:
    """The repository itself has none, and fails its check; what the workflow does satisfies it, step by step."""
    problems = list(release.find_problems(copy))
    assert len(problems) == 2 + len(release.MANIFESTS) + 1
    assert release.main(["check"]) == 1
    for image in release.base_images(copy):
        release.pin(image, DIGEST, copy)
    assert len(list(release.find_problems(copy))) == len(release.MANIFESTS) + 1
    release.set_image(REPOSITORY, DIGEST, copy)
    assert list(release.find_problems(copy)) == []


def test_the_published_image_is_named_everywhere(copy: Path) -> None:
    """No manifest is left with the name that exists nowhere, and nothing else has changed."""
    release.set_image(REPOSITORY, DIGEST, copy)
    for name in release.MANIFESTS:
        before, after = ((root / name).read_text(encoding="utf-8").splitlines() for root in (ROOT, copy))
        changed = {new for old, new in zip(before, after, strict=True) if old != new}
        assert {line.strip() for line in changed} == {f"image: {REPOSITORY}@{DIGEST}"}
    values = yaml.safe_load((copy / release.VALUES).read_text(encoding="utf-8"))["image"]
    assert (values["repository"], values["digest"]) == (REPOSITORY, DIGEST)
    (overlay,) = documents(copy / release.OVERLAY)
    assert overlay["images"][0]["name"] == REPOSITORY
    named = {
        file.relative_to(ROOT).as_posix()
        for file in DEPLOY.rglob("*.yaml")
        if re.search(r"^ +image: rebalancer:", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named == set(release.MANIFESTS)


@pytest.mark.parametrize("digest", ["", "latest", "sha256:abc", DIGEST + "0"])
def test_what_is_no_digest_is_refused(copy: Path, digest: str) -> None:
    with pytest.raises(ValueError, match="expected sha256"):
        release.pin(release.base_images(copy)[0], digest, copy)
    with pytest.raises(ValueError, match="expected sha256"):
        release.set_image(REPOSITORY, digest, copy)
    with pytest.raises(ValueError, match="has no base image"):
        release.pin("python:2.7", DIGEST, copy)


def test_every_page_and_manifest_names_the_image_of_this_version() -> None:
    """What people copy from a page is what they have built."""
    files = [ROOT / "README.md", *DEPLOY.rglob("*.md"), *DEPLOY.rglob("*.yaml"), *(ROOT / "docs").glob("*.md")]
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    tags = {tag for text in texts.values() for tag in re.findall(r"rebalancer:(\d+\.\d+\.\d+)", text)}
    assert tags == {__version__}


def zizmor(folder: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("zizmor")
    return subprocess.run(
        [program, "--offline", "--quiet", "--persona=pedantic", folder], capture_output=True, text=True, check=False
    )


def test_the_workflow_is_safe(tmp_path: Path) -> None:
    """No finding; but one for an action by tag, for permissions of all jobs, and for text that others can choose."""
    assert zizmor(ROOT / ".github").returncode == 0
    text = WORKFLOW.read_text(encoding="utf-8")
    for old, new in (
        (r"actions/checkout@\S+ # v4.2.2", "actions/checkout@v4"),
        (r"permissions: \{\}", "permissions: write-all"),
        (r'"v\$\(\.venv', r'"${{ github.ref_name }}$(.venv'),
    ):
        changed, count = re.subn(old, new, text, count=1)
        assert count == 1, old
        (tmp_path / "release.yaml").write_text(changed)
        assert zizmor(tmp_path / "release.yaml").returncode != 0, old


WORKFLOWS = ("ci.yaml", "control-plane.yaml", "nightly.yaml", "release.yaml")


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_action_is_pinned_and_no_job_has_a_permission_without_its_reason(name: str) -> None:
    text = WORKFLOW.with_name(name).read_text(encoding="utf-8")
    assert {file.name for file in WORKFLOW.parent.iterdir()} == set(WORKFLOWS)
    workflow = yaml.safe_load(text)
    uses = re.findall(r"uses: (\S+)( # v[\d.]+)?$", text, re.MULTILINE)
    assert uses
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) and version for action, version in uses)
    assert workflow["permissions"] == {}
    for line in re.findall(r"^      \w[\w-]*: (?:read|write).*$", text, re.MULTILINE):
        assert " # " in line
    assert all(set(job["permissions"].values()) <= {"read", "write"} for job in workflow["jobs"].values())


def test_changes_are_tested_on_what_is_supported() -> None:
    """Every Kubernetes that there is a module for, every Python from the oldest on; and they may only read."""
    workflow = yaml.safe_load(WORKFLOW.with_name("ci.yaml").read_text(encoding="utf-8"))
    jobs = workflow["jobs"]
    folders = (ROOT / "tools" / "control-plane").glob("kubernetes-*")
    older = {folder.name.removeprefix("kubernetes-") for folder in folders}
    assert set(jobs["cluster"]["strategy"]["matrix"]["kubernetes"]) == {"", *older}
    pythons = jobs["test"]["strategy"]["matrix"]["python"]
    assert f'requires-python = ">={pythons[0]}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert [int(python.removeprefix("3.")) for python in pythons] == list(range(11, 11 + len(pythons)))
    assert all(job["permissions"] == {"contents": "read"} for job in jobs.values())


def test_every_long_check_runs_at_night() -> None:
    """`make thorough`, in parts: every file with such a test, and every target that it makes."""
    jobs = yaml.safe_load(WORKFLOW.with_name("nightly.yaml").read_text(encoding="utf-8"))["jobs"]
    parts = " ".join(jobs["thorough"]["strategy"]["matrix"]["tests"]).split()
    assert all((ROOT / part).exists() for part in parts)
    marked = [file for file in (ROOT / "tests").rglob("*.py") if re.search(r"mark\.thorough", file.read_text("utf-8"))]
    names = {file.relative_to(ROOT).as_posix() for file in marked if file != Path(__file__)}
    assert len(names) > 50
    assert {name for name in names if not name.startswith(tuple(parts))} == set()
    step = jobs["thorough"]["steps"][-1]["run"]
    assert '-m "thorough and not nightly"' in step, "those that take no minutes are a target of their own"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^thorough:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    targets = re.findall(r"\$\(MAKE\) --no-print-directory (\S+)$", recipe, re.MULTILINE)
    assert targets == jobs["others"]["strategy"]["matrix"]["target"]


def test_the_sbom_is_what_the_lock_has_for_the_image(tmp_path: Path) -> None:
    """CycloneDX, with name, version, address and a hash of each package; one of another Python is not there."""
    file = tmp_path / "sbom.json"
    sbom.write(file)
    document = json.loads(file.read_text(encoding="utf-8"))
    about = document["metadata"]["component"]
    assert (document["bomFormat"], about["name"], about["version"]) == ("CycloneDX", "rebalancer", __version__)
    listed = {entry["purl"] for entry in document["components"]}
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pinned = re.findall(r"^([\w.-]+)==([^ ]+)( ; python_full_version < .*)?", lock, re.MULTILINE)
    assert {len(older) > 0 for *_, older in pinned} == {True, False}
    assert listed == {f"pkg:pypi/{name}@{version}" for name, version, older in pinned if not older}
    assert all("SHA-256" in json.dumps(entry) for entry in document["components"])


def test_the_image_says_where_it_comes_from() -> None:
    """The labels of the Open Container Initiative; the workflow fills in what only it knows."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    labels = set(re.findall(r"org\.opencontainers\.image\.([\w.]+)=", text))
    assert labels >= {
        "title",
        "description",
        "licenses",
        "vendor",
        "url",
        "source",
        "base.name",
        "base.digest",
        "created",
        "version",
        "revision",
    }
    arguments = set(re.findall(r"^ARG (\w+)=", text, re.MULTILINE))
    assert arguments == {"VERSION", "REVISION", "CREATED", "BASE_DIGEST", "SOURCE"}
    assert set(re.findall(r'--build-arg "(\w+)=', WORKFLOW.read_text(encoding="utf-8"))) == arguments
