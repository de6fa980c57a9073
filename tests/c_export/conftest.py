"""The suite of exported C: `make test-c` on the host, `make test-chips` on emulated chips, `make test-tflite`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
