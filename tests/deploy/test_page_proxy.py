"""The page behind a login: everybody passes the proxy, which reaches the page as the page allows it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from rebalancer.adapters.web import page_routes
from rebalancer.adapters.web.routes import Request
from rebalancer.settings import Settings
from tests.deploy.manifests import DEPLOY, ROOT, Manifest
from tests.deploy.rendering import NAMESPACE, Objects, by_identity, render_chart, require_programs
from tests.deploy.test_chart import kustomize

PARTS = ("base", "components/page-proxy")


@pytest.fixture(scope="module", params=["kustomize", "chart"])
def objects(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Objects]:
    require_programs("helm", "kubectl")
    if request.param == "chart":
        yield by_identity(render_chart({"pageProxy": {"enabled": True}}))
    else:
        yield by_identity(kustomize(tmp_path_factory.mktemp("proxy"), PARTS))


def containers(objects: Objects) -> Mapping[str, Manifest]:
    spec = objects["Deployment", NAMESPACE, "rebalancer"]["spec"]["template"]["spec"]
    return {container["name"]: container for container in spec["containers"]}


def ports(container: Manifest) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container["ports"]}


def test_the_service_is_before_the_proxies_and_none_before_the_page(objects: Objects) -> None:
    """By the port's name, which the proxy has alone; no Service and no container port is the page's."""
    page = Settings().page_address.port
    own, proxy = containers(objects)["rebalancer"], containers(objects)["page-proxy"]
    service = objects["Service", NAMESPACE, "rebalancer-page"]["spec"]
    assert [port["targetPort"] for port in service["ports"]] == ["page"]
    assert "page" not in ports(own)
    assert ports(proxy) == {"page": 4180}
    assert "--http-address=0.0.0.0:4180" in proxy["args"]
    targets = {
        target
        for (kind, _, _), manifest in objects.items()
        if kind == "Service"
        for port in manifest["spec"]["ports"]
        for target in (port["port"], port["targetPort"])
    }
    assert page not in targets
    assert page not in {*ports(own).values(), *ports(proxy).values()}
    assert not any("page-address" in flag for flag in own["args"]), "it stays on 127.0.0.1"
    labels = objects["Deployment", NAMESPACE, "rebalancer"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()


def test_the_proxy_reaches_the_page_as_the_page_allows_it(objects: Objects) -> None:
    """The page refuses a request whose host is not this machine: the proxy must not pass on the browser's."""
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in containers(objects)["page-proxy"]["args"])
    upstream, address = urlsplit(flags["upstream"]), Settings().page_address
    assert (upstream.hostname, upstream.port) == (address.host, address.port)
    assert flags["pass-host-header"] == "false"
    route = page_routes(lambda *_, **__: None, local=True)["/"]
    refused = "403 Forbidden"
    assert route(request(upstream.netloc)).status != refused
    assert route(request("rebalancer.example")).status == refused


def request(host: str) -> Request:
    return Request({}, host=host)


def test_the_proxy_has_no_token_and_no_more_rights_than_the_controller(objects: Objects) -> None:
    """It is what strangers talk to, and the controller's account may evict."""
    own, proxy = containers(objects)["rebalancer"], containers(objects)["page-proxy"]
    assert proxy["securityContext"] == own["securityContext"]
    (mount,) = proxy["volumeMounts"]
    volumes: list[dict[str, Any]] = objects["Deployment", NAMESPACE, "rebalancer"]["spec"]["template"]["spec"][
        "volumes"
    ]
    (volume,) = [volume for volume in volumes if volume["name"] == mount["name"]]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert "emptyDir" in volume
    assert re.fullmatch(r"[\w./-]+:v[\d.]+", proxy["image"])
    secrets = [source["secretRef"]["name"] for source in proxy["envFrom"]]
    assert secrets == ["rebalancer-page"]


def test_without_the_component_there_is_neither(tmp_path: Path) -> None:
    require_programs("helm", "kubectl")
    for built in (by_identity(render_chart({})), by_identity(kustomize(tmp_path, ("base",)))):
        assert ("Service", NAMESPACE, "rebalancer-page") not in built
        assert containers(built).keys() == {"rebalancer"}


def test_the_secrets_variables_are_named_where_it_is_made() -> None:
    """The command in the document makes a Secret with each variable that the component names."""
    component = (DEPLOY / "components" / "page-proxy" / "deployment.yaml").read_text(encoding="utf-8")
    line = next(line for line in component.splitlines() if "OAUTH2_PROXY_" in line)
    named = {
        f"OAUTH2_PROXY{name.removeprefix('OAUTH2_PROXY')}" for name in re.findall(r"(?:OAUTH2_PROXY)?_[A-Z_]+", line)
    }
    made = set(
        re.findall(r"--from-literal=(OAUTH2_PROXY_\w+)", (ROOT / "docs" / "install.md").read_text(encoding="utf-8"))
    )
    assert named == made
