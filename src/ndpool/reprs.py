"""How values are written in messages, tables and titles."""

from __future__ import annotations

import dataclasses
from typing import Any


def brief(value: Any) -> str:
    """What one would type to get `value`: its repr, without the arguments that are at their defaults.

    >>> from ndpool import Max, Pool, Window
    >>> brief(Pool(Max(), Window((2, 2), padding=1)))
    'Pool(Max(), Window((2, 2), padding=1))'
    """
    written_by_dataclass = getattr(getattr(value, "__dataclass_params__", None), "repr", False)
    if not written_by_dataclass or isinstance(value, type):
        return repr(value)
    shown = []
    for field in dataclasses.fields(value):
        argument = getattr(value, field.name)
        if field.default is dataclasses.MISSING:
            shown.append(brief(argument))
        elif argument != field.default:
            shown.append(f"{field.name}={brief(argument)}")
    return f"{type(value).__name__}({', '.join(shown)})"
