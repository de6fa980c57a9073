"""Check what a wheel and its sdist hold: `python tools/check_wheel.py dist`, in the root of the repository."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path


def tracked(*folders: str) -> set[str]:
    """The files of these folders that belong to the project."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    return {name for name in subprocess.check_output(command, text=True).splitlines() if Path(name).exists()}


def check_wheel(names: set[str]) -> list[str]:
    """What is wrong with a wheel of these files: each file of src/ndpool belongs into it, and nothing else does."""
    wanted = {name.removeprefix("src/") for name in tracked("src/ndpool")}
    there = {name for name in names if not re.match(r"ndpool-[^/]*\.dist-info/", name)}
    engines = {name for name in there if re.fullmatch(r"ndpool/_engine\.[^/]*so", name)}
    faults = [f"the wheel lacks {name}" for name in sorted(wanted - there)]
    faults += [f"the wheel holds {name}, which is no part of the package" for name in sorted(there - wanted - engines)]
    faults += [f"the wheel lacks {name}" for name in ("ndpool/py.typed", "ndpool/_engine.pyi") if name not in there]
    if len(engines) != 1:
        faults.append(f"the wheel needs one engine, and holds {sorted(engines)}")
    if not any(re.fullmatch(r"ndpool-[^/]*\.dist-info/licenses/LICENSE", name) for name in names):
        faults.append("the wheel lacks the licence")
    return faults


def check_sdist(names: set[str]) -> list[str]:
    """What is wrong with an sdist of these files: it is enough to build from, and no build of its own is in it."""
    there = {name.partition("/")[2] for name in names}
    wanted = tracked("src", "csrc", "tests", "CMakeLists.txt", "pyproject.toml", "LICENSE", "README.md")
    faults = [f"the sdist lacks {name}" for name in sorted(wanted - there)]
    built = sorted(name for name in there if re.match(r"build/|\.venv|dist/|.*\.so$", name))
    return faults + [f"the sdist holds {name}, which is built" for name in built[:5]]


def only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"{folder} needs one {pattern}, and has {[path.name for path in found]}")
    return found[0]


def main(folder: Path) -> None:
    wheel, sdist = only(folder, "*.whl"), only(folder, "*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        faults = check_wheel({name for name in archive.namelist() if not name.endswith("/")})
    with tarfile.open(sdist) as archive:
        faults += check_sdist({member.name for member in archive if member.isfile()})
    if faults:
        raise SystemExit("\n".join(faults))
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; {sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
