"""The sources of settings, in order of priority: flags, environment variables, the configuration file, defaults.

An error names its source: the flag, the variable, or the file and the key.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rmqpull_broker.config import PROPERTY, SETTINGS, Setting
from rmqpull_broker.config_values import SettingError
from rmqpull_broker.core.near_names import find_nearest, suggest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROPERTIES_TABLE = "properties"
VARIABLE_PREFIX = "RMQPULL_BROKER_"
CONFIG_VARIABLE = f"{VARIABLE_PREFIX}CONFIG"

# The environment may have other variables with our prefix: Kubernetes sets RMQPULL_BROKER_PORT and the like for a
# service called rmqpull-broker. So only a variable that is very similar to one of ours counts as a mistake.
_MISTAKE_NEARNESS = 0.8


def name_variable(setting: Setting) -> str:
    """Names the environment variable of a setting: ``RMQPULL_BROKER_DATA_DIR`` for ``--data-dir``."""
    return VARIABLE_PREFIX + setting.attribute.upper()


def read_toml(text: str, file_name: str) -> dict[str, Any]:
    """Parses a configuration file. Raises SettingError."""
    try:
        tables: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"{file_name} is not TOML: {error}") from None
    return tables


def resolve(
    flags: Mapping[str, Any], environment: Mapping[str, str], file: Mapping[str, Any], file_name: str
) -> dict[str, Any]:
    """Returns the parsed value of every setting by attribute name, from the first source that has it.

    ``flags`` has the parsed values of the given flags by attribute name; ``file`` is the TOML of ``file_name``. All
    values of a repeated setting come from one source, but each of the broker's properties has its own. Raises
    SettingError for invalid values and for unknown names.
    """
    _check_variables(environment)
    _check_keys(file, file_name)
    values = {}
    for setting in SETTINGS:
        found = [
            value
            for value in (
                flags.get(setting.attribute),
                _from_environment(setting, environment),
                _from_file(setting, file, file_name),
            )
            if value is not None
        ]
        if setting is PROPERTY:
            # Reversed, because later values win: the source with the highest priority comes last.
            values[setting.attribute] = tuple(pair for pairs in reversed(found) for pair in pairs)
        else:
            values[setting.attribute] = found[0] if found else setting.default_value
    return values


def _from_environment(setting: Setting, environment: Mapping[str, str]) -> Any:
    text = environment.get(name_variable(setting))
    if text is None:
        return None
    if not setting.is_repeated:
        return _parse(setting, text, name_variable(setting))
    return tuple(_parse(setting, part.strip(), name_variable(setting)) for part in text.split(","))


def _from_file(setting: Setting, file: Mapping[str, Any], file_name: str) -> Any:
    if setting is PROPERTY:
        table = file.get(PROPERTIES_TABLE, {})
        return tuple(
            _parse(setting, f"{name}={_text(value, f'{file_name}: {PROPERTIES_TABLE}.{name}')}", file_name)
            for name, value in table.items()
        )
    value = file.get(setting.name)
    if value is None:
        return None
    source = f"{file_name}: {setting.name}"
    if not setting.is_repeated:
        return _parse(setting, _text(value, source), source)
    if not isinstance(value, list):
        raise SettingError(f"{source} is {value!r}: use a list of strings")
    return tuple(_parse(setting, _text(item, source), source) for item in value)


def _parse(setting: Setting, text: str, source: str) -> Any:
    try:
        return setting.parse(text)
    except SettingError as error:
        raise SettingError(f"{source}: {error}") from None


def _text(value: Any, source: str) -> str:
    """Formats a TOML value as its flag takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, str)):
        return str(value)
    raise SettingError(f"{source} is {value!r}: use a string, a number, true or false")


def _check_variables(environment: Mapping[str, str]) -> None:
    known = [*map(name_variable, SETTINGS), CONFIG_VARIABLE]
    for name in sorted(environment):
        if name.startswith(VARIABLE_PREFIX) and name not in known:
            short = name.removeprefix(VARIABLE_PREFIX)
            near = find_nearest(short, [other.removeprefix(VARIABLE_PREFIX) for other in known], _MISTAKE_NEARNESS)
            if near is not None:
                raise SettingError(f"unknown variable {name}. Did you mean {VARIABLE_PREFIX}{near}?")


def _check_keys(file: Mapping[str, Any], file_name: str) -> None:
    known = [PROPERTIES_TABLE, *(setting.name for setting in SETTINGS if setting is not PROPERTY)]
    for key, value in file.items():
        if key not in known:
            raise SettingError(f"{file_name}: unknown setting {key!r}{suggest(key, known)}")
        if (key == PROPERTIES_TABLE) is not isinstance(value, dict):
            raise SettingError(f"{file_name}: {key} must {'' if key == PROPERTIES_TABLE else 'not '}be a table")
