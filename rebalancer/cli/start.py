"""Where the installed commands begin: Ctrl-C ends them quietly while the program itself is still being imported."""

import gc
import os
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        _open_closed_streams()
        from rebalancer.cli.main import main as run  # noqa: PLC0415  # the import is what may be interrupted

        code = run()
        gc.freeze()  # the interpreter's last collection would visit all that is about to be freed anyway
        sys.exit(code)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _open_closed_streams() -> None:
    """Open standard streams that the caller has closed (`>&-`) on the null device, as programs in Go do.

    Else writing to them ends in a traceback, and the next socket gets their number, and with it what is printed.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest free number: that of the stream, if it is still free
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


if __name__ == "__main__":  # the image starts it as a module; its interpreter knows no installed scripts
    main()
