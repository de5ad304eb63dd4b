"""The start of the installed commands: Ctrl-C ends them quietly even while the program is being imported.

Only the program itself prints to standard output.
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
        gc.freeze()  # the interpreter's last collection would visit objects that are freed anyway
        sys.exit(code)
    except BaseException as error:
        if not is_interrupt(error):
            raise
        sys.exit(_INTERRUPTED)


def _open_closed_streams() -> None:
    """Open standard streams that the caller has closed (`>&-`) on the null device, as programs in Go do.

    Otherwise writing to them ends in a traceback, and the next socket gets their number and thus the printed text.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is the stream's if that is still free
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def _keep_standard_output() -> None:
    """Move standard output to a new descriptor, and send descriptor 1, to which C code prints, to standard error.

    For example, some releases of HiGHS write warnings to descriptor 1 regardless of their options.
    """
    before = sys.stdout
    if before is not sys.__stdout__ or not isinstance(before, io.TextIOWrapper):
        return  # a caller has replaced it, and reads what is printed
    # With `python -u`, nothing is buffered between the text and the file.
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


if __name__ == "__main__":  # the image starts this module, because its interpreter has no installed scripts
    main()
