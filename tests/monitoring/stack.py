"""Prometheus, Alertmanager and kube-state-metrics on 127.0.0.1, and a receiver of what they tell.

    with Stack(plane, folder, replicas=[port], rules=shortened()) as stack:
        stack.wait_for("TopologySkewUnresolved", "firing")

Everything is started as it would be by its users, with short intervals; the rules are handed in (see `shortened`).
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import urllib3
import yaml

from tests.control_plane import children
from tests.control_plane.api import wait_until
from tests.control_plane.build import KUBE_STATE_METRICS, programs
from tests.control_plane.plane import ControlPlane, free_ports
from tests.monitoring.programs import packaged
from tools.monitoring import ROOT, RULES

Alert = dict[str, Any]
ALLOWLIST: Final = re.compile(r"^(--metric-labels-allowlist=\S+)$", re.MULTILINE)


def shortened() -> list[dict[str, Any]]:
    """Return the groups of the shipped rules with a second for every minute and a minute for every hour.

    Nothing else is changed. A real cluster has its samples every 15 or 30 seconds, a test has them every second.
    """

    def shorter(text: str) -> str:
        return re.sub(r"(?<![\w.])(\d+)(m|h)\b", lambda match: match[1] + {"m": "s", "h": "m"}[match[2]], text)

    def shortened_rule(rule: dict[str, Any]) -> dict[str, Any]:
        texts = {name: shorter(text) for name, text in rule.items() if isinstance(text, str)}
        notes = {name: shorter(text) for name, text in rule.get("annotations", {}).items()}
        return {**rule, **texts, **({"annotations": notes} if notes else {})}

    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [{**group, "interval": "1s", "rules": [shortened_rule(rule) for rule in group["rules"]]} for group in groups]


class Receiver:
    """A web server that Alertmanager posts notices to; it keeps every alert of every notice, in order."""

    def __init__(self) -> None:
        self.received: list[Alert] = []
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                notice = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                received.extend(notice["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class calls it so
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Alertmanager:
    """Alertmanager with a configuration, as a process."""

    def __init__(self, folder: Path, configuration: Mapping[str, Any]) -> None:
        self.port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        (folder / "alertmanager.yaml").write_text(yaml.safe_dump(dict(configuration)))
        command: list[str | Path] = [
            packaged("alertmanager"),
            f"--config.file={folder / 'alertmanager.yaml'}",
            f"--storage.path={folder / 'alertmanager'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--cluster.listen-address=",  # alone: it would listen on all addresses
        ]
        self.child = children.start("alertmanager", command, log=folder / "alertmanager.log", cwd=folder)
        wait_until(lambda: answers(f"{self.url}/-/ready", self.child), what="Alertmanager")

    def post(self, alerts: Sequence[Alert]) -> None:
        """Hand alerts to it, as Prometheus does."""
        answer = urllib3.request("POST", f"{self.url}/api/v2/alerts", json=list(alerts), timeout=5.0)
        assert answer.status == 200, answer.data

    def alerts(self) -> list[Alert]:
        """Return the alerts that it has, with what it does about each."""
        alerts: list[Alert] = urllib3.request("GET", f"{self.url}/api/v2/alerts", timeout=5.0).json()
        return alerts


def answers(url: str, child: children.Child) -> bool:
    """Whether a server is ready; one that has ended is an error, with the end of its log."""
    assert child.alive(), child.tail()
    with contextlib.suppress(urllib3.exceptions.HTTPError):
        return urllib3.request("GET", url, timeout=2.0, retries=False).status == 200
    return False


class Stack:
    """All of it together. `replicas` are the ports of the controller's; files go into the folder, which is made."""

    def __init__(
        self, plane: ControlPlane, folder: Path, *, replicas: Sequence[int], rules: Sequence[Mapping[str, Any]]
    ) -> None:
        self._plane = plane
        self._folder = folder
        self._replicas = replicas
        self._rules = rules
        folder.mkdir()
        self._children: list[children.Child] = []
        self.url = ""
        self.received: list[Alert] = []
        self._receiver: Receiver | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(
                "received:\n" + "\n".join(f"    {notice['status']} {notice['labels']}" for notice in self.received)
            )
            for child in self._children:
                error.add_note(f"{child.name}'s log ends:\n{child.tail()}")
        self.stop()

    def stop(self) -> None:
        """Stop everything."""
        children.stop(self._children)
        self._children.clear()
        if self._receiver is not None:
            self._receiver.close()
            self._receiver = None

    def _start(self) -> None:
        self._receiver = Receiver()
        self.received = self._receiver.received
        hook = {"url": self._receiver.url, "send_resolved": True}
        alertmanager = Alertmanager(
            self._folder,
            {
                # Every alert by itself, at once.
                "route": {"receiver": "test", "group_by": ["..."], "group_wait": "0s", "group_interval": "1s"},
                "receivers": [{"name": "test", "webhook_configs": [hook]}],
            },
        )
        self._children.append(alertmanager.child)
        kube_state_metrics, telemetry, port = free_ports(3)
        # Of its own: kube-state-metrics begins anew whenever the file is written.
        kubeconfig = shutil.copy(self._plane.kubeconfig(), self._folder / "kubeconfig")
        self._launch(
            "kube-state-metrics",
            programs((KUBE_STATE_METRICS,))["kube-state-metrics"],
            f"--kubeconfig={kubeconfig}",
            "--host=127.0.0.1",
            f"--port={kube_state_metrics}",
            "--telemetry-host=127.0.0.1",
            f"--telemetry-port={telemetry}",
            "--resources=nodes,pods",
            # As docs/operations.md says.
            *ALLOWLIST.findall((ROOT / "docs" / "operations.md").read_text()),
        )
        self._configure({"rebalancer": self._replicas, "kube-state-metrics": [kube_state_metrics]}, alertmanager.port)
        prometheus = self._launch(
            "prometheus",
            packaged("prometheus"),
            f"--config.file={self._folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={self._folder / 'prometheus'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--rules.alert.resend-delay=1s",
        )
        self.url = f"http://127.0.0.1:{port}"
        wait_until(lambda: answers(f"{self.url}/-/ready", prometheus), what="Prometheus")

    def _configure(self, jobs: Mapping[str, Sequence[int]], alertmanager: int) -> None:
        (self._folder / "rules.yaml").write_text(yaml.safe_dump({"groups": list(self._rules)}))
        configuration = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "alerting": {"alertmanagers": [_targets([alertmanager])]},
            "scrape_configs": [
                {"job_name": job, "honor_labels": True, **_targets(ports)} for job, ports in jobs.items()
            ],
        }
        (self._folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration))

    def _launch(self, name: str, *command: str | Path) -> children.Child:
        child = children.start(name, command, log=self._folder / f"{name}.log", cwd=self._folder)
        self._children.append(child)
        return child

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the samples of an instant query."""
        answer = urllib3.request("GET", f"{self.url}/api/v1/query", fields={"query": expression}, timeout=5.0)
        document = answer.json()
        assert document["status"] == "success", f"{expression}: {document}"
        result: list[dict[str, Any]] = document["data"]["result"]
        return result

    def notices(self, alert: str, **labels: str) -> list[Alert]:
        """Return what the receiver has got of an alert with these labels, in order."""
        wanted = {"alertname": alert, **labels}.items()
        return [notice for notice in list(self.received) if wanted <= notice["labels"].items()]

    def wait_for(self, alert: str, status: str, *, timeout: float = 60.0, **labels: str) -> Alert:
        """Wait until the last notice of an alert has this status, and return that."""

        def reported() -> bool:
            return any(notice["status"] == status for notice in self.notices(alert, **labels)[-1:])

        wait_until(reported, what=f"{alert} {status} {labels or ''}", timeout=timeout)
        return self.notices(alert, **labels)[-1]


def _targets(ports: Sequence[int]) -> dict[str, Any]:
    return {"static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}]}
