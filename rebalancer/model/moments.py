"""Points in time as the memory stores them."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

Moment = Annotated[datetime, Meta(tz=True)]
"""A point in time with a time zone; one without, in a memory that somebody has edited, is refused."""
