"""Where the installed commands begin: Ctrl-C ends them quietly while the program itself is still being imported."""

import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from rebalancer.cli.main import main as run  # noqa: PLC0415  # the import is what may be interrupted

        sys.exit(run())
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":  # the image starts it as a module; its interpreter knows no installed scripts
    main()
