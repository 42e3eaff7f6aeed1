"""Read a configuration file field by field; nothing in it is believed before it is checked."""

from __future__ import annotations

import json
import operator
import re
import reprlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from calc.units import CalcError

# Far above any published model, low enough that a slip or an attack can't pass for one.
LARGEST = 2**24
MOST_LAYERS = 2**12
MOST_POSITIONS = 2**40
MOST_BYTES = 5 * 1000**2
DEEPEST = 100

_MISSING = object()
_BRACKETS_AND_STRINGS = re.compile(r'[\[{]|[\]}]|"(?:[^"\\]|\\.)*+"?', re.DOTALL)


class ConfigError(CalcError):
    """A configuration is malformed, incomplete or contradicts itself; the message names the field and the remedy."""


class UnsupportedArchitecture(ConfigError):
    """A configuration describes a model, or a feature of one, that the library doesn't know."""


def shown(value: Any) -> str:
    """Quote a value from a file: short, ASCII, and free of anything that could act as markup."""
    if isinstance(value, int) and value.bit_length() > 100:
        return f"a number of {value.bit_length()} bits"
    short = reprlib.Repr()
    short.maxlevel, short.maxlist, short.maxdict, short.maxtuple, short.maxstring = 1, 3, 2, 3, 44
    known = value is None or isinstance(value, (bool, int, float, str, list, tuple, dict))
    try:
        text = short.repr(value) if known else type(value).__name__
    except ValueError:  # an integer inside it has thousands of digits
        text = type(value).__name__
    text = text.encode("ascii", "backslashreplace").decode()
    text = text if len(text) <= 60 else text[:57] + "..."
    return re.sub(r"""[<>&"`]""", lambda mark: f"\\x{ord(mark[0]):02x}", text)


def parse(text: bytes | str) -> dict[str, Any]:
    """Parse the text of a config.json.

    Parameters
    ----------
    text : bytes or str
        The file's content, at most 5 MB. A byte-order mark is ignored.

    Returns
    -------
    dict

    Raises
    ------
    ConfigError
        If it is too large, not UTF-8, not JSON, nested deeper than 100 levels, not an object, or states
        a field twice with different values.

    Examples
    --------
    >>> parse('{"hidden_size": 4096, "hidden_size": 8192}')
    Traceback (most recent call last):
        ...
    calc.models.fields.ConfigError: 'hidden_size' is stated twice, as 4096 and as 8192: keep one
    """
    if not isinstance(text, (bytes, str)):
        raise ConfigError(f"the configuration is {shown(type(text).__name__)}, wanted the text of a config.json")
    if len(text) > MOST_BYTES:
        raise ConfigError(f"the configuration is larger than {MOST_BYTES // 1000**2} MB: a config.json has a few kB")
    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise ConfigError(f"the configuration is not UTF-8 text (byte {error.start}): save it as UTF-8 JSON") from None
    text = text.removeprefix("\ufeff")
    _check_depth(text)
    try:
        data = json.loads(text, object_pairs_hook=_without_contradiction)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ConfigError(f"not valid JSON at {where} ({error.msg}): give the complete config.json") from None
    except ConfigError:
        raise
    except ValueError:  # Python refuses to convert integers of thousands of digits
        raise ConfigError("a number in the configuration has thousands of digits: give the original file") from None
    return mapping(data, "the configuration")


def _check_depth(text: str) -> None:
    """Refuse deep nesting before the parser recurses into it."""
    depth = 0
    for token in _BRACKETS_AND_STRINGS.finditer(text):
        if token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
        if depth > DEEPEST:
            raise ConfigError(f"the configuration is nested deeper than {DEEPEST} levels: a config.json has a few")


def _without_contradiction(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result and (type(result[key]), result[key]) != (type(value), value):
            raise ConfigError(f"{shown(key)} is stated twice, as {shown(result[key])} and as {shown(value)}: keep one")
        result[key] = value
    return result


def read_file(path: str | Path) -> dict[str, Any]:
    """Read and parse a config.json, refusing anything but a regular file of sensible size."""
    try:
        file = Path(path)
        if not file.is_file():
            raise ConfigError(f"no file at {shown(str(path))}: give the path of a config.json")
        with file.open("rb") as handle:
            text = handle.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"cannot read {shown(str(path))}: give the path of a readable config.json") from None
    return parse(text)


def mapping(value: Any, what: str) -> dict[str, Any]:
    """Check that a value is a JSON object."""
    if not isinstance(value, dict):
        raise ConfigError(f"{what} is {shown(value)}: it must be a JSON object with named fields")
    return value


def whole(value: Any) -> int | None:
    """A whole number of any type (an int, a numpy integer), as an int; None for anything else, true and false too."""
    if type(value) is int:
        return value
    if isinstance(value, (bool, str)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def agree(one: Any, other: Any) -> bool:
    """Whether two statements of one field say the same; lists and objects never do (nor recurse)."""
    return type(one) is type(other) and not isinstance(one, (list, tuple, dict)) and one == other


class Fields:
    """The fields of one configuration, with its family's defaults behind them.

    Every reader marks the fields it read, so that `unread` can tell which structural ones were left.

    Parameters
    ----------
    data : dict
        The configuration, or its text part.
    family : str
        The model type, for messages.
    defaults : mapping
        What the family's configuration class assumes for a field that a file leaves out.
    names : mapping
        What the family calls a field instead of the usual name.
    """

    def __init__(
        self, data: dict[str, Any], family: str, defaults: Mapping[str, Any], names: Mapping[str, str] | None = None
    ) -> None:
        self.data, self.family, self.defaults, self.names = data, family, defaults, names or {}
        self._read: set[str] = set()

    def error(self, problem: str) -> ConfigError:
        """An error that says which kind of configuration it is about."""
        return ConfigError(f"{self.family} configuration: {problem}")

    def value(self, *names: str) -> Any:
        """The raw value of a field, None where neither the file nor the class has one.

        Several names are the ones that different writers give to one field.
        """
        value = self._find(names)
        return None if value is _MISSING else value

    def called(self, *names: str) -> str:
        """The name of a field in this file; where the file doesn't state it, the name in this family."""
        theirs = self._theirs(names)
        return next((name for name in theirs if name in self.data), theirs[0])

    def _theirs(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return (*(self.names[name] for name in names if name in self.names), *names)

    def _find(self, names: tuple[str, ...]) -> Any:
        usual, names = names[0], self._theirs(names)
        self._read.update(names)
        stated = [(name, self.data[name]) for name in names if name in self.data]
        for name, value in stated[1:]:
            if not agree(value, stated[0][1]):
                one, other = f"{stated[0][0]} is {shown(stated[0][1])}", f"{name} is {shown(value)}"
                raise self.error(f"{one} but {other}: they mean the same and must agree")
        if stated:
            return stated[0][1]
        return self.defaults.get(usual, _MISSING)

    def count(self, *names: str, least: int = 1, most: int = LARGEST) -> int:
        """A whole number that the file must state, or its family's class must supply."""
        return self._whole(names, self._find(names), f"a whole number from {least:,} to {most:,}", least, most)

    def optional_count(self, *names: str, least: int = 1, most: int = LARGEST, required: bool = True) -> int | None:
        """A whole number or null; a file may leave it out only if `required` is false or the class has a default."""
        value = self._find(names)
        if value is _MISSING and not required:
            return None
        wanted = f"null or a whole number from {least:,} to {most:,}"
        return None if value is None else self._whole(names, value, wanted, least, most)

    def _whole(self, names: tuple[str, ...], value: Any, wanted: str, least: int, most: int) -> int:
        if value is _MISSING:
            raise self.error(f"{self.called(*names)} is missing: it must be {wanted}")
        number = whole(value)
        if number is None or not least <= number <= most:
            raise self.error(f"{self.called(*names)} is {shown(value)}: it must be {wanted}")
        return number

    def flag(self, name: str) -> bool:
        """A switch: true or false; null counts as left out."""
        value = self.value(name)
        if value is None:
            value = self.defaults.get(name)
        if value is None:
            raise self.error(f"{name} is missing: it must be true or false")
        if not isinstance(value, bool):
            raise self.error(f"{name} is {shown(value)}: it must be true or false")
        return value

    def words(self, name: str, allowed: Iterable[str], length: int) -> list[str] | None:
        """A list with one word per layer, or None where the file has none."""
        value, allowed = self.value(name), tuple(allowed)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != length:
            given = f"a list of {len(value)}" if isinstance(value, list) else shown(value)
            raise self.error(f"{name} is {given}: it must be a list with one entry for each of the {length} layers")
        for i, word in enumerate(value):
            if word not in allowed:
                raise UnsupportedArchitecture(
                    f"{self.family} configuration: {name}[{i}] is {shown(word)}: supported are {', '.join(allowed)}"
                )
        return value

    def indices(self, name: str, length: int) -> frozenset[int]:
        """A list of layer numbers, possibly empty."""
        value = self.value(name)
        if value is None:
            return frozenset()
        if not isinstance(value, list):
            raise self.error(f"{name} is {shown(value)}: it must be a list of layer numbers")
        for index in value:
            if type(index) is not int or not 0 <= index < length:
                raise self.error(f"{name} names layer {shown(index)}: the layers are 0 to {length - 1}")
        return frozenset(value)

    def unread(self, structural: Iterable[str]) -> list[str]:
        """The structural fields that the file sets to something and nobody read."""
        return [name for name in structural if name not in self._read and self.data.get(name)]
