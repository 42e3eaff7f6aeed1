"""The library as others install it: one wheel, no dependency, its data inside, the standard library alone."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """Run code with the wheel installed in an environment that holds nothing else, not even pip."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=False)
    interpreter = folder / "bin" / "python"
    # --no-index: a dependency could not be fetched, so needing one fails here
    pip = [sys.executable, "-m", "pip", "--isolated", "--python", str(interpreter), "install", "--quiet", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)

    def run(code: str) -> str:
        command = [str(interpreter), "-I", "-c", code]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def closure(names: list[str]) -> dict[str, Distribution]:
    """What pip would install for some packages: they and what they require here, by name."""
    found: dict[str, Distribution] = {}
    left = list(names)
    while left:
        wanted = Requirement(left.pop())
        if wanted.name in found or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        found[wanted.name] = distribution(wanted.name)
        left += found[wanted.name].requires or []
    return found


@pytest.fixture(scope="module")
def reader(wheel, tmp_path_factory) -> Path:
    """The Python of a reader who has installed the wheel with its extra for chapters, and nothing else."""
    folder = tmp_path_factory.mktemp("reader")
    venv.create(folder, with_pip=False)
    interpreter = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--isolated", "--python", str(interpreter), "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-index", str(wheel)], check=True, capture_output=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (own,) = distributions(name="calc", path=[str(packages)])
    extra = [needed for needed in map(Requirement, own.requires) if needed.marker.evaluate({"extra": "chapters"})]
    assert extra
    for installed in closure([needed.name for needed in extra]).values():
        for part in {file.parts[0] for file in installed.files if ".." not in file.parts} - {"__pycache__"}:
            if not (packages / part).exists():
                (packages / part).symlink_to(installed.locate_file(part))
    return interpreter


def modules() -> list[str]:
    """All but the pictures: `calc.figures` needs matplotlib, and nothing else in the library imports it."""
    files = (path.relative_to(ROOT) for path in (ROOT / "calc").rglob("*.py"))
    names = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files}
    return sorted(name for name in names if not name.startswith("calc.figures"))


def test_the_wheel_holds_the_library_and_its_data(wheel):
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    library = {p.relative_to(ROOT).as_posix() for p in (ROOT / "calc").rglob("*.py")}
    facts = (p for p in (ROOT / "data").rglob("*") if p.suffix in {".json", ".csv"})
    data = {f"calc/{p.relative_to(ROOT).as_posix()}" for p in facts}
    assert library | data <= inside
    assert all(name.startswith("calc/") for name in inside)


def test_the_environment_is_empty(python):
    code = "import importlib.metadata as m; print(*(d.name for d in m.distributions()))"
    assert python(code).split() == ["calc"]


def test_it_computes_from_the_catalogue_in_the_wheel(python):
    code = """
import sys
from calc import kv_cache, models
llama = models.load("llama-3.1-70b")
(attention, layers), = llama.kinds()
print(kv_cache.bytes_per_position(
    layers=layers, kv_heads=attention.kv_heads, head_dim=attention.key_dim, element_bytes=2))
print(len(models.catalogue()) >= 14)
print(*({"pint", "numpy", "pandas", "matplotlib", "IPython"} & set(sys.modules)))
"""
    assert python(code).split() == ["327680", "True"]


def test_every_module_imports_the_standard_library_alone(python):
    code = f"""
import importlib, sys
before = set(sys.modules)
for name in {modules()!r}:
    importlib.import_module(name)
print(*{{name.partition(".")[0] for name in set(sys.modules) - before}} - set(sys.stdlib_module_names) - {{"calc"}})
"""
    assert python(code).split() == []


def test_every_problem_of_the_answer_boxes_loads(python):
    code = "from calc.practice import chapters, problems; print(*(len(problems(c)) for c in chapters()))"
    assert all(int(count) >= 5 for count in python(code).split())


def chapters() -> list[Path]:
    return [path for part in ("memory", "time", "service") for path in sorted((ROOT / "book" / part).glob("*.ipynb"))]


def cells(path: Path) -> list[str]:
    notebook = json.loads(path.read_text("utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_as_notebook(reader: Path, folder: Path, sources: list[str]) -> str:
    """Run cells in IPython, as a notebook does; the first one that fails is said."""
    code = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for number, source in enumerate(json.load(sys.stdin)):
    done = shell.run_cell(source, silent=True)
    assert done.success, (number, source)
import calc
print(calc.__file__)
"""
    done = subprocess.run(
        [str(reader), "-I", "-c", code], cwd=folder, input=json.dumps(sources), capture_output=True, text=True
    )
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout.splitlines()[-1]


def test_every_import_of_a_chapter_comes_with_the_wheel_and_its_extra(reader, tmp_path):
    lines = {
        line
        for path in chapters()
        for source in cells(path)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for line in [ast.unparse(node)]
    }
    assert str(reader.parents[1]) in run_as_notebook(reader, tmp_path, sorted(lines))


@pytest.mark.parametrize("page", ["memory/kv_cache", "time/speculative_decoding", "service/cold_start"])
def test_a_downloaded_chapter_runs_after_pip_install(reader, tmp_path, page):
    """One of each part; that the others run at all is for nbval, and what they import for the test above."""
    assert str(reader.parents[1]) in run_as_notebook(reader, tmp_path, cells(ROOT / "book" / f"{page}.ipynb"))
