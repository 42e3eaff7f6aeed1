"""Execute the chapters and write them in normal form, so that a diff shows what changed and nothing else.

``python tools/notebooks.py``          execute the chapters whose code, library or data changed
``python tools/notebooks.py --all``    execute every chapter
``python tools/notebooks.py --check``  execute nothing; fail if a chapter is not in normal form

Normal form: no execution counts, no kernel versions, only the metadata the book uses, cell ids that do not change from
run to run, adjoining pieces of one stream joined, keys sorted, one space of indentation, line feeds.
Outputs are otherwise left as the code made them: what is not reproducible there is refused, not edited away.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

ROOT = Path(__file__).parent.parent
BOOK = ROOT / "book"
STATE = ROOT / "_build" / "notebooks"  # one fingerprint per executed chapter
TIMEOUT_S = 120

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE = {"file_extension": ".py", "mimetype": "text/x-python", "name": "python", "pygments_lexer": "ipython3"}
KEPT_NOTEBOOK_METADATA = {"description", "html_meta", "myst", "mystnb", "problem"}
KEPT_CELL_METADATA = {"tags", "mystnb"}
RANDOM_ID = re.compile(r"[0-9a-f]{8}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
UNREPRODUCIBLE = {
    "a date in a figure": re.compile(r"<dc:date>"),
    "a memory address": re.compile(r"\bat 0x[0-9a-f]{6,}"),
    "a path of this machine": re.compile(r"(?<![\w.])/(?:home|root|tmp|work|Users)/\w"),
}


def chapters() -> list[Path]:
    """Every chapter's file; a folder that starts with a point or an underscore holds none."""
    found = BOOK.rglob("*.ipynb")
    return sorted(path for path in found if not re.search(r"/[._]", path.relative_to(BOOK.parent).as_posix()))


def name(path: Path) -> str:
    """A chapter's name as the book has it: "memory/kv_cache"."""
    return path.relative_to(BOOK).with_suffix("").as_posix()


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def text(notebook: NotebookNode) -> str:
    return nbformat.writes(notebook, version=nbformat.NO_CONVERT, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def normalize(notebook: NotebookNode) -> NotebookNode:
    """Bring a notebook into normal form, in place; doing it twice changes nothing."""
    kept = {key: value for key, value in notebook.metadata.items() if key in KEPT_NOTEBOOK_METADATA}
    notebook.metadata = nbformat.from_dict(kept | {"kernelspec": KERNEL, "language_info": LANGUAGE})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    taken: set[str] = set()
    for cell in notebook.cells:
        cell.source = cell.source.replace("\r\n", "\n").strip("\n")
        cell.metadata = nbformat.from_dict({k: v for k, v in cell.metadata.items() if k in KEPT_CELL_METADATA})
        cell.id = _stable_id(cell, taken)
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = _join_streams(cell.outputs)
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = None
    return notebook


def _stable_id(cell: NotebookNode, taken: set[str]) -> str:
    """Keep an id somebody chose or this function gave; draw a random one afresh from the cell's text."""
    given = cell.get("id", "")
    if not given or given in taken or RANDOM_ID.fullmatch(given):
        given = stem = "cell-" + hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:8]
        count = 1
        while given in taken:
            count += 1
            given = f"{stem}-{count}"
    taken.add(given)
    return given


def _join_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    joined: list[NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if output.output_type == "stream" and last and last.output_type == "stream" and last.name == output.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def faults(notebook: NotebookNode) -> list[str]:
    """What no committed output may hold: an error, a warning, or something the next run would not repeat."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "error":
                found.append(f"{cell.id}: {output.ename}: {output.evalue}")
            elif output.output_type == "stream" and output.name == "stderr":
                found.append(f"{cell.id}: writes to stderr: {output.text.strip()[:200]}")
            content = output.text if output.output_type == "stream" else str(output.get("data", ""))
            found += [f"{cell.id}: {what}" for what, pattern in UNREPRODUCIBLE.items() if pattern.search(content)]
    return found


def fingerprint(notebook: NotebookNode) -> str:
    """Of a chapter's code, its outputs, and all that decides them: the library, the data, the installed packages."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    digest = hashlib.sha256(text(nbformat.v4.new_notebook(cells=code)).encode())
    files = [*(ROOT / "calc").rglob("*.py"), *(ROOT / "data").rglob("*.*"), ROOT / "requirements.lock"]
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def execute(path: Path, notebook: NotebookNode) -> None:
    client = NotebookClient(
        notebook,
        timeout=TIMEOUT_S,
        kernel_name=KERNEL["name"],
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
        extra_arguments=["--log-level=ERROR"],
    )
    client.execute()


def check(paths: list[Path]) -> int:
    failed = False
    for path in paths:
        notebook = read(path)
        problems = faults(notebook)
        if text(normalize(notebook)) != path.read_text(encoding="utf-8"):
            problems.append("not in normal form: run make notebooks")
        for problem in problems:
            print(f"{name(path)}: {problem}", file=sys.stderr)
        failed = failed or bool(problems)
    return int(failed)


def run(paths: list[Path], every: bool) -> int:
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # a debugger's notice is not the chapter's output
    failed = False
    for path in paths:
        print(f"{name(path):<32}", end="", flush=True)
        started = time.monotonic()
        state = STATE / f"{name(path).replace('/', '.')}.sha256"
        notebook = normalize(read(path))
        if not every and state.is_file() and state.read_text() == fingerprint(notebook):
            print("unchanged")
        else:
            try:
                execute(path, notebook)
            except CellExecutionError as error:
                print(f"failed\n{error}")
                failed = True
                continue
            problems = faults(normalize(notebook))
            print(f"{time.monotonic() - started:.1f} s" + "".join(f"\n  {problem}" for problem in problems))
            failed = failed or bool(problems)
            state.parent.mkdir(parents=True, exist_ok=True)
            state.write_text("" if problems else fingerprint(notebook))
        path.write_text(text(notebook), encoding="utf-8", newline="\n")
    return int(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", type=Path, help="these alone (default: every chapter)")
    parser.add_argument("--all", action="store_true", help="execute unchanged chapters too")
    parser.add_argument("--check", action="store_true", help="execute nothing; fail if a chapter is not in normal form")
    options = parser.parse_args()
    paths = [path.resolve() for path in options.notebooks] or chapters()
    return check(paths) if options.check else run(paths, options.all)


if __name__ == "__main__":
    sys.exit(main())
