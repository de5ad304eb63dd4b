"""Where the installed commands begin: Ctrl-C ends them quietly while the program itself is still being imported."""

import gc
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from rebalancer.cli.main import main as run  # noqa: PLC0415  # the import is what may be interrupted

        code = run()
        gc.freeze()  # the interpreter's last collection would visit all that is about to be freed anyway
        sys.exit(code)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":  # the image starts it as a module; its interpreter knows no installed scripts
    main()
