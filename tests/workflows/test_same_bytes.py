"""The same seed gives the same bytes with one thread and with two, for every embedding defense and every model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recveil.defenses import DEFENSES
from recveil.models import MODELS

SCRIPT = Path(__file__).with_name("outputs_by_threads.py")


def hash_outputs(threads: int) -> dict[str, str]:
    counts = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], env={**os.environ, **counts}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.thorough
def test_one_thread_and_two_give_the_same_bytes() -> None:
    one, two = hash_outputs(1), hash_outputs(2)
    embeddings = {traits.name for traits in DEFENSES.all_traits() if traits.place == "embeddings"}
    assert one.keys() == embeddings | set(MODELS)
    assert [name for name in one if one[name] != two[name]] == []
