"""The flags of `rebalancer run`, made from the declarations of the settings, so nothing is declared twice.

Other verbs that act on a cluster take some of these flags.
"""

import argparse
from collections.abc import Sequence
from datetime import timedelta

from pydantic.fields import FieldInfo

from rebalancer.cli.errors import CliError
from rebalancer.cli.parsing import Parser
from rebalancer.model.words import format_duration
from rebalancer.settings import HelpText, Settings, SettingsError, flag_of, load_settings, variable_of


def add_settings_arguments(parser: Parser, *, only: Sequence[str] | None = None) -> None:
    """Declare a flag for each setting, or `only` for some; its help names the default and the environment variable."""
    for name in only or Settings.model_fields:
        field = Settings.model_fields[name]
        about = (field.description or "").removesuffix(".").replace("%", "%%")
        text = f"{about} [default: {_default_text(field)}; ${variable_of(name)}]"
        if field.annotation is bool:
            parser.add_argument(flag_of(name), dest=name, action="store_true", default=argparse.SUPPRESS, help=text)
        else:
            form = _help_form(field).form
            aliases = ["-n", "--namespace"] if name == "namespace" else []
            parser.add_argument(flag_of(name), *aliases, dest=name, metavar=form, default=argparse.SUPPRESS, help=text)


def load_flags(args: argparse.Namespace) -> Settings:
    """Combine the given flags with the environment; CliError lists all problems."""
    given = {name: value for name, value in vars(args).items() if name in Settings.model_fields}
    try:
        return load_settings(given)
    except SettingsError as error:
        raise CliError("the settings are wrong:", *error.problems) from None


def _help_form(field: FieldInfo) -> HelpText:
    return next((entry for entry in field.metadata if isinstance(entry, HelpText)), HelpText("VALUE"))


def _default_text(field: FieldInfo) -> str:
    described = _help_form(field).default
    if described is not None:
        return described
    default = field.default
    if isinstance(default, timedelta):
        return format_duration(default)
    return str(default).lower() if isinstance(default, bool) else str(default)
