"""Makes the wheel with nothing but Python, the same bytes each time: for `cargo xtask dist`, which must not need the
package index. `pip install .` and `python -m build` make one by hatchling, with the same content.

    python3 make_wheel.py FOLDER [VERSION]    prints its path; with a version, only that one is made
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
import time
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: The first date that a zip archive can have.
EARLIEST = 315532800


def version() -> str:
    text = (ROOT / "src/rekindle/_version.py").read_text()
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert found is not None
    return found[1]


def metadata(project: dict) -> str:
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version()}"]
    lines += [f"Summary: {project['description']}", f"License-Expression: {project['license']}"]
    lines += [f"License-File: {name}" for name in project["license-files"]]
    lines += [f"Classifier: {one}" for one in project["classifiers"]]
    lines += [f"Requires-Python: {project['requires-python']}"]
    lines += [f"Requires-Dist: {one}" for one in project["dependencies"]]
    for extra, packages in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}"] + [f"Requires-Dist: {only_with(one, extra)}" for one in packages]
    lines += ["Description-Content-Type: text/markdown", "", (ROOT / project["readme"]).read_text()]
    return "\n".join(lines)


def only_with(requirement: str, extra: str) -> str:
    package, _, marker = requirement.partition(";")
    condition = f"({marker.strip()}) and " if marker else ""
    return f"{package.strip()}; {condition}extra == '{extra}'"


def entry_points(project: dict) -> str:
    groups = project["entry-points"].items()
    return "\n".join(f"[{group}]\n" + "".join(f"{name} = {what}\n" for name, what in names.items()) for group, names in groups)


def main() -> None:
    folder, asked = Path(sys.argv[1]), (sys.argv[2:] or [version()])[0]
    if asked != version():
        sys.exit(f"the SDK has version {version()} and not {asked}: change sdk/python/src/rekindle/_version.py")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name = f"{project['name']}-{version()}"
    about = f"{name}.dist-info"
    sources = sorted((ROOT / "src").glob("rekindle/**/*.py")) + [ROOT / "src/rekindle/py.typed"]
    files = {str(path.relative_to(ROOT / "src")): path.read_bytes() for path in sources}
    files[f"{about}/METADATA"] = metadata(project).encode()
    files[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: rekindle\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{about}/entry_points.txt"] = entry_points(project).encode()
    for one in project["license-files"]:
        files[f"{about}/licenses/{one}"] = (ROOT / one).read_bytes()
    record = ""
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        record += f"{path},sha256={digest},{len(content)}\n"
    files[f"{about}/RECORD"] = (record + f"{about}/RECORD,,\n").encode()
    date = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", EARLIEST)), EARLIEST))[:6]
    wheel = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, date)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content)
    print(wheel)


main()
