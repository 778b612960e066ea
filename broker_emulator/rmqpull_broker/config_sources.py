"""Where settings come from: flags over environment variables over a configuration file over defaults.

What is wrong with a value is said together with its source: the flag, the variable, or the file and the key.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from rmqpull_broker.config import PROPERTY, SETTINGS, Setting, SettingError, nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROPERTIES_TABLE = "properties"
VARIABLE_PREFIX = "RMQPULL_BROKER_"
CONFIG_VARIABLE = f"{VARIABLE_PREFIX}CONFIG"

# What may stand in the environment beside the broker's own variables: Kubernetes announces a service called
# rmqpull-broker by RMQPULL_BROKER_PORT and the like. Only what is nearly one of ours is taken for a mistake.
_MISTAKE_NEARNESS = 0.8


def variable(setting: Setting) -> str:
    """The environment variable of a setting: ``RMQPULL_BROKER_DATA_DIR`` for ``--data-dir``."""
    return VARIABLE_PREFIX + setting.attribute.upper()


def read_toml(text: str, file_name: str) -> dict[str, Any]:
    """A configuration file's keys and tables. Raises SettingError."""
    try:
        tables: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"{file_name} is no TOML: {error}") from None
    return tables


def resolve(
    flags: Mapping[str, Any], environment: Mapping[str, str], file: Mapping[str, Any], file_name: str
) -> dict[str, Any]:
    """Every setting's parsed value by its attribute name, from the first source that has it.

    ``flags`` holds parsed values by attribute name, without those that were not given; ``file`` is the TOML of
    ``file_name``. Of a repeated setting the first source counts whole, but of the broker's properties each one for
    itself. Raises SettingError for what cannot be read and for names that nothing has.
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
            # The strongest source last: later ones win.
            values[setting.attribute] = tuple(pair for pairs in reversed(found) for pair in pairs)
        else:
            values[setting.attribute] = found[0] if found else setting.default_value
    return values


def _from_environment(setting: Setting, environment: Mapping[str, str]) -> Any:
    text = environment.get(variable(setting))
    if text is None:
        return None
    if not setting.is_repeated:
        return _parsed(setting, text, variable(setting))
    return tuple(_parsed(setting, part.strip(), variable(setting)) for part in text.split(","))


def _from_file(setting: Setting, file: Mapping[str, Any], file_name: str) -> Any:
    if setting is PROPERTY:
        table = file.get(PROPERTIES_TABLE, {})
        return tuple(
            _parsed(setting, f"{name}={_text(value, f'{file_name}: {PROPERTIES_TABLE}.{name}')}", file_name)
            for name, value in table.items()
        )
    value = file.get(setting.name)
    if value is None:
        return None
    source = f"{file_name}: {setting.name}"
    if not setting.is_repeated:
        return _parsed(setting, _text(value, source), source)
    if not isinstance(value, list):
        raise SettingError(f"{source} has the value {value!r}: expected a list of texts")
    return tuple(_parsed(setting, _text(item, source), source) for item in value)


def _parsed(setting: Setting, text: str, source: str) -> Any:
    try:
        return setting.parse(text)
    except SettingError as error:
        raise SettingError(f"{source}: {error}") from None


def _text(value: Any, source: str) -> str:
    """A value of TOML as a flag would spell it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, str)):
        return str(value)
    raise SettingError(f"{source} has the value {value!r}: expected a text, a number, true or false")


def _check_variables(environment: Mapping[str, str]) -> None:
    known = [*map(variable, SETTINGS), CONFIG_VARIABLE]
    for name in sorted(environment):
        if name.startswith(VARIABLE_PREFIX) and name not in known:
            short = name.removeprefix(VARIABLE_PREFIX)
            near = nearest(short, [other.removeprefix(VARIABLE_PREFIX) for other in known], _MISTAKE_NEARNESS)
            if near is not None:
                raise SettingError(f"no setting reads the variable {name}. Did you mean {VARIABLE_PREFIX}{near}?")


def _check_keys(file: Mapping[str, Any], file_name: str) -> None:
    known = [PROPERTIES_TABLE, *(setting.name for setting in SETTINGS if setting is not PROPERTY)]
    for key, value in file.items():
        if key not in known:
            raise SettingError(f"{file_name}: no setting is called {key!r}{_suggestion(key, known)}")
        if (key == PROPERTIES_TABLE) is not isinstance(value, dict):
            raise SettingError(f"{file_name}: {key} must {'' if key == PROPERTIES_TABLE else 'not '}be a table")


def _suggestion(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return "" if near is None else f". Did you mean {near!r}?"
