"""Which build of the program this is."""

from pathlib import Path


def find_revision() -> str:
    """Return the commit that an image was built from, which its build writes beside this module; "" elsewhere."""
    try:
        return Path(__file__).with_name("REVISION").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""
