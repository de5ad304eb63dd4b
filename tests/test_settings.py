"""The process settings: their defaults, their sources, and what is refused."""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from rebalancer import locations
from rebalancer.locations import Address, ConfigMapPolicy, FilePolicy
from rebalancer.policy import Mode
from rebalancer.settings import Settings, SettingsError, load_settings, variable_of


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("REBALANCER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(locations, "SERVICE_ACCOUNT_NAMESPACE", tmp_path / "namespace")


def refused(**flags: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(flags)
    return str(caught.value)


def test_the_defaults() -> None:
    """Without anything said: the shipped policy, 8080 everywhere, the lease times of client-go."""
    assert load_settings({}).describe() == {
        "policy": None,
        "mode": None,
        "once": False,
        "kubeconfig": None,
        "context": None,
        "namespace": "rebalancer-system",
        "cluster_name": "",
        "workload_namespaces": "",
        "metrics_address": ":8080",
        "page_address": "127.0.0.1:8081",
        "lease_duration": "15s",
        "renew_deadline": "10s",
        "retry_period": "2s",
        "request_timeout": "30s",
        "log_level": "info",
        "log_format": "console" if sys.stderr.isatty() else "json",
    }


def test_once_listens_only_where_an_address_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """By flag or by environment, though it were the default's own."""
    assert load_settings({}).listen_address == Address("", 8080)
    assert load_settings({"once": True}).listen_address is None
    assert load_settings({}).page_listen_address == Address("127.0.0.1", 8081)
    assert load_settings({"once": True}).page_listen_address is None
    assert load_settings({"once": True, "metrics_address": ":8080"}).listen_address == Address("", 8080)
    monkeypatch.setenv("REBALANCER_METRICS_ADDRESS", ":9090")
    assert load_settings({"once": True}).listen_address == Address("", 9090)


def test_in_a_pod_the_namespace_is_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Unless the environment says otherwise."""
    (tmp_path / "namespace").write_text("platform\n")
    assert load_settings({}).namespace == "platform"
    monkeypatch.setenv("REBALANCER_NAMESPACE", "elsewhere")
    assert load_settings({}).namespace == "elsewhere"


def test_every_setting_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "policy": "configmap:rebalancer-system/rebalancer-policy",
        "mode": "Observe",
        "once": "true",
        "kubeconfig": "/k",
        "context": "c",
        "namespace": "n",
        "cluster_name": "prod-eu",
        "workload_namespaces": "a,b",
        "metrics_address": "127.0.0.1:9000",
        "page_address": "127.0.0.1:9001",
        "lease_duration": "60s",
        "renew_deadline": "40s",
        "retry_period": "5s",
        "request_timeout": "1m",
        "log_level": "debug",
        "log_format": "console",
    }
    assert values.keys() == Settings.model_fields.keys()
    for name, value in values.items():
        monkeypatch.setenv(variable_of(name), value)
    settings = load_settings({})
    assert settings.policy == ConfigMapPolicy("rebalancer-system", "rebalancer-policy")
    assert settings.mode is Mode.OBSERVE
    assert settings.renew_deadline == timedelta(seconds=40)
    described = settings.describe()
    assert {name: str(value).lower() for name, value in described.items()} == {
        name: value.lower() if name != "lease_duration" else "1m" for name, value in values.items()
    }
    assert json.loads(json.dumps(described)) == described


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Templates leave them behind."""
    monkeypatch.setenv("REBALANCER_MODE", "")
    assert load_settings({}).mode is None


def test_a_misspelt_variable_is_refused_with_the_name_that_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sets REBALANCER_MOD=Observe believes that nothing can be evicted."""
    monkeypatch.setenv("REBALANCER_MOD", "Observe")
    assert refused() == "REBALANCER_MOD: unknown environment variable; did you mean REBALANCER_MODE?"
    monkeypatch.setenv("REBALANCER_XYZZY", "1")
    assert "REBALANCER_XYZZY: unknown environment variable; known: REBALANCER_POLICY, " in refused(mode="evict")


@pytest.mark.parametrize(
    "name",
    [
        "REBALANCER_SERVICE_HOST",
        "REBALANCER_SERVICE_PORT",
        "REBALANCER_SERVICE_PORT_METRICS",
        "REBALANCER_PORT",
        "REBALANCER_PORT_8080_TCP",
        "REBALANCER_PORT_8080_TCP_ADDR",
        "REBALANCER_METRICS_SERVICE_HOST",
        "REBALANCER_METRICS_PORT_8080_TCP_PROTO",
    ],
)
def test_what_the_kubelet_injects_for_services_is_no_setting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Service named rebalancer must not keep its own pods from starting."""
    monkeypatch.setenv(name, "tcp://10.0.0.1:8080")
    load_settings({})


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("policy.yaml", FilePolicy(Path("policy.yaml"))),
        ("./configmap:x", FilePolicy(Path("configmap:x"))),
        ("configmap:a/b.c", ConfigMapPolicy("a", "b.c")),
    ],
)
def test_where_a_policy_can_be(text: str, source: FilePolicy | ConfigMapPolicy) -> None:
    assert load_settings({"policy": text}).policy == source


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", Address("", 8080)),
        ("0.0.0.0:1", Address("0.0.0.0", 1)),
        ("[::1]:9", Address("::1", 9)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
    ],
)
def test_where_metrics_can_be_served(text: str, address: Address) -> None:
    assert load_settings({"metrics_address": text}).metrics_address == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("metrics_address", text) for text in ("8080", ":", ":99999", "::1:80", "[1.2.3.4]:80", "host:80", ":-1")],
        *[("policy", text) for text in ("", "configmap:", "configmap:a", "configmap:a/", "configmap:a/b/c")],
        *[("namespace", text) for text in ("", "A", "a.b")],
        *[("workload_namespaces", text) for text in ("", "a,", "a, b", "team-*")],
        *[("lease_duration", text) for text in ("15", "0s", "soon", "10m1s", "24h")],
        ("mode", "Ask"),
        ("log_level", "trace"),
        ("log_format", "xml"),
        ("once", "maybe"),
    ],
)
def test_a_wrong_value_is_refused_with_its_flag(name: str, value: str) -> None:
    flag = "--controller-namespace" if name == "namespace" else f"--{name.replace('_', '-')}"
    assert refused(**{name: value}).startswith(f'{flag}: found "{value}"; expected ')


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (
            {"renew_deadline": "15s"},
            "expected --renew-deadline (15s) below --lease-duration (15s)",
        ),
        (
            {"renew_deadline": "300s"},
            "expected --renew-deadline (5m) below --lease-duration (15s)",
        ),
        (
            {"retry_period": "9s"},
            "expected 1.2 times --retry-period (10.8s) below --renew-deadline (10s)",
        ),
    ],
)
def test_lease_times_that_allow_two_leaders_are_refused(flags: dict[str, str], problem: str) -> None:
    """A leader must have stopped before another one may start, with an attempt left over."""
    assert refused(**flags) == problem


def test_a_lease_of_more_than_ten_minutes_is_refused() -> None:
    """Other processes would not honour it, so two could act at once."""
    assert load_settings({"lease_duration": "10m"}).lease_duration == timedelta(minutes=10)
    assert refused(lease_duration="11m") == '--lease-duration: found "11m"; expected at most 10m'


def test_workloads_of_some_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """By flag and by variable, each once; the log shows them as they are written."""
    assert load_settings({}).workload_namespaces == ()
    assert load_settings({"workload_namespaces": "shop,cart,shop"}).workload_namespaces == ("cart", "shop")
    monkeypatch.setenv("REBALANCER_WORKLOAD_NAMESPACES", "b,a")
    assert load_settings({}).describe()["workload_namespaces"] == "a,b"


def test_a_namespace_has_at_most_63_characters() -> None:
    assert refused(namespace="a" * 64).endswith("expected the name of a namespace")


@pytest.mark.parametrize("name", ["prod\neu", "x" * 101])
def test_the_name_of_a_cluster_is_a_line(name: str) -> None:
    assert "expected a name of at most 100 characters in one line" in refused(cluster_name=name)
    assert load_settings({"cluster_name": "Köln, Halle 3"}).cluster_name == "Köln, Halle 3"
