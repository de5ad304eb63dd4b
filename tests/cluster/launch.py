"""`rebalancer run` by other clocks, with cycles that follow each other at once, or as on another host.

`python -m tests.cluster.launch --rate=1.4 --ahead=-60 --interval=0.01 --host=NAME --stale-after=6 --policy=…`: how fast
its monotonic clock runs, the error of its time in seconds, the seconds between two cycles, the host's name, which a pod
has of its own, the seconds after which a watch that says nothing is stale. Its waits are the system's.
"""

import argparse
import socket
import time
from datetime import UTC, datetime, timedelta

from rebalancer.adapters.kubernetes import reflector
from rebalancer.cli import logs
from rebalancer.cli.parsing import Parser
from rebalancer.cli.settings_flags import add_settings_arguments, load_flags
from rebalancer.controller import process
from rebalancer.controller.state import Clocks


def main() -> None:
    """Run until a signal."""
    launcher = argparse.ArgumentParser(allow_abbrev=False)
    launcher.add_argument("--rate", type=float, default=1.0)
    launcher.add_argument("--ahead", type=float, default=0.0)
    launcher.add_argument("--interval", type=float)
    launcher.add_argument("--host")
    launcher.add_argument("--stale-after", type=float, default=reflector.STALE_AFTER)
    args, rest = launcher.parse_known_args()
    parser = Parser(prog="run", description=__doc__)
    add_settings_arguments(parser)
    settings = load_flags(parser.parse_args(rest))
    logs.configure_logs(level=settings.log_level, form=settings.log_format)
    ahead = timedelta(seconds=args.ahead)
    if args.host is not None:
        socket.gethostname = lambda: args.host
    reflector.STALE_AFTER = args.stale_after
    clocks = Clocks(now=lambda: datetime.now(UTC) + ahead, monotonic=lambda: time.monotonic() * args.rate)
    process.run(settings, clocks, interval=args.interval and timedelta(seconds=args.interval))


if __name__ == "__main__":
    main()
