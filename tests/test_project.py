"""The project keeps its own rules: those a reader of the code relies on and no other test would notice broken."""

from __future__ import annotations

import ast
import gzip
import json
import re
import subprocess
import tomllib
from pathlib import Path

import chapters
import pytest
import serve

ROOT = Path(__file__).parent.parent

# A module imports only modules before it. `notebook`, `practice` and `figures` serve the book; the rest is mathematics.
ORDER = (
    *("units", "symbols", "working", "sources", "panel", "notebook", "models", "hardware", "parameters", "kv_cache"),
    *("parallel", "roofline", "attention", "adapters", "quantization", "paging", "capacity", "speculation", "queueing"),
    *("workload", "scheduling", "latency", "tail", "startup", "disaggregation", "selection"),
    *("worksheet", "cli", "__main__"),
    *("published", "practice", "figures"),
)

# The parts of a chapter, in order, by their headings
PARTS = (
    "The question",
    "Answer in one minute",
    "Assumptions",
    "Derivation",
    "Change the assumptions",
    "Checked against the world",
    "Where people go wrong",
    "Practice",
    "If the interviewer pushes",
    "Sources",
)

# written so that this file does not hold what it looks for
REGISTRY = re.compile(r"pypi[.]org|python[h]osted|npmjs[.](org|com)|deb[.]debian|debian[.]org|unp[k]g[.]com|jsdeli[v]r")
MACHINE_PATH = re.compile(r"(?<![\w.~])/(work|tmp|root|home|Users)/\w")


def tracked() -> list[Path]:
    """Files that are committed or about to be."""
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = (ROOT / name for name in listed.split("\0") if name)
    return [path for path in paths if path.is_file()]


def content(path: Path) -> str:
    """Text of a file, unpacked if it is packed; of a picture, whatever letters it holds."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode(errors="replace")


def modules() -> list[Path]:
    return sorted((ROOT / "calc").rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("pattern", [REGISTRY, MACHINE_PATH], ids=["registry", "machine-path"])
def test_no_file_names_a_package_registry_or_a_path_of_a_machine(pattern):
    texts = {path: content(path) for path in tracked()}
    assert len(texts) > 50
    found = [f"{relative(path)}: {match[0]}" for path, text in texts.items() for match in pattern.finditer(text)]
    assert found == []


def test_the_patterns_find_what_they_look_for():
    assert REGISTRY.search("https://" + "pypi" + ".org/simple")
    assert MACHINE_PATH.search('open("/' + 'tmp/x")')
    assert not MACHINE_PATH.search("data/" + "tmp/x and https://example.com/" + "home/x")


def test_no_large_file():
    assert [relative(path) for path in tracked() if path.stat().st_size > 1_000_000] == []


def test_lock_files_pin_every_package_and_name_no_host():
    for name in ("requirements.lock", "requirements-lab.lock"):
        lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
        assert lines
        assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    lock = json.loads((ROOT / "package-lock.json").read_text())
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []


def test_the_lock_agrees_with_the_direct_pins():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = "\n".join((ROOT / name).read_text() for name in ("requirements.lock", "requirements-lab.lock"))
    pins = [pin for extra in project["optional-dependencies"].values() for pin in extra]
    missing = [pin for pin in pins if not re.search(rf"^{re.escape(pin)}$", locked, re.MULTILINE | re.IGNORECASE)]
    assert missing == []
    assert project["dependencies"] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_what_a_page_points_to_is_there(name):
    links = re.findall(r"\]\((?!https?:|#)([^)\s]+)", (ROOT / name).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_changelog_begins_with_this_version():
    from calc import __version__

    assert re.search(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == __version__


def imports(path: Path) -> list[tuple[str, bool]]:
    """Modules a file imports, and whether it does so when it is imported itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lazy = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) not in lazy) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(path)}: a relative import hides what it needs"
            names = [f"calc.{alias.name}" for alias in node.names] if node.module == "calc" else [node.module]
            found += [(name, id(node) not in lazy) for name in names]
    return found


@pytest.mark.parametrize("path", modules(), ids=relative)
def test_a_module_imports_only_modules_before_it(path):
    own = path.relative_to(ROOT / "calc").parts[0].removesuffix(".py")
    if own == "__init__":
        assert imports(path) == []
        return
    assert own in ORDER, f"{own} has no place in the order of modules"
    needed = {name.split(".")[1] for name, _ in imports(path) if name.startswith("calc.")} - {own}
    assert [name for name in needed if ORDER.index(name) >= ORDER.index(own)] == []


@pytest.mark.parametrize("path", modules(), ids=relative)
def test_importing_a_module_needs_the_standard_library_alone(path):
    import sys

    at_once = {name.partition(".")[0] for name, now in imports(path) if now}
    if path.relative_to(ROOT / "calc").parts[0] != "figures":
        assert at_once - set(sys.stdlib_module_names) - {"calc", "__future__"} == set()


@pytest.mark.parametrize("path", [p for p in modules() if "practice" not in p.parts], ids=relative)
def test_no_constant_in_code(path):
    """A figure about hardware, a model or a run lives in data/ with its source; only a problem may make one up."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    numbers = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and type(n.value) in {int, float}]
    assert [n for n in numbers if n >= 10_000 and not is_round(n)] == []


def is_round(number: float) -> bool:
    """A digit times powers of two and ten: 32768, 1e9, 20000."""
    while number % 10 == 0:
        number /= 10
    while number % 2 == 0:
        number /= 2
    return number < 10


def test_round_numbers():
    assert all(is_round(n) for n in (32_768, 131_072, 1e9, 20_000, 1024**5))
    assert not any(is_round(n) for n in (3.35e12, 80e9 + 1, 85_899_345_920 - 1024, 128_256))


def cells(chapter: str, kind: str) -> list[dict]:
    return [cell for cell in chapters.load(chapter)["cells"] if cell["cell_type"] == kind]


every_chapter = pytest.mark.parametrize("chapter", chapters.chapter_names())
every_problem = pytest.mark.parametrize("chapter", chapters.problem_names())  # a template needs no practice


@every_problem
def test_a_chapter_has_its_parts_in_order(chapter):
    text = "\n".join("".join(cell["source"]) for cell in cells(chapter, "markdown"))
    headings = re.findall(r"^#{2,3} (.+?)\s*$", text, re.MULTILINE)
    at = [next((i for i, h in enumerate(headings) if h.startswith(part)), None) for part in PARTS]
    assert None not in at, f"missing: {[part for part, i in zip(PARTS, at, strict=True) if i is None]}"
    assert at == sorted(at)
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1
    assert "{panel} calc." in text


@every_chapter
def test_a_chapter_has_one_parameters_cell_of_plain_values(chapter):
    (cell,) = [c for c in cells(chapter, "code") if "parameters" in c["metadata"].get("tags", ())]
    tree = ast.parse("".join(cell["source"]))
    assert all(isinstance(node, ast.Assign) for node in tree.body)
    for node in tree.body:
        ast.literal_eval(node.value)


@every_problem
def test_every_picture_has_its_words(chapter):
    pictures = 0
    for cell in chapters.load(chapter)["cells"]:
        for output in cell.get("outputs", ()):
            data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
            assert not {"image/png", "image/svg+xml"} & data.keys(), f"{cell['id']}: draw it with calc.figures"
            for tag in re.findall(r"<(?:svg|img)\b[^>]*>", data.get("text/html", "")):
                if 'aria-hidden="true"' not in tag:
                    pictures += 1
                    assert re.search(r'\b(aria-label|alt)="[^"]{20,}"', tag), f"{cell['id']}: {tag[:100]}"
        for alt in re.findall(r"!\[([^\]]*)\]\(", "".join(cell["source"])):
            assert len(alt) >= 20, f"{cell['id']}: a picture without words"
    assert pictures, "one picture at least carries the idea"


def test_a_taken_port_is_said_and_another_taken(tmp_path, capsys):
    with serve.bind(0, tmp_path) as first, serve.bind(first.server_port, tmp_path) as second:
        assert second.server_port != first.server_port
        assert f"Port {first.server_port} cannot be used" in capsys.readouterr().out
