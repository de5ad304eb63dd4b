"""Whether Ctrl-C caused an exception: interrupted code may raise a different exception."""


def is_interrupt(error: BaseException | None) -> bool:
    """Whether `error` or one of its causes is KeyboardInterrupt.

    An import wraps KeyboardInterrupt (Python before 3.12: while a class is made), and so does pydantic in a serializer.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None
