"""Type-check the page's scripts with TypeScript. Part of `make check`.

TypeScript is installed from npm into `.cache`, once, with the version that `tools/typescript/package-lock.json` pins.
Node.js is the system's, or the one from the development group. A check that passed is not repeated until a script or
the configuration changes.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

from tests.servers import npm

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "src" / "portico" / "web" / "js"
MANIFEST = ROOT / "tools" / "typescript"
NOT_INSTALLED = (
    "TypeScript, which checks the page's scripts, could not be installed from npm (see above). "
    "Check the connection to the npm registry, and run `make check` again."
)
PASSED = npm.CACHE / "typescript" / "passed"


def main() -> int:
    checked = _digest()
    if PASSED.exists() and PASSED.read_text() == checked:
        return 0
    try:
        compiler = npm.installed("typescript", MANIFEST) / "node_modules" / "typescript" / "bin" / "tsc"
    except (RuntimeError, OSError, ImportError) as error:
        print(f"{error}\n{NOT_INSTALLED}", file=sys.stderr)
        return 1
    status = subprocess.run([npm.node(), str(compiler), "--project", str(ROOT)], check=False).returncode
    if status == 0:
        PASSED.write_text(checked)
    return status


def _digest() -> str:
    """A hash of everything that the result depends on."""
    scripts = sorted(path for path in SCRIPTS.rglob("*") if path.suffix in (".js", ".ts"))
    digest = hashlib.sha256()
    for path in (*scripts, ROOT / "tsconfig.json", MANIFEST / "package-lock.json"):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
