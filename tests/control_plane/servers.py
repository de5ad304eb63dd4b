"""The command lines of the five servers.

Each function writes the files its server needs into the control plane's folder and returns its command. Why a flag is
there stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.control_plane.configuration import (
    write_admission_configuration,
    write_audit_policy,
    write_scheduler_configuration,
)
from tests.control_plane.credentials import SERVER_USERS, Tokens, write_kubeconfig, write_signing_key
from tests.control_plane.stages import write_stages

Command = list[str | Path]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a test may want differently."""

    scheduler_profiles: tuple[dict[str, Any], ...] = ()
    """`profiles` of the KubeSchedulerConfiguration; empty: the scheduler's defaults."""
    scheduler_verbosity: int = 0
    """10 makes the scheduler log, as JSON, the score of every plugin for every node."""
    scheduler_modules: str = ""
    """`--vmodule` of the scheduler, verbosity by file: `schedule_one=10,eventhandlers=3`. Its log is text then."""
    ready_after: tuple[float, float] = (0.3, 0.8)
    """A pod becomes Ready after a random time in this range of seconds."""
    gone_after: float = 0.3
    """A deleted pod is gone after this many seconds."""
    max_requests: int = 1000
    """Requests in flight that the API server bears before it answers 429."""
    features: tuple[str, ...] = ()
    """Feature gates that are off by default, of all servers of Kubernetes."""
    apis: tuple[str, ...] = ()
    """API groups with their versions that are not served by default: `scheduling.k8s.io/v1beta1`."""
    storage_bytes: int = 8 * 1024**3
    """etcd refuses writes beyond this."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the servers run: on the machine, whose nodes KWOK simulates, or in namespaces with kubelets."""

    enter: tuple[str, ...] = ()
    """What stands before a command that is to run there."""
    host: str = "127.0.0.1"
    """The API server's address."""
    port: int = 0
    """The API server's port; 0: a free one."""
    kubelets: tuple[str, ...] = ()
    """The names of the nodes whose kubelets will come, each as a user of its own."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where one control plane lives: its folder, ports, tokens and options."""

    folder: Path
    programs: Mapping[str, Path]
    ports: Mapping[str, int]
    tokens: Tokens = field(default_factory=Tokens)
    options: Options = field(default_factory=Options)
    place: Place = field(default_factory=Place)

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://{self.place.host}:{self.ports['kube-apiserver']}"

    @property
    def ca_file(self) -> Path:
        """The certificate that vouches for the API server. The server makes it when it starts."""
        return self.folder / "certificates" / "apiserver.crt"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log."""
        return self.folder / "audit.log"

    @property
    def signing_key(self) -> Path:
        """The key that signs service account tokens."""
        return self.folder / "service-accounts.key"

    def log(self, name: str) -> Path:
        """Return the path of a server's log."""
        return self.folder / f"{name}.log"

    def kubeconfig(self, user: str) -> Path:
        """Write the kubeconfig of a built-in user."""
        return write_kubeconfig(
            self.folder / f"{user.replace(':', '-')}.kubeconfig",
            url=self.url,
            ca_file=self.ca_file,
            user=user,
            token=self.tokens.by_user[user],
        )


PORTS = ("etcd", "etcd-peers", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


_FOR_KUBELETS: Command = [
    # A kubelet reads and writes what concerns its own pods, as in a real cluster.
    "--authorization-mode=Node",
    "--enable-admission-plugins=NodeRestriction",
    # For logs and exec: nothing resolves the names of the nodes.
    "--kubelet-preferred-address-types=InternalIP",
]


def _switch_on(flag: str, names: tuple[str, ...]) -> Command:
    return [f"--{flag}={','.join(f'{name}=true' for name in names)}"] if names else []


def etcd(site: Site) -> Command:
    """Return the command of etcd."""
    clients = f"http://127.0.0.1:{site.ports['etcd']}"
    peers = f"http://127.0.0.1:{site.ports['etcd-peers']}"
    return [
        site.programs["etcd"],
        "--name=test",
        f"--data-dir={site.folder / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=test={peers}",
        # Nothing here has to survive a power cut.
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={site.options.storage_bytes}",
        "--log-level=warn",
    ]


def kube_apiserver(site: Site) -> Command:
    """Return the command of the API server."""
    key = write_signing_key(site.signing_key)
    most = site.options.max_requests
    return [
        site.programs["kube-apiserver"],
        f"--etcd-servers=http://127.0.0.1:{site.ports['etcd']}",
        f"--bind-address={site.place.host}",
        f"--advertise-address={site.place.host}",
        # An endpoint on the loopback interface is refused, and nobody needs the `kubernetes` service here.
        "--endpoint-reconciler-type=none",
        f"--secure-port={site.ports['kube-apiserver']}",
        f"--cert-dir={site.ca_file.parent}",
        "--authorization-mode=RBAC",
        f"--token-auth-file={site.tokens.write(site.folder / 'tokens.csv')}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.96.0.0/16",
        f"--max-requests-inflight={most}",
        f"--max-mutating-requests-inflight={most}",
        # Cleaning up after a test with thousands of pods.
        "--delete-collection-workers=8",
        # Off by default; it does something only where a namespace has its annotation.
        "--enable-admission-plugins=PodNodeSelector",
        f"--admission-control-config-file={write_admission_configuration(site.folder / 'admission.yaml')}",
        f"--audit-policy-file={write_audit_policy(site.folder / 'audit-policy.yaml')}",
        f"--audit-log-path={site.audit_log}",
        # One file: readers keep their place in it.
        "--audit-log-maxsize=100000",
        *_switch_on("feature-gates", site.options.features),
        *_switch_on("runtime-config", site.options.apis),
        *(_FOR_KUBELETS if site.place.kubelets else ()),
    ]


def kube_controller_manager(site: Site) -> Command:
    """Return the command of the controller manager. It keeps PDB status: nothing about budgets is proved without it."""
    return [
        site.programs["kube-controller-manager"],
        f"--kubeconfig={site.kubeconfig(SERVER_USERS['kube-controller-manager'])}",
        "--bind-address=127.0.0.1",
        f"--secure-port={site.ports['kube-controller-manager']}",
        f"--cert-dir={site.folder / 'kube-controller-manager'}",
        "--leader-elect=false",
        # All that are on by default but the one that writes an annotation to every node.
        "--controllers=*,-ttl-controller",
        f"--service-account-private-key-file={site.signing_key}",
        # Published to every namespace as `kube-root-ca.crt`.
        f"--root-ca-file={site.ca_file}",
        # A busy machine may keep heartbeats back for a minute; tests that lose nodes say so in the nodes' conditions.
        "--node-monitor-grace-period=10m",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        *_switch_on("feature-gates", site.options.features),
    ]


def kube_scheduler(site: Site) -> Command:
    """Return the command of the scheduler."""
    configuration = write_scheduler_configuration(
        site.folder / "scheduler.yaml",
        kubeconfig=site.kubeconfig(SERVER_USERS["kube-scheduler"]),
        profiles=site.options.scheduler_profiles,
    )
    return [
        site.programs["kube-scheduler"],
        f"--config={configuration}",
        "--bind-address=127.0.0.1",
        f"--secure-port={site.ports['kube-scheduler']}",
        f"--cert-dir={site.folder / 'kube-scheduler'}",
        # Verbosity by file exists for text only; all files at 10 would log every request's body.
        *([f"--vmodule={modules}"] if (modules := site.options.scheduler_modules) else ["--logging-format=json"]),
        f"--v={site.options.scheduler_verbosity}",
        *_switch_on("feature-gates", site.options.features),
    ]


def kwok(site: Site) -> Command:
    """Return the command of KWOK, which plays the kubelets."""
    options = site.options
    stages = write_stages(site.folder / "stages.yaml", ready_after=options.ready_after, gone_after=options.gone_after)
    return [
        site.programs["kwok"],
        f"--kubeconfig={site.kubeconfig(SERVER_USERS['kwok'])}",
        f"--config={stages}",
        "--manage-all-nodes=true",
        # Without leases the nodes would be declared lost after 40 seconds.
        "--node-lease-duration-seconds=40",
    ]
