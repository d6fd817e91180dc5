"""Run commands in children of a process that has loaded the libraries and nothing else.

Loading torch takes seconds, so each command is forked from here. The process reads one JSON request a line (`words`,
`folder`, `data`) and answers with one line (`status`, `output`). It computes nothing itself, so it has no threads that
a fork could lose.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
import traceback
import warnings

from recveil.cli.app import app
from recveil.integrations import python_api  # noqa: F401 - so that children need not load torch


def serve() -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        status, output = run_forked(request["words"], request["folder"], request["data"])
        answers.write(json.dumps({"status": status, "output": output}) + "\n")
        answers.flush()


def run_forked(words: list[str], folder: str, data: str) -> tuple[int, str]:
    """Run `recveil ...` or `python FILE` in a child, and return its exit code and what it printed."""
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if child == 0:
            os.environ["RECVEIL_DATA"] = data
            _become(words, folder, output.fileno())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        return status, output.read()


def _become(words: list[str], folder: str, descriptor: int) -> None:
    """Be the command, and end the process."""
    code = 70
    try:
        os.chdir(folder)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        code = _call(words)
    except BaseException:  # noqa: BLE001 - the child must end here whatever happens
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _call(words: list[str]) -> int:
    warnings.simplefilter("default")
    try:
        if words[0] == "python":
            sys.argv = words[1:]
            runpy.run_path(words[1], run_name="__main__")
        else:
            sys.argv = words
            app(words[1:])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


if __name__ == "__main__":
    serve()
