"""Whether a Ctrl-C is behind an exception: what is interrupted may have raised another one because of it."""


def is_interrupt(error: BaseException | None) -> bool:
    """Whether `error` or one of its causes is KeyboardInterrupt.

    An import wraps it (Python before 3.12: a class being made), as does pydantic in a serializer of ours.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None
