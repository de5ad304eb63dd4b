"""Changes of the release workflow before it publishes: images by digest, instead of by names that can be moved.

    python -m tools.release base-images              # the base images of the Dockerfile, one a line
    python -m tools.release pin IMAGE DIGEST         # names a base image by digest
    python -m tools.release image REPOSITORY DIGEST  # names the published image in chart and manifests
    python -m tools.release check                    # exits 1 unless all of that has been done

In the repository no image has a digest: otherwise nobody could build or test a version before it is published. So
`check` fails there. This module needs only the standard library, since it runs where signatures are made.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
MANIFESTS: Final = (
    "deploy/base/deployment.yaml",
    "deploy/chart/rebalancer/Chart.yaml",
    "deploy/cleanup/job.yaml",
    "deploy/gitops/check/job.yaml",
    "deploy/install.yaml",
)
VALUES: Final = "deploy/chart/rebalancer/values.yaml"
OVERLAY: Final = "deploy/overlays/production/kustomization.yaml"

_FROM: Final = re.compile(r"^FROM (?:--platform=\S+ )?(?P<image>\S+)(?: AS (?P<stage>\S+))?", re.MULTILINE)
_IMAGE: Final = re.compile(r"^(?P<before> +image: )(?P<image>(?:\S+/)?rebalancer[:@]\S+)$", re.MULTILINE)
_REPOSITORY: Final = re.compile(r"^(?P<before>  repository: )(?P<value>\S+)$", re.MULTILINE)
_DIGEST: Final = re.compile(r"^(?P<before>  digest: )(?P<value>\S+)$", re.MULTILINE)
_BY_DIGEST: Final = re.compile(r"\S+@sha256:[0-9a-f]{64}\Z")
_ONLY_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}\Z")


def base_images(root: Path = ROOT) -> list[str]:
    """Return the base images in the order of the Dockerfile's stages; a stage that another begins with is none."""
    stages = list(_FROM.finditer(_read(root, "Dockerfile")))
    own = {stage["stage"] for stage in stages}
    return [stage["image"] for stage in stages if stage["image"] not in own]


def pin(image: str, digest: str, root: Path = ROOT) -> None:
    """Name a base image by its digest, with the tag before it for readers."""
    _check_digest(digest)
    text = _read(root, "Dockerfile")
    line = re.compile(rf"^(?P<before>FROM (?:--platform=\S+ )?){re.escape(image)}(?!\S)", re.MULTILINE)
    pinned, count = line.subn(rf"\g<before>{image}@{digest}", text)
    if not count:
        raise ValueError(f"the Dockerfile has no base image {image}")
    _write(root, "Dockerfile", pinned)


def set_image(repository: str, digest: str, root: Path = ROOT) -> None:
    """Name the published image in every manifest and in the chart's values."""
    _check_digest(digest)
    for name in MANIFESTS:
        _write(root, name, _IMAGE.sub(rf"\g<before>{repository}@{digest}", _read(root, name)))
    values = _REPOSITORY.sub(rf"\g<before>{repository}", _read(root, VALUES))
    _write(root, VALUES, _DIGEST.sub(rf"\g<before>{digest}", values))
    _write(root, OVERLAY, _read(root, OVERLAY).replace("- name: rebalancer\n", f"- name: {repository}\n"))


def find_problems(root: Path = ROOT) -> Iterator[str]:
    """Yield every image that is not named by its digest."""
    for image in base_images(root):
        if not _BY_DIGEST.match(image):
            yield f"Dockerfile: base image {image} has no digest"
    for name in MANIFESTS:
        for match in _IMAGE.finditer(_read(root, name)):
            if not _BY_DIGEST.match(match["image"]):
                yield f"{name}: image {match['image']} has no digest"
    (digest,) = (match["value"] for match in _DIGEST.finditer(_read(root, VALUES)))
    if not _ONLY_DIGEST.match(digest):
        yield f"{VALUES}: image.digest is {digest}"


def _check_digest(digest: str) -> None:
    if not _ONLY_DIGEST.match(digest):
        raise ValueError(f"found {digest!r}, expected sha256: and 64 hexadecimal digits")


def _read(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


def _write(root: Path, name: str, text: str) -> None:
    (root / name).write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do one of these."""
    parser = argparse.ArgumentParser(prog="python -m tools.release")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("base-images")
    verbs.add_parser("check")
    for verb, first in (("pin", "image"), ("image", "repository")):
        child = verbs.add_parser(verb)
        child.add_argument(first)
        child.add_argument("digest")
    options = parser.parse_args(arguments)
    match options.verb:
        case "base-images":
            print("\n".join(base_images()))
        case "pin":
            pin(options.image, options.digest)
        case "image":
            set_image(options.repository, options.digest)
        case _:
            problems = list(find_problems())
            print("\n".join(problems) or "Every image is named by its digest.", file=sys.stderr)
            return 1 if problems else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
