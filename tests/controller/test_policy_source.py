"""Policies and scheduler configurations come from files, and their errors are reported."""

from pathlib import Path
from typing import cast

import pytest
from structlog.testing import capture_logs

from rebalancer.adapters.files.profiles import UnreadableProfile, find_folders, read_profile
from rebalancer.controller.policy_source import PolicyWatcher, open_policy, policy_event
from rebalancer.controller.state import LoopEvent, PolicyLoaded, PolicyRefused
from rebalancer.policy import Policy
from rebalancer.settings import load_settings
from tests.adapters.kubernetes.fake_server import served
from tests.build import HEAD, a_policy
from tests.controller.waiting import until


def watched(file: Path) -> tuple[PolicyWatcher, list[LoopEvent]]:
    reported: list[LoopEvent] = []
    return PolicyWatcher(
        read=file.read_bytes, source=str(file), tell=reported.append, first=file.read_bytes(), folders=[file.parent]
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
    return a_policy(f"scheduler:\n{lines}")


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
    assert read_profile(policy(name="packer", configFile=str(file)), [tmp_path]).name == "packer"
    with pytest.raises(
        UnreadableProfile, match=r"has no profile 'other'; set it to the schedulerName of one"
    ) as caught:
        read_profile(policy(name="other", configFile=str(file)), [tmp_path])
    assert "packer" not in str(caught.value), "no value of the file is published"
    with pytest.raises(UnreadableProfile, match="No such file"):
        read_profile(policy(name="packer", configFile=str(tmp_path / "none.yaml")), [tmp_path])
    file.write_text("kind: Other\n")
    with pytest.raises(UnreadableProfile, match=r"scheduler\.configFile: .*: line 1: apiVersion: missing"):
        read_profile(policy(name="packer", configFile=str(file)), [tmp_path])
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(UnreadableProfile, match="loop"):
        read_profile(policy(name="packer", configFile=str(loop)), [tmp_path])


def test_a_scheduler_file_elsewhere_is_not_read(tmp_path: Path) -> None:
    """Who writes the policy may not read a token with it: not by its path, `..` or a link, nor learn that it exists."""
    folder, secrets = tmp_path / "policies", tmp_path / "secrets"
    folder.mkdir()
    secrets.mkdir()
    token = secrets / "token"
    token.write_text("eyJhbGciOiJSUzI1NiJ9")
    (folder / "link.yaml").symlink_to(token)
    for file in (token, folder / ".." / "secrets" / "token", folder / "link.yaml", secrets / "none", tmp_path):
        with pytest.raises(UnreadableProfile) as caught:
            read_profile(policy(name="packer", configFile=str(file)), [folder])
        assert str(caught.value) == (
            f"scheduler.configFile: {file} is not below {folder} or /etc/rebalancer; move it there"
        )
    with pytest.raises(UnreadableProfile, match="is not below /etc/rebalancer; move it there"):
        read_profile(policy(name="packer", configFile=str(token)))
    with pytest.raises(UnreadableProfile, match="is not below"):
        read_profile(policy(name="packer", configFile=str(token)), [Path("/")])


def test_a_scheduler_file_in_the_mounted_config_map_is_read(tmp_path: Path) -> None:
    """Its files are links to `..data`, which is a link to a folder beside them."""
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026" / "scheduler.yaml").write_text(CONFIGURATION)
    (tmp_path / "..data").symlink_to("..2026")
    file = tmp_path / "scheduler.yaml"
    file.symlink_to("..data/scheduler.yaml")
    assert read_profile(policy(name="packer", configFile=str(file)), [tmp_path]).name == "packer"


def test_a_relative_scheduler_file_is_the_policys_neighbour_wherever_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of the working directory: a policy means the same file to everybody."""
    for name in ("policies", "elsewhere"):
        (tmp_path / name / "inner").mkdir(parents=True)
    (tmp_path / "policies" / "inner" / "scheduler.yaml").write_text(CONFIGURATION)
    (tmp_path / "elsewhere" / "inner" / "scheduler.yaml").write_text("kind: Other\n")
    named = policy(name="packer", configFile="inner/scheduler.yaml")
    for where, file in (
        ("policies", "policy.yaml"),
        ("elsewhere", "../policies/policy.yaml"),
        ("policies/inner", "../policy.yaml"),
        ("elsewhere", str(tmp_path / "policies" / "policy.yaml")),
    ):
        monkeypatch.chdir(tmp_path / where)
        assert read_profile(named, find_folders(Path(file))).name == "packer"
    above = policy(name="packer", configFile="../elsewhere/inner/scheduler.yaml")
    with pytest.raises(UnreadableProfile, match=rf"is not below {tmp_path}/policies or /etc/rebalancer; move it there"):
        read_profile(above, find_folders(tmp_path / "policies" / "policy.yaml"))


@pytest.mark.parametrize("beside", ["link", "target"])
def test_the_neighbours_of_a_link_are_its_own_and_those_of_the_policy_it_leads_to(tmp_path: Path, beside: str) -> None:
    for name in ("link", "target", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "target" / "policy.yaml").write_text(HEAD)
    link = tmp_path / "link" / "policy.yaml"
    link.symlink_to("../target/policy.yaml")
    (tmp_path / beside / "scheduler.yaml").write_text(CONFIGURATION)
    (tmp_path / "other" / "scheduler.yaml").write_text(CONFIGURATION)
    assert read_profile(policy(name="packer", configFile="scheduler.yaml"), find_folders(link)).name == "packer"
    with pytest.raises(UnreadableProfile, match="is not below"):
        read_profile(policy(name="packer", configFile="../other/scheduler.yaml"), find_folders(link))


def test_a_policy_of_a_config_map_has_its_neighbours_in_the_mount() -> None:
    mounted = {"scheduler.yaml": CONFIGURATION}
    assert read_profile(policy(name="packer", configFile="scheduler.yaml"), mounted=mounted).name == "packer"
    with pytest.raises(UnreadableProfile, match="is not below /etc/rebalancer; move it there"):
        read_profile(policy(name="packer", configFile="../scheduler.yaml"), mounted=mounted)


def test_a_policy_file_is_opened_with_the_profile_beside_it(tmp_path: Path) -> None:
    """The profile is read before the process starts, and the folder is known for later changes."""
    (tmp_path / "scheduler.yaml").write_text(CONFIGURATION)
    file = tmp_path / "policy.yaml"
    file.write_text(f"{HEAD}scheduler: {{name: packer, configFile: {tmp_path / 'scheduler.yaml'}}}\n")
    with served(lambda _: None) as transport:
        opened = open_policy(load_settings({"policy": str(file), "namespace": "home"}), transport)
        shipped = open_policy(load_settings({"namespace": "home"}), transport)
    assert (opened.profile.name, opened.folder, opened.folders) == ("packer", tmp_path, (tmp_path,))
    assert (shipped.profile.name, shipped.folder, shipped.folders) == ("default-scheduler", None, ())
    event = policy_event(file.read_bytes(), "policy.yaml", opened.folders)
    assert isinstance(event, PolicyLoaded)
    assert event.profile.name == "packer"


def test_text_that_yaml_cannot_convert_refuses_the_policy(tmp_path: Path) -> None:
    """In the policy and in the scheduler's configuration: no text ends the thread that reads them."""
    file, scheduler = tmp_path / "policy.yaml", tmp_path / "scheduler.yaml"
    file.write_text(HEAD)
    watcher, reported = watched(file)
    deep = "[" * 3000
    for text in ("2026-13-45", deep, "a: !!float x", "a: !!int", "a: !!binary ä", "? [a]: b", "a: {<<: 1}", "9" * 5000):
        file.write_text(text)
        watcher.poll()
        scheduler.write_text(text)
        file.write_text(f"{HEAD}scheduler: {{configFile: {scheduler}}} # {text[:20]}\n")
        watcher.poll()
    assert {type(event) for event in reported} == {PolicyRefused}
    assert len(reported) == 16
    assert all("line 1: " in event.message for event in reported[1::2] if isinstance(event, PolicyRefused))


def test_the_thread_survives_whatever_happens(tmp_path: Path) -> None:
    """What fails is tried again in a second, and logged: a later `mode: Observe` must not go unnoticed."""
    file = tmp_path / "policy.yaml"
    file.write_text(f"{HEAD}groups: []\n")
    reported: list[LoopEvent] = []

    def tell(event: LoopEvent) -> None:
        if not logs:
            raise RuntimeError("the loop is not ready")
        reported.append(event)

    with capture_logs() as logs:
        watcher = PolicyWatcher(read=file.read_bytes, source=str(file), tell=tell, first=b"", folders=[tmp_path])
        watcher.start()
        until(lambda: len(reported) == 1, "the policy")
    assert isinstance(reported[0], PolicyLoaded)
    assert [entry["what"] for entry in logs if entry["event"] == "not read"] == ["policy"]
    watcher.stop()
    watcher.thread.join(5)
    assert not watcher.thread.is_alive()


def test_a_defect_of_the_reader_refuses_the_policy() -> None:
    """The event says so, and the log has the details."""
    with capture_logs() as logs:
        event = policy_event(cast("bytes", None), "policy.yaml")
    assert isinstance(event, PolicyRefused)
    assert event.message == "policy.yaml: cannot be read (TypeError); the log has the details"
    assert [entry["log_level"] for entry in logs] == ["error"]


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
