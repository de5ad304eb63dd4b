"""The site of the documents: it is built without a warning and without a network, and what is wrong ends the build."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from tests.cluster.browser import browser, opened
from tests.pages import PAGES_BY_HAND, ROOT

BUILD = (sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet")
PAGE = "# A page\n\n[link](other.md#a-heading), [file](file.yaml)\n"
OTHER = "# Another page\n\n## A heading\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site of this repository, as `make site` does, through a proxy that does not exist."""
    folder = tmp_path_factory.mktemp("site")
    command = [*BUILD, "--conf-dir", str(ROOT / "tools" / "site"), str(ROOT), str(folder)]
    nowhere = "http://127.0.0.1:9"
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={"PATH": "", "PYTHONPATH": str(ROOT), "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_every_page_is_on_the_site(site: Path) -> None:
    """All but the README, whose place is taken by the first page; its address leads there."""
    missing = [page for page in PAGES_BY_HAND if not (site / page).with_suffix(".html").is_file()]
    assert missing == ["README.md"]
    assert 'url=docs/quickstart.html"' in (site / "index.html").read_text(encoding="utf-8")


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts and pictures are its own: it can be read on a machine without a network."""
    loads = re.compile(
        r'<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)="(?:https?:)?//|@import|url\(.?https?:'
    )
    files = [path for path in site.rglob("*") if path.suffix in {".html", ".css"}]
    assert len(files) > len(PAGES_BY_HAND)
    assert [path for path in files if loads.search(path.read_text(encoding="utf-8"))] == []
    assert loads.search('<script defer src="https://cdn.example/x.js">')


def test_a_file_of_the_repository_can_be_opened(site: Path) -> None:
    """A link to a manifest or a policy leads to its text."""
    (target,) = set(re.findall(r'href="([^"]*netease\.yaml)"', (site / "docs" / "concepts.html").read_text()))
    assert (site / "docs" / target).read_bytes() == (ROOT / "config/examples/netease.yaml").read_bytes()


@pytest.mark.parametrize(
    ("page", "other", "problem"),
    [
        (PAGE, OTHER, ""),
        (PAGE.replace("other.md", "no-such.md"), OTHER, "no-such.md"),
        (PAGE, OTHER.replace("A heading", "One more"), "a-heading"),
        (PAGE.replace("file.yaml", "no-such.yaml"), OTHER, "no-such.yaml"),
        (PAGE.replace("file.yaml", "folder"), OTHER, "folder"),
    ],
    ids=["right", "no such page", "no such heading", "no such file", "a folder"],
)
def test_a_link_that_leads_nowhere_ends_the_build(tmp_path: Path, page: str, other: str, problem: str) -> None:
    """With the settings of the site: this is why a site that was built has no dead links."""
    source = tmp_path / "source"
    (source / "folder").mkdir(parents=True)
    (source / "file.yaml").write_text("kind: None\n")
    (source / "index.md").write_text(page)
    (source / "other.md").write_text(other)
    settings = (ROOT / "tools" / "site" / "conf.py").read_text(encoding="utf-8")
    own = 'root_doc = "index"\ninclude_patterns = ["*.md"]\nhtml_extra_path = []\nCONTENTS = {"All": ("other",)}\n'
    (source / "conf.py").write_text(settings + own)
    done = subprocess.run(
        [*BUILD, str(source), str(tmp_path / "built")],
        cwd=ROOT,
        env={"PATH": "", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode == 0) == (problem == ""), done.stderr
    assert problem in done.stderr


QUESTIONS = {
    # Somebody new
    "disruption budgets replacement one replica": "docs/concepts",
    "fleet of clusters": "docs/install",
    "Kubernetes versions tested": "docs/install",
    "Karpenter descheduler comparison": "docs/comparison",
    "RBAC rights": "docs/security",
    "air-gapped registry": "docs/install",
    "leader election standby": "docs/install",
    "mode Observe preview": "docs/policy",
    "uninstall finalizers": "docs/install",
    # Somebody on call
    "stop pause evictions": "docs/operations",
    "audit log": "docs/operations",
    "replacement pending": "deploy/runbooks/TopologyReplacementPending",
    "redis master role": "docs/concepts",
    "scale-down prevention": "docs/prevention",
    "controller killed": "docs/reading",
    "silence alert": "docs/operations",
    # Somebody who builds on it
    "team policy namespace": "docs/reference/policy",
    "matchLabelKeys": "docs/concepts",
    "DaemonSet static never evicted": "docs/concepts",
    "preemption": "docs/concepts",
    "emptyDir local volume": "docs/statefulset-volumes",
    "ignoreDifferences": "docs/install",
    "exit codes CI lint": "docs/lint",
    "plugin own rule": "docs/library",
    "metricRelabelings": "docs/reference/metrics",
}
"""Words that a person types into the search box, and the page that has the answer."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


def test_search_leads_to_the_answer(site: Path, chromium: Browser) -> None:
    """In a real browser: the page stands among the first three results."""
    found = {}
    with served(site) as url, opened(chromium, f"{url}search.html?q=pause") as (page, _):
        for words in QUESTIONS:
            page.goto(f"{url}search.html?q={quote(words)}")
            page.wait_for_function("/finished|did not match/.test(document.querySelector('#search-results').innerText)")
            links = page.locator("#search-results ul.search > li > a").evaluate_all("all => all.map(one => one.href)")
            pages = dict.fromkeys(link.removeprefix(url).partition(".html")[0] for link in links)
            found[words] = list(pages)[:3]
    assert {words: pages for words, pages in found.items() if QUESTIONS[words] not in pages} == {}
