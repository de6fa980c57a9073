"""The metadata of OME-Zarr 0.5, written and read: axes, and where each level lies in space.

A cell of level l has the size `scale * factor^l`, and the first one has its centre at
`scale * ((factor^l - 1) / 2)`: 0.5, 1.5, 3.5 for factor 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

VERSION = "0.5"
SPACE = "zyx"
TYPES = {"t": "time", "c": "channel", **dict.fromkeys(SPACE, "space")}

#: The units that OME-Zarr knows for lengths, some of many.
DEFAULT_AXES = "tczyx"


@dataclass(frozen=True)
class Frame:
    """The axes of an image by their names, and its first level's scale, translation and unit along each."""

    axes: tuple[str, ...]
    scale: tuple[float, ...]
    translation: tuple[float, ...]
    units: tuple[str | None, ...]

    @property
    def space(self) -> tuple[int, ...]:
        """Which axes are of space."""
        return tuple(d for d, name in enumerate(self.axes) if TYPES.get(name) == "space")


def checked_axes(axes: Any, ndim: int) -> tuple[str, ...]:
    """The names of the axes: those given, or the last of t, c, z, y, x.

    >>> checked_axes(None, 3), checked_axes("cyx", 3)
    (('z', 'y', 'x'), ('c', 'y', 'x'))
    """
    if axes is None:
        if not 2 <= ndim <= len(DEFAULT_AXES):
            raise ValueError(f"the source has {ndim} axes, and an image of OME-Zarr has 2 to 5; choose some of them")
        return tuple(DEFAULT_AXES[-ndim:])
    names = tuple(axes)
    order = [DEFAULT_AXES.find(name) for name in names]
    if len(names) != ndim or -1 in order or order != sorted(set(order)) or sum(n in SPACE for n in names) < 2:
        raise ValueError(
            f"axes={''.join(map(str, names))!r} for a source of {ndim} axes; give a name for each, in the order of "
            f"{DEFAULT_AXES!r} and with two or three of z, y, x"
        )
    return names


def metadata(
    frame: Frame, name: str, factors: Sequence[Sequence[int]], method: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """The attributes of the group that holds the levels, each of which is named by its number."""
    axes = []
    for axis, unit in zip(frame.axes, frame.units, strict=True):
        axes.append({"name": axis, "type": TYPES[axis]} | ({} if unit is None else {"unit": unit}))
    datasets = [
        {"path": str(level), "coordinateTransformations": _transformations(frame, steps)}
        for level, steps in enumerate(factors)
    ]
    return {
        "ome": {
            "version": VERSION,
            "multiscales": [{"name": name, "axes": axes, "datasets": datasets, "type": method, "metadata": arguments}],
        }
    }


def _transformations(frame: Frame, steps: Sequence[int]) -> list[dict[str, Any]]:
    scale = [size * step for size, step in zip(frame.scale, steps, strict=True)]
    shift = [
        start + size * (step - 1) / 2 for start, size, step in zip(frame.translation, frame.scale, steps, strict=True)
    ]
    return [{"type": "scale", "scale": scale}, {"type": "translation", "translation": shift}]


def frame_of(attributes: dict[str, Any]) -> tuple[Frame, str] | None:
    """What the metadata of a group says of its first image, and the path of its first level; None where it has none."""
    listed = attributes.get("ome", attributes).get("multiscales")
    if not listed:
        return None
    image = listed[0]
    axes = [axis if isinstance(axis, dict) else {"name": axis} for axis in image.get("axes", [])]
    first = image["datasets"][0]
    scale, shift = [1.0] * len(axes), [0.0] * len(axes)
    for each in (*first.get("coordinateTransformations", ()), *image.get("coordinateTransformations", ())):
        if each["type"] == "scale":
            scale = [a * b for a, b in zip(scale, each["scale"], strict=True)]
            shift = [a * b for a, b in zip(shift, each["scale"], strict=True)]
        elif each["type"] == "translation":
            shift = [a + b for a, b in zip(shift, each["translation"], strict=True)]
    names = tuple(axis["name"] for axis in axes)
    units = tuple(axis.get("unit") for axis in axes)
    return Frame(names, tuple(scale), tuple(shift), units), first["path"]
