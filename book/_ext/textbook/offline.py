"""The book on the reader's own device: the service worker with the list of this edition's files."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from pathlib import Path

from sphinx.application import Sphinx

SOURCE = Path(__file__).parents[2] / "_templates" / "sw.js"
# what no page asks for: pictures for other sites, notes to the host and Sphinx's own
LEFT_OUT = ("sw.js", "CNAME", "objects.inv", "sitemap.txt", "_static/cards/", "_static/readme-page.png", ".")


def edition(site: Path) -> dict[str, str]:
    """Each file that a page may need, with its SHA-256 in base 64; the small ones first, so that Python comes last."""
    files = {path.relative_to(site).as_posix(): path for path in site.rglob("*") if path.is_file()}
    wanted = {name: path for name, path in files.items() if not name.startswith(LEFT_OUT)}
    by_size = sorted(wanted.items(), key=lambda item: (item[1].stat().st_size, item[0]))
    return {name: b64encode(hashlib.sha256(path.read_bytes()).digest()).decode() for name, path in by_size}


def script(site: Path) -> str:
    """The service worker of this edition."""
    return f"const EDITION = {json.dumps(edition(site), separators=(',', ':'))};\n{SOURCE.read_text('utf-8')}"


def write(app: Sphinx, exception: Exception | None) -> None:
    """Write the service worker of a build that is done."""
    if exception is None:
        site = Path(app.outdir)
        (site / "sw.js").write_text(script(site), "utf-8")


def setup(app: Sphinx) -> None:
    app.connect("build-finished", write, priority=900)  # after all that others write then
