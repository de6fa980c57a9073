"""How the runtimes of microcontrollers round the mean of integers: data over `Avg(rounding, count_include_pad)`.

A profile is the rule of one runtime for quantised averages: how the exact mean of the raw codes becomes a code again,
and whether padded cells count. Scale and zero point are the same on both sides of a pool, so that the codes are
averaged as they are. The mean of codes lies between them, so that the clamp of a runtime that has no activation to
fuse changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..kinds import Avg


@dataclass(frozen=True)
class Profile:
    """The rule of a runtime: how it rounds, what it divides by, and for which dtypes.

    `padding_counts` is None where the model itself says whether padded cells count. `whole_kernel` says that the
    divisor is the kernel, also where a window reaches over the padding.
    """

    rounding: str
    padding_counts: bool | None
    dtypes: tuple[str, ...]
    why: str
    whole_kernel: bool = False

    def kind(self, padding_counts: bool) -> Avg:
        """The average that the runtime computes; where it leaves that open, padded cells count as they are told to."""
        counts = padding_counts if self.padding_counts is None else self.padding_counts
        return Avg(count_include_pad=counts, rounding=self.rounding)


_SIGNED = ("int8", "int16")

#: The rules by the names of the runtimes.
PROFILES: dict[str, Profile] = {
    "tflite": Profile(
        "half_away", False, _SIGNED, "adds half of the count with the sign of the sum, and divides towards zero"
    ),
    "cmsis-nn": Profile(
        "half_away", False, _SIGNED, "adds half of the count with the sign of the sum, and divides towards zero"
    ),
    "esp-nn": Profile("half_away", False, ("int8",), "adds half of the count with the sign of the sum, and divides"),
    "tflite-uint8": Profile("half_up", False, ("uint8",), "adds half of the count to a sum that is not negative"),
    "nnom": Profile("truncate", False, ("int8",), "divides the sum by the count, as C does"),
    "onnxruntime": Profile(
        "half_even", None, ("int8", "uint8"), "averages in float32 and requantises to the nearest, even at halves"
    ),
    "esp-dl": Profile("half_up", True, _SIGNED, "adds one half and shifts, over the whole kernel", whole_kernel=True),
    "esp-dl-p4": Profile(
        "half_even", True, _SIGNED, "rounds to the nearest, even at halves, over the whole kernel", whole_kernel=True
    ),
}
