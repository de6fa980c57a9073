"""`python -m ndpool` is the command `ndpool`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
