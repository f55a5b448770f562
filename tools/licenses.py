"""The licences of all packages that the image of a stack has, from their metadata.

    python -m tools.licenses

writes tools/licenses/STACK.tsv for the stack that is installed. Each package must have
a known licence that allows redistribution of unmodified files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from pipeline.cli import version
from pipeline.config.paths import REPOSITORY as ROOT
from tools import image_rules
from tools.check_image import development_packages

# MPL-2.0 and EPL-2.0 ask for the source of changed files; nothing is changed.
ALLOWED = {
    *("0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Artistic-1.0-Perl"),
    *("BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "EPL-2.0"),
    *("HPND", "ISC", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Unlicense"),
    "Zlib",
}
# SPDX identifiers of what metadata calls a licence. "BSD" has any number of clauses.
_IDENTIFIERS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "FreeBSD": "BSD-2-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
# Packages whose metadata have no licence, or a choice: as their licence file says.
_STATED = {
    "namex": "Apache-2.0",
    "text-unidecode": "Artistic-1.0-Perl",  # or the GPL
}


def read_license(name: str) -> str:
    """Returns the licence of an installed package; empty if it states none.

    Args:
      name: The package.

    Returns:
      SPDX identifiers, joined by AND or OR; other names as the metadata have them.
    """
    if name in _STATED:
        return _STATED[name]
    fields = metadata.metadata(name)
    if expression := fields.get_all("License-Expression"):
        return str(expression[0])
    classifiers = fields.get_all("Classifier") or []
    names = [
        classifier.rpartition(" :: ")[2]
        for classifier in classifiers
        if classifier.startswith("License :: ") and not classifier.endswith("Approved")
    ]
    if not names:
        (text, *_) = fields.get_all("License") or [""]
        names = [text.strip().partition("\n")[0]]
    return " AND ".join(_IDENTIFIERS.get(name, name) for name in names)


def find_problem(license_: str) -> str:
    """Returns why a licence is refused; empty if it is allowed."""
    if not license_:
        return "it states no licence"
    names = re.split(r" AND | OR |[()]", license_)
    refused = [name for name in filter(str.strip, names) if name.strip() not in ALLOWED]
    return f"{', '.join(refused)} is not an allowed licence" if refused else ""


def installed_packages() -> dict[str, str]:
    """Returns the versions of the installed packages that the image would have.

    The development tools are not part of the image.
    """
    _, lock = installed_stack()
    python = "{}.{}".format(*sys.version_info)
    versions = image_rules.read_lock(ROOT / lock, python)
    left_out = development_packages()
    return {
        name: versions[name]
        for name in sorted(str(canonicalize_name(name)) for name in versions)
        if name not in left_out
    }


def installed_stack() -> tuple[str, Path]:
    """Returns the stack of the installed TFX, and its lock."""
    stack = version.installed_stack()
    return stack, Path("stacks", stack, "requirements.lock")


def table(packages: Mapping[str, str]) -> str:
    """Returns a table of packages, their versions and licences."""
    rows = [
        f"{name}\t{version}\t{read_license(name)}" for name, version in packages.items()
    ]
    return "\n".join(["package\tversion\tlicence", *rows, ""])


def main() -> int:
    """Writes the table; returns 1 if a licence is unknown or not allowed."""
    packages = installed_packages()
    path = ROOT / "tools" / "licenses" / f"{installed_stack()[0]}.tsv"
    path.parent.mkdir(exist_ok=True)
    path.write_text(table(packages))
    problems = [
        f"{name}: {problem}"
        for name in packages
        if (problem := find_problem(read_license(name)))
    ]
    print(*problems, f"{path}: {len(packages)} packages", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
