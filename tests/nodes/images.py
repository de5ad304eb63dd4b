"""Archives of the images that the nodes import: the controller's, and one that does nothing, in place of pause."""

import subprocess
from pathlib import Path
from typing import Final

from rebalancer import __version__
from tools.image.build import Images

NAME: Final = f"rebalancer:{__version__}"
NEXT: Final = "rebalancer:0.1.1"
"""The same program by another name, and with another label, so that it is another image."""
PAUSE: Final = "registry.k8s.io/pause:3.10.1"


def make_archives(folder: Path) -> dict[str, Path]:
    """Build the images and write an archive of each; return them by the images' names."""
    with Images() as images:
        images.build(NAME)
        container = images.buildah("from", "--pull-never", NAME)
        images.buildah("config", "--label", "next=true", container)
        images.buildah("commit", "--quiet", container, NEXT)
        program = folder / "pause"
        source = Path(__file__).with_name("pause.c")
        subprocess.run(["gcc", "-static", "-O2", "-o", program, source], check=True)
        container = images.buildah("from", "--pull-never", "scratch")
        images.buildah("add", "--quiet", container, str(program), "/pause")
        images.buildah("config", "--entrypoint", '["/pause"]', "--user", "65535", container)
        images.buildah("commit", "--quiet", container, PAUSE)
        names = {NAME: f"docker.io/library/{NAME}", NEXT: f"docker.io/library/{NEXT}", PAUSE: PAUSE}
        for number, (name, whole) in enumerate(names.items()):
            images.buildah("push", "--quiet", name, f"docker-archive:{folder}/image-{number}.tar:{whole}")
    return {name: folder / f"image-{number}.tar" for number, name in enumerate(names)}
