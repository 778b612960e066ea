"""Looks for known vulnerabilities of what ``make set-up`` has installed.

It exits with 1 when there are some, and with 77 when it cannot tell, because the tool or the advisories could not be
fetched.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any, NamedTuple

TOOL = "pip-audit>=2.7"
OURS = "rmqpull"
FOLDER = Path(__file__).parents[1] / "build" / "audit"
INSTALL_WITHIN_S = 600
AUDIT_WITHIN_S = 900
UNKNOWN = 77


class NotAudited(Exception):
    """The vulnerabilities could not be looked up."""


class Report(NamedTuple):
    """What is known about packages."""

    audited: int
    """How many packages have been looked up."""
    unknown: list[str]
    """Packages that could not be looked up."""
    vulnerable: list[str]
    """A line for each package with vulnerabilities."""


def install_tool() -> str:
    """Installs pip-audit in an environment of its own, because it is no dependency. Returns its Python."""
    venv.create(FOLDER, clear=True, with_pip=True)
    python = str(FOLDER / "bin" / "python")
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", TOOL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_WITHIN_S, check=False)
    if done.returncode:
        raise NotAudited(f"{TOOL} could not be installed: {done.stderr.strip()}")
    return python


def audit(python: str, packages: str) -> Report:
    """Looks up the packages in a folder. Raises NotAudited."""
    command = [python, "-m", "pip_audit", "--path", packages, "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=AUDIT_WITHIN_S, check=False)
    return read_report(done.stdout, done.stderr)


def read_report(document: str, errors: str = "") -> Report:
    """Reads what pip-audit prints. Raises NotAudited when it is not a report, and when no package was looked up.

    pip-audit reports no vulnerabilities too when it could not look up a single package.
    """
    try:
        packages: list[dict[str, Any]] = json.loads(document)["dependencies"]
    except (ValueError, KeyError) as error:
        last = (errors.strip().splitlines() or ["pip-audit says nothing"])[-1]
        raise NotAudited(f"no source of advisories is reachable: {last}") from error
    others = [package for package in packages if package["name"] != OURS]
    unknown = [package["name"] for package in others if "skip_reason" in package]
    if len(unknown) == len(others):
        reasons = sorted({package["skip_reason"] for package in others})
        raise NotAudited(f"no package could be looked up; {', '.join(reasons[:1]) or 'there are none'}")
    return Report(
        len(others) - len(unknown), unknown, [describe(package) for package in others if package.get("vulns")]
    )


def describe(package: dict[str, Any]) -> str:
    """Returns a line: the package, and each vulnerability with the releases that have none."""
    found = (f"{each['id']} (fixed in {', '.join(each['fix_versions']) or 'no release'})" for each in package["vulns"])
    return f"{package['name']} {package['version']}: {', '.join(found)}"


def main() -> None:
    """Prints what it has found."""
    try:
        report = audit(install_tool(), sysconfig.get_path("purelib"))
    except NotAudited as error:
        print(f"audit: cannot tell whether there are vulnerabilities, because {error}")
        sys.exit(UNKNOWN)
    print(f"audit: {report.audited} packages, {len(report.vulnerable)} with known vulnerabilities")
    for line in report.vulnerable:
        print(line)
    if report.unknown:
        print(f"audit: could not be looked up: {', '.join(report.unknown)}")
    sys.exit(bool(report.vulnerable))


if __name__ == "__main__":
    main()
