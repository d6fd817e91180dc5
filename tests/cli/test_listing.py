"""`recveil list` and `recveil doctor`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from recveil.attacks.attribute import ATTRIBUTE_ATTACKS
from recveil.attacks.attribute.panels import panel_names
from recveil.attacks.membership import MEMBERSHIP_ATTACKS
from recveil.defenses import DEFENSES
from recveil.models import MODELS


def test_every_method_is_listed_with_a_line(tmp_path: Path, recveil: Callable) -> None:
    tables = json.loads(recveil("list", "--json", cwd=tmp_path).stdout)
    assert {kind: set(rows) for kind, rows in tables.items()} == {
        "models": set(MODELS),
        "attacks": {*ATTRIBUTE_ATTACKS, *(f"panel {name}" for name in panel_names())},
        "membership": set(MEMBERSHIP_ATTACKS),
        "defenses": set(DEFENSES),
    }
    assert not [(kind, name) for kind, rows in tables.items() for name, line in rows.items() if len(line) < 10]
    for kind, rows in tables.items():
        printed = recveil("list", kind, cwd=tmp_path).stdout
        assert all(name in printed for name in rows)


def test_the_package_is_a_command_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recveil", "list", "defenses"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "sliced" in done.stdout


def test_the_doctor_lists_what_the_machine_has(tmp_path: Path, recveil: Callable) -> None:
    assert "torch" in recveil("doctor", cwd=tmp_path).stdout
    report = json.loads(recveil("doctor", "--json", cwd=tmp_path).stdout)
    assert report["ok"]
