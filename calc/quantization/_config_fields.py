"""Fields of a quantization's configuration: lists of modules, few choices, and refusals with what would do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from calc.models import ConfigError
from calc.models.fields import Fields, shown

_MOST_PATTERNS, _LONGEST_PATTERN, _MOST_EXPRESSIONS, _MOST_REPEATS = 100_000, 200, 100, 3
# Names of checkpoints, and what the same modules are called here
_RENAMED = {
    "language_model.": "",
    "block_sparse_moe": "mlp",
    "index_q_proj": "indexer.q_proj",
    "index_k_proj": "indexer.k_proj",
}
_SAFE_PATTERN = re.compile(r"(\\[.d]|[\w.,:|$^()\[\]+*?-])*")
REMEDY = "If you know how it stores a matrix, give calc.quantization.stored the model and a Scheme of your own"


class UnsupportedQuantization(ConfigError):
    """A configuration names a quantization method, or a feature of one, that the library doesn't know."""


def patterns(f: Fields, *names: str) -> tuple[str, ...] | None:
    """A list of modules, checked: an expression from a file must not be able to run away."""
    value = f.value(*names) if len(names) == 1 else next((v for v in map(f.value, names) if v is not None), None)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > _MOST_PATTERNS or not all(isinstance(v, str) and v for v in value):
        raise f.error(f"{names[0]} is {shown(value)}: it must be a list of module names")
    for pattern in value:
        if len(pattern) > _LONGEST_PATTERN or (pattern.startswith("re:") and not _tame(pattern[3:])):
            raise f.error(
                f"{names[0]} has the expression {shown(pattern)}: write it with . * | ( ) and plain names, and at most "
                f"{_MOST_REPEATS} of * + ?"
            )
    if sum(pattern.startswith("re:") for pattern in value) > _MOST_EXPRESSIONS:
        raise f.error(f"{names[0]} has more than {_MOST_EXPRESSIONS} expressions: list the modules by name")
    for theirs, ours in _RENAMED.items():
        value = [pattern.replace(theirs, ours) for pattern in value]
    return tuple(filter(None, value))


def _tame(expression: str) -> bool:
    repeats = len(re.findall(r"[*+?]", expression))
    if (
        repeats > _MOST_REPEATS
        or re.search(r"\)[*+?]|[*+?][*+]", expression)
        or not _SAFE_PATTERN.fullmatch(expression)
    ):
        return False
    try:
        re.compile(expression)
    except re.error:
        return False
    return True


def choice(f: Fields, name: str, allowed: Iterable[Any], default: Any = None) -> Any:
    """A field with few possible values; an unknown one is a feature that isn't supported."""
    value = f.value(name)
    value = default if value is None else value
    allowed = tuple(allowed)
    if not any(type(value) is type(a) and value == a for a in allowed):
        known = ", ".join(shown(a) for a in allowed)
        raise UnsupportedQuantization(f"{f.family}: {name} is {shown(value)}: known here are {known}. {REMEDY}")
    return value


def refuse(f: Fields, *names: str) -> None:
    """Refuse features that would change the bytes."""
    for name in names:
        if f.value(name):
            raise UnsupportedQuantization(
                f"{f.family}: {name} is {shown(f.value(name))}, which is not supported here. {REMEDY}"
            )


def group_of(f: Fields, name: str = "group_size") -> int | None:
    """Weights in a group; -1 for the whole row."""
    if f.value(name) == -1:
        return None
    return f.count(name, most=2**16)


def size_of(group: int | None) -> str:
    return "channel scales" if group is None else f"g{group}"
