"""The command `ndpool`: demo, pool, pyramid, explain, check, c and prove. What it needs is the extra `cli`.

`main` is the whole of it: what the commands raise becomes one line and exit code 2.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

#: What a user can cause: bad arguments, bad files, arrays that do not fit.
EXPECTED = (ValueError, TypeError, OSError, MemoryError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (those of the process by default); returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from .app import UsageFault, app
    except ModuleNotFoundError as missing:
        return _complain(f"the command line needs {missing.name}; install it with: pip install 'ndpool[cli]'")
    try:
        return app(given or ["--help"], prog_name="ndpool", standalone_mode=False) or 0
    except UsageFault as fault:
        context = getattr(fault, "ctx", None)
        command = context.command_path if context else "ndpool"
        return _complain(f"{fault.format_message().rstrip('.')}; see {command} --help")
    except ModuleNotFoundError as missing:
        return _complain(str(missing))
    except EXPECTED as fault:
        return _complain(str(fault) or type(fault).__name__)


def _complain(message: str) -> int:
    print("ndpool: " + " ".join(message.split()), file=sys.stderr)
    return 2
