"""The library as others install it: one wheel, no dependency, its data inside, the standard library alone."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

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
