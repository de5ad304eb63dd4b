"""How every verb writes its document: as JSON, as YAML, or as the text that the verb makes of it."""

import sys
from collections.abc import Callable

from msgspec import Struct

from rebalancer.documents.document import json_chunks, to_yaml


def write_document(document: Struct, output: str, text: Callable[[], str]) -> None:
    """Write a document to standard output in a format; `text` makes every format but json and yaml."""
    match output:
        case "json":
            sys.stdout.writelines(json_chunks(document))
        case "yaml":
            sys.stdout.write(to_yaml(document))
        case _:
            sys.stdout.write(text())
