"""Run the benchmarks and write all their tables to one page.

python benchmarks/page.py [--out bench.md] [--only commands,ranking]
"""

import argparse
import subprocess
import sys
from pathlib import Path

SCRIPTS = {
    "commands": "Commands, CPU seconds",
    "audit": "The full panel against a plain scikit-learn loop, CPU seconds; growth of the fast panel",
    "ranking": "Ranking against the dense way",
    "training": "Training against `implicit` and a plain loop",
    "attrcloak": "AttrCloak's closed-form gradient against autograd",
    "raid": "Barycenter and couplings against POT",
    "scale": "Large tables against copying them with pyarrow",
    "guard": "Five hot paths against the reference",
}


def main() -> None:
    """Write the page; a script that fails leaves its error there, and the exit code is 1."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("bench.md"))
    parser.add_argument("--only", default=",".join(SCRIPTS))
    options = parser.parse_args()
    parts, failed = ["# Benchmarks"], []
    for name in options.only.split(","):
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name(f"{name}.py"))], capture_output=True, text=True, check=False
        )
        if done.returncode:
            failed.append(name)
        told = done.stdout.strip() if not done.returncode else f"{done.stdout}\nfailed:\n\n{done.stderr.strip()}"
        parts.append(f"## {SCRIPTS[name]}\n\n`python benchmarks/{name}.py`\n\n{told}")
        print(f"\n{parts[-1]}", flush=True)
        options.out.write_text("\n\n".join(parts) + "\n")
    if failed:
        sys.exit(f"These failed: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
