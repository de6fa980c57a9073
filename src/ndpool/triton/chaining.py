"""Kernels that follow each other at once: the next one is brought to the card while the one before is still at work.

Such a kernel waits where it first needs what the one before has made, or writes to the same memory. A launch takes
half as long so, and what a kernel does before it waits takes no time at all. NVIDIA's cards can do so since Hopper.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_wait


@triton.jit
def wait_for_the_one_before(CHAINED: tl.constexpr):
    """All that the kernel before has written is there."""
    if CHAINED:
        gdc_wait()
