"""Policies and scheduler configurations come from files, and their errors are reported."""

from pathlib import Path

import pytest

from rebalancer.controller.policy_source import PolicyWatcher, UnreadableProfile, read_profile
from rebalancer.controller.state import LoopEvent, PolicyLoaded, PolicyRefused
from rebalancer.policy import Policy, load_policy

HEAD = "apiVersion: rebalancer.dev/v1alpha1\nkind: RebalancePolicy\n"


def watched(file: Path) -> tuple[PolicyWatcher, list[LoopEvent]]:
    reported: list[LoopEvent] = []
    return PolicyWatcher(
        read=file.read_bytes, source=str(file), tell=reported.append, first=file.read_bytes()
    ), reported


def test_a_changed_file_is_read_once(tmp_path: Path) -> None:
    """A change is reported once; an unchanged policy is not reported."""
    file = tmp_path / "policy.yaml"
    file.write_text(HEAD)
    watcher, reported = watched(file)
    watcher.poll()
    assert reported == []
    file.write_text(f"{HEAD}mode: Evict\n")
    watcher.poll()
    watcher.poll()
    (event,) = reported
    assert isinstance(event, PolicyLoaded)
    assert event.policy.mode == "Evict"


def test_a_file_that_is_no_policy_or_gone(tmp_path: Path) -> None:
    """Both are reported with the file's name, and its return is reported too."""
    file = tmp_path / "policy.yaml"
    file.write_text(HEAD)
    watcher, reported = watched(file)
    file.write_text(f"{HEAD}mode: Evict\nmode: Evict\n")
    watcher.poll()
    file.unlink()
    watcher.poll()
    watcher.poll()
    file.write_text(HEAD)
    watcher.poll()
    assert [type(event) for event in reported] == [PolicyRefused, PolicyRefused, PolicyLoaded]
    assert all(str(file) in event.message for event in reported if isinstance(event, PolicyRefused))


def test_a_directory_that_is_exchanged_as_a_whole(tmp_path: Path) -> None:
    """A mounted ConfigMap changes by an exchanged link; that is noticed like any other change."""
    for name, mode in (("one", "Observe"), ("two", "Evict")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text(f"{HEAD}mode: {mode}\n")
    data = tmp_path / "..data"
    data.symlink_to(tmp_path / "one")
    file = tmp_path / "policy.yaml"
    file.symlink_to(data / "policy.yaml")
    watcher, reported = watched(file)
    fresh = tmp_path / "..data_tmp"
    fresh.symlink_to(tmp_path / "two")
    fresh.rename(data)
    watcher.poll()
    (event,) = reported
    assert isinstance(event, PolicyLoaded)
    assert event.policy.mode == "Evict"


def policy(**scheduler: str) -> Policy:
    lines = "".join(f"  {key}: {value}\n" for key, value in scheduler.items())
    return load_policy(f"{HEAD}scheduler:\n{lines}".encode(), source="policy.yaml")


CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: packer
"""


def test_scheduler_profiles(tmp_path: Path) -> None:
    """The name alone means Kubernetes' defaults; a configuration file must have a profile of that name."""
    assert read_profile(policy(name="mine")).name == "mine"
    file = tmp_path / "scheduler.yaml"
    file.write_text(CONFIGURATION)
    assert read_profile(policy(name="packer", configFile=str(file))).name == "packer"
    with pytest.raises(UnreadableProfile, match="only packer"):
        read_profile(policy(name="other", configFile=str(file)))
    with pytest.raises(UnreadableProfile, match="No such file"):
        read_profile(policy(name="packer", configFile=str(tmp_path / "none.yaml")))
    file.write_text("kind: Other\n")
    with pytest.raises(UnreadableProfile, match=r"scheduler\.configFile"):
        read_profile(policy(name="packer", configFile=str(file)))


def test_a_policy_with_a_bad_scheduler_file_is_refused(tmp_path: Path) -> None:
    """It does not come into force half."""
    file = tmp_path / "policy.yaml"
    file.write_text(HEAD)
    watcher, reported = watched(file)
    file.write_text(f"{HEAD}scheduler: {{configFile: {tmp_path / 'none.yaml'}}}\n")
    watcher.poll()
    (event,) = reported
    assert isinstance(event, PolicyRefused)
    assert "configFile" in event.message
