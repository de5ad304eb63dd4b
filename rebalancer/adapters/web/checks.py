"""Health, check by check, in the format of Kubernetes' own components."""

from collections.abc import Callable, Mapping

Check = Callable[[], str]
"""Returns why the check fails, "" if it passes."""

Checks = Mapping[str, Check]
"""Checks by their names."""


def run_checks(checks: Checks, path: str, *, verbose: bool) -> tuple[bool, str]:
    """Run all checks; return whether all pass, and the text, which lists the checks if one fails or if `verbose`."""
    failures = {name: _run_check(check) for name, check in checks.items()}
    passed = not any(failures.values())
    if passed and not verbose:
        return True, "ok\n"
    lines = [f"[-]{name} failed: {wrong}" if wrong else f"[+]{name} ok" for name, wrong in failures.items()]
    return passed, "\n".join([*lines, f"{path} check {'passed' if passed else 'failed'}", ""])


def _run_check(check: Check) -> str:
    try:
        return check()
    except Exception as error:  # noqa: BLE001  # a check that raises has failed
        return f"{type(error).__name__}: {error}"
