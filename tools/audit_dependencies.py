"""Look up the locked dependencies in a database of known vulnerabilities; say so where none is within reach.

Exits 1 if a vulnerability is known, and 0 if none is or nothing could be looked up. What was not looked up is counted
and never called safe.
"""

from __future__ import annotations

import json
import subprocess
import sys

LOCK = "requirements.lock"
MAX_SECONDS = 120


def look_up_dependencies() -> list[dict[str, object]]:
    """Return what pip-audit says of each dependency; nothing if it cannot reach a database."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "-r", LOCK, "-f", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MAX_SECONDS)
        dependencies: list[dict[str, object]] = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        return []
    return dependencies


def main() -> None:
    """Print what is known, and exit."""
    dependencies = look_up_dependencies()
    checked = [dependency for dependency in dependencies if "skip_reason" not in dependency]
    if not checked:
        print("audit-dependencies: skipped, since no database of vulnerabilities is within reach. Nothing was checked.")
        return
    print(f"audit-dependencies: {len(checked)} of {len(dependencies)} dependencies were looked up.")
    vulnerable = [dependency for dependency in checked if dependency.get("vulns")]
    for dependency in vulnerable:
        print(f"{dependency['name']} {dependency['version']}: {json.dumps(dependency['vulns'])[:400]}")
    sys.exit(1 if vulnerable else 0)


if __name__ == "__main__":
    main()
