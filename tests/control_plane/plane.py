"""A whole control plane on 127.0.0.1, as a context manager.

with ControlPlane(Options(scheduler_verbosity=10)) as plane:
    plane.api.list("/api/v1/nodes")
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import urllib3

from tests.control_plane import accounts, children, servers
from tests.control_plane.api import Api, ApiError
from tests.control_plane.audit import AuditLog, Mark
from tests.control_plane.build import programs
from tests.control_plane.credentials import ADMIN, HARNESS, write_kubeconfig
from tests.control_plane.servers import PORTS, Command, Options, Place, Site

START_SECONDS: Final = 60.0
ATTEMPTS: Final = 3

COMMANDS: Final[dict[str, Callable[[Site], Command]]] = {
    "etcd": servers.etcd,
    "kube-apiserver": servers.kube_apiserver,
    "kube-controller-manager": servers.kube_controller_manager,
    "kube-scheduler": servers.kube_scheduler,
    "kwok": servers.kwok,
}


class StartError(Exception):
    """A server didn't start, or has ended. The message quotes the end of its log."""


class ControlPlane:
    """etcd, API server, controller manager, scheduler and KWOK, started together and always stopped."""

    def __init__(self, options: Options | None = None, place: Place | None = None) -> None:
        """Prepare; nothing runs before `start`, or before the `with` block is entered.

        In a place with kubelets, which are the caller's, there is no KWOK. Raises MissingPart if a program is neither
        found nor can be built.
        """
        self.options = options or Options()
        self.place = place or Place()
        self.programs = programs()
        self._children: dict[str, children.Child] = {}
        self._site: Site | None = None
        self._api: Api | None = None
        self._audit_start = Mark()

    def __enter__(self) -> Self:
        """Start everything."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop everything."""
        self.stop()

    def start(self) -> None:
        """Start all servers and wait until they work. Raises StartError, and then nothing is left running."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._start()
            except BaseException as error:
                self.stop()
                # Between choosing a free port and listening on it, somebody else may have taken it.
                if isinstance(error, StartError) and "address already in use" in str(error) and attempt < ATTEMPTS:
                    continue
                raise
            return

    def stop(self) -> None:
        """Stop all servers and delete their files. May be called again."""
        try:
            children.stop(self._children.values())
        finally:
            self._children.clear()
            self._audit_start = Mark()
            if self._api is not None:
                self._api.close()
                self._api = None
            if self._site is not None:
                shutil.rmtree(self._site.folder, ignore_errors=True)
                self._site = None

    @property
    def site(self) -> Site:
        """Where it runs: folder, ports, files."""
        if self._site is None:
            message = "the control plane isn't running"
            raise RuntimeError(message)
        return self._site

    @property
    def api(self) -> Api:
        """The test's own client, a cluster administrator."""
        if self._api is None:
            message = "the control plane isn't running"
            raise RuntimeError(message)
        return self._api

    @property
    def audit(self) -> AuditLog:
        """The record of the requests to the API server, since the start of it or of the present test."""
        return AuditLog(self.site.audit_log, api=self.api, start=self._audit_start)

    def begin_test(self) -> None:
        """Make the record of requests begin now; raises StartError if one of the servers has ended."""
        self.check()
        self._audit_start = self.audit.mark()

    @property
    def url(self) -> str:
        """The API server's address."""
        return self.site.url

    @property
    def ca_file(self) -> Path:
        """The certificate that vouches for the API server."""
        return self.site.ca_file

    @property
    def running(self) -> dict[str, int]:
        """The process ids of the servers that run, by name."""
        return {name: child.pid for name, child in self._children.items() if child.alive()}

    def check(self) -> None:
        """Raise StartError if one of the servers has ended, quoting its log."""
        for child in self._children.values():
            if not child.alive():
                message = f"{child.name} ended with code {child.process.returncode}; its log:\n{child.tail()}"
                raise StartError(message)

    def log(self, name: str) -> Path:
        """Return the log file of a server. The scheduler's is JSON, a document a line."""
        return self.site.log(name)

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """Write a kubeconfig: for `admin`, or for a service account `namespace/name`, which is created if missing."""
        if "/" not in user:
            return self.site.kubeconfig(user)
        path = self.site.folder / f"{user.replace('/', '.')}.kubeconfig"
        return write_kubeconfig(
            path, url=self.url, ca_file=self.ca_file, user=accounts.user_name(user), token=self.token(user)
        )

    def token(self, user: str = ADMIN) -> str:
        """Return a token: of `admin`, or of a service account `namespace/name`, which is created if missing."""
        return accounts.request_token(self.api, user) if "/" in user else self.site.tokens.by_user[user]

    def api_as(self, user: str) -> Api:
        """Return a client that acts as a user (`admin` or `namespace/name`)."""
        return Api(url=self.url, token=self.token(user), ca_file=self.ca_file)

    @contextlib.contextmanager
    def without(self, *names: str) -> Iterator[None]:
        """Stop some servers for the duration of a block, then start them again."""
        children.stop(self._children[name] for name in names)
        try:
            yield
        finally:
            for name in names:
                self._launch(name)
            self._await_all()

    def _start(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="control-plane-"))
        ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        if self.place.port:
            ports["kube-apiserver"] = self.place.port
        self._site = Site(folder=folder, programs=self.programs, ports=ports, options=self.options, place=self.place)
        self._site.tokens.add_nodes(self.place.kubelets)
        self._launch("etcd")
        self._launch("kube-apiserver")
        self._await("kube-apiserver", lambda: _whole(self.ca_file))
        self._api = Api(url=self.url, token=self.site.tokens.by_user[HARNESS], ca_file=self.ca_file)
        self._await("kube-apiserver", lambda: _answers(self.api, "/readyz"))
        for name in ("kube-controller-manager", "kube-scheduler", *([] if self.place.kubelets else ["kwok"])):
            self._launch(name)
        self._await_all()

    def _await_all(self) -> None:
        self._await("kube-apiserver", lambda: _answers(self.api, "/readyz"))
        for name in ("kube-controller-manager", "kube-scheduler"):
            self._await(name, lambda name=name: self._healthy(name))  # type: ignore[misc]
        # What controllers make first shows that they work; a pod isn't admitted without its namespace's account.
        for path in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            address = f"/api/v1/namespaces/default/{path}"
            self._await("kube-controller-manager", lambda address=address: _answers(self.api, address))  # type: ignore[misc]

    def _launch(self, name: str) -> None:
        command = [*self.place.enter, *COMMANDS[name](self.site)]
        log = self.site.log(name)
        self._children[name] = children.start(name, command, log=log, cwd=self.site.folder)

    def _healthy(self, name: str) -> bool:
        certificate = self.site.folder / name / f"{name}.crt"
        if not _whole(certificate):
            return False
        with contextlib.closing(Api(url=f"https://127.0.0.1:{self.site.ports[name]}", ca_file=certificate)) as client:
            return _answers(client, "/healthz")

    def _await(self, name: str, ready: Callable[[], bool]) -> None:
        """Wait until a server is ready, unless one of them ends meanwhile."""
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                message = f"{name} isn't ready after {START_SECONDS:g} s; its log:\n{self._children[name].tail()}"
                raise StartError(message)
            time.sleep(0.02)


def _answers(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except (ApiError, urllib3.exceptions.HTTPError):
        return False
    return True


def _whole(certificate: Path) -> bool:
    """Whether a certificate is there to its end: the servers write theirs into place, and it is empty at first."""
    return certificate.exists() and certificate.read_text(encoding="ascii").endswith("-----END CERTIFICATE-----\n")


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on; all are held until the last is known, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [held.getsockname()[1] for held in sockets]
