"""Plain C from a pool or a small network, for microcontrollers.

    code = ndpool.c.export(Pool(Avg(), Window((2, 2))), (1, 28, 28), "int8", profile="tflite")
    code.write("build/pool")        pool.h, pool.c and pool_test.c
    print(code.report())            cells, bytes, operations; measured where a cross-compiler is installed

What is written is C99 without allocation and without dependencies: constants for all sizes, one loop nest that says the
formula, and a self test whose numbers are those of the specification.
"""

from ..published import publish
from .code import Code
from .exporting import export
from .profiles import PROFILES as PROFILES
from .profiles import Profile
from .report import Report, Sizes

__all__ = ["PROFILES", "Code", "Profile", "Report", "Sizes", "export"]

publish(__name__)
