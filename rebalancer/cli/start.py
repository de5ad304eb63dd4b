"""Where the installed commands begin: Ctrl-C ends them quietly while the program itself is still being imported.

Standard output is only for what the program itself prints.
"""

import gc
import io
import os
import sys

from rebalancer.cli.interrupts import is_interrupt

_INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        _open_closed_streams()
        _keep_standard_output()
        from rebalancer.cli.main import main as run  # noqa: PLC0415  # the import is what may be interrupted

        code = run()
        gc.freeze()  # the interpreter's last collection would visit all that is about to be freed anyway
        sys.exit(code)
    except BaseException as error:
        if not is_interrupt(error):
            raise
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


def _keep_standard_output() -> None:
    """Give standard output another descriptor, and its number to standard error: what C code prints is no answer.

    HiGHS, for one, writes warnings to number 1, in some releases whatever its options say.
    """
    before = sys.stdout
    if before is not sys.__stdout__ or not isinstance(before, io.TextIOWrapper):
        return  # somebody else has replaced it, and reads what is printed
    # With `python -u`, nothing between the text and the file holds anything back.
    file = os.fdopen(os.dup(1), "wb", buffering=0 if before.write_through else -1)
    kept = io.TextIOWrapper(
        file,
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )
    os.dup2(2, 1)
    sys.stdout = sys.__stdout__ = kept  # type: ignore[misc]  # the terminal's size is asked of the latter


if __name__ == "__main__":  # the image starts it as a module; its interpreter knows no installed scripts
    main()
