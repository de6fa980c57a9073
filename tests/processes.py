"""Python in a process of its own, for what might end the process or depends on how it was started."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap


def run_python(code, **environment):
    """The output of a fresh interpreter, which must end well."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()
