"""Pages in a real browser: Chromium opens a file, and a script on it writes down what it finds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from urllib.parse import unquote

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium on the PATH (Debian's package is `chromium`): the page is not driven"
)

REPORT = """function report(found) {
  const text = encodeURIComponent(JSON.stringify(found));
  document.body.append(Object.assign(document.createElement("pre"), {id: "found", textContent: text}));
}"""


def found_on(path, folder, *flags):
    """What the scripts of a page give to `report`; `folder` is for the browser's own files."""
    command = [BROWSER, *FLAGS, *flags, f"--user-data-dir={folder / 'profile'}", "--dump-dom", path.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = re.search(r'<pre id="found">([^<]*)</pre>', shown.stdout)
    assert found, f"the page did not answer: {shown.stdout[-2000:]}\n{shown.stderr[-2000:]}"
    return json.loads(unquote(found[1]))


def with_script(page, script):
    """The page with a script at its end, which may use `report`."""
    assert page.count("</body>") == 1
    return page.replace("</body>", f"<script>{REPORT}\n{script}</script></body>")
