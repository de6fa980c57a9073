"""Put the speed table of the README together from the last results. Run with ``python -m benchmarks.readme``."""

import json
from pathlib import Path
from typing import Any

from .blocks import rewrite
from .report import duration, plural, table

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "results.json"
CASES = {
    "max k2s2 NCHW": "max, 2 x 2, stride 2",
    "max k3s2p1 NCHW": "max, 3 x 3, stride 2",
    "avg k2s2 NCHW": "average, 2 x 2, stride 2",
    "avg k3s2p1 NCHW": "average, 3 x 3, stride 2",
    "max k2s2 NCHW forward+vjp": "max, 2 x 2, with gradient",
    "max k3s2p1 NCHW forward+vjp": "max, 3 x 3, with gradient",
}
PEERS = {"torch": "PyTorch", "onnxruntime": "ONNX Runtime", "tensorflow": "TensorFlow", "jax": "JAX"}


def speed_table(everything: dict[str, Any], threads: int = 1) -> str:
    """Ndpool's time, the memory's limit, and how many times as long the others take."""
    rows = []
    for record in everything["records"]:
        if record["case"] not in CASES or record["threads"] != threads:
            continue
        seconds = record["seconds"]
        ours = seconds["ndpool"]
        others = [f"{seconds[peer] / ours:.1f} x" if peer in seconds else "—" for peer in PEERS]
        rows.append([CASES[record["case"]], duration(ours), duration(record["limit"]), *others])
    about = everything["machine"]
    versions = ", ".join(f"{PEERS[p]} {v}" for p in PEERS if (v := about["versions"].get(p)))
    header = ["(8, 64, 112, 112) float32", "ndpool", "memory's limit", *PEERS.values()]
    return (
        f"{table(header, rows)}\nOthers in multiples of ndpool's time. "
        f"`{about['command']}` on {about['cpu']}, {plural(threads)}; {versions}."
    )


def main() -> None:
    if not RESULTS.exists():
        raise SystemExit(f"{RESULTS.relative_to(ROOT)} is not there; run `make bench` first")
    rewrite(ROOT / "README.md", "speed", speed_table(json.loads(RESULTS.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
