// Compile the standard library that comes with Pyodide: `node tools/compile_stdlib.mjs`.
//
// It comes as source, and a start compiles the 150 modules that Python wants, in the reader's browser and every time:
// three of its four seconds. The bytecode is made here, by that same Python, and is a megabyte larger to fetch.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";

const home = new URL("../node_modules/pyodide/", import.meta.url);
const { loadPyodide } = await import(new URL("pyodide.mjs", home));
const python = await loadPyodide();
python.FS.writeFile("/source.zip", readFileSync(new URL("python_stdlib.zip", home)));
python.runPython(`
from importlib._bootstrap_external import _code_to_hash_pyc
from importlib.util import source_hash
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

with ZipFile("/source.zip") as source, ZipFile("/compiled.zip", "w", compresslevel=9) as compiled:
    for entry in source.infolist():
        name, data = entry.filename, source.read(entry)
        if name.endswith(".py"):
            code = compile(data, name, "exec", dont_inherit=True, optimize=2)  # no docstrings: nobody reads them here
            name, data = f"{name}c", _code_to_hash_pyc(code, source_hash(data), checked=False)
        compiled.writestr(ZipInfo(name), data, ZIP_DEFLATED)  # without a date: the same bytes every time
`);
mkdirSync(new URL("compiled/", home), { recursive: true });
writeFileSync(new URL("compiled/python_stdlib.zip", home), python.FS.readFile("/compiled.zip"));
