"""Run the commands and snippets of a page in one folder, as a reader would who types them in order."""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

WIDTH = "100"


class SnippetFailure(Exception):
    """A command or snippet of a page failed."""


class Session:
    """A folder and the names of a page; commands share the folder, Python snippets share the names too."""

    def __init__(self, files: list[Path] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="recveil-docs-"))
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.background: list[subprocess.Popen[str]] = []
        for file in files or []:
            shutil.copy(file, self.folder)

    def close(self) -> None:
        """End what runs in the background and remove the folder."""
        for process in self.background:
            process.terminate()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, language: str, code: str, *, exit_code: int = 0) -> str:
        """Run a block and return what it printed.

        Raises:
            SnippetFailure: a command ended with another exit code, or Python raised.
        """
        if language == "python":
            return self._run_python(code)
        return "".join(self._run_line(line, exit_code) for line in split_commands(code))

    def start(self, code: str) -> str:
        """Start a command that goes on running, and return the first line it prints."""
        words = [sys.executable, "-m", *shlex.split(code, comments=True)]
        process = subprocess.Popen(
            words, cwd=self.folder, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.background.append(process)
        assert process.stdout is not None
        return process.stdout.readline()

    def _run_python(self, code: str) -> str:
        output = io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(output), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exec(compile(code, "page", "exec"), self.names)  # noqa: S102 - our own documentation
            except Exception as error:
                raise SnippetFailure(f"{type(error).__name__}: {error}\n{code}") from error
        return output.getvalue()

    def _run_line(self, line: str, expected: int) -> str:
        words = shlex.split(line, comments=True)
        if words[0] in ("recveil", "python") and not set(words) & {"|", ">", "&"}:
            status, output = run_warm(words, self.folder)
        else:
            done = subprocess.run(
                ["bash", "-ec", line], cwd=self.folder, env=_environment(), capture_output=True, text=True, check=False
            )
            status, output = done.returncode, done.stdout + done.stderr
        if status != expected:
            raise SnippetFailure(f"exit {status}, not {expected}: {line}\n{output}")
        return output


def split_commands(code: str) -> list[str]:
    """Return the commands of a block: lines that end in a backslash go on, comments and empty lines are left out."""
    lines = code.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


@functools.cache
def _start_server() -> subprocess.Popen[str]:
    """Start the process that commands are forked from; it ends with this one."""
    command = [sys.executable, str(Path(__file__).with_name("command_server.py"))]
    server = subprocess.Popen(
        command, env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    atexit.register(server.terminate)
    return server


def run_warm(words: list[str], folder: Path) -> tuple[int, str]:
    """Run `recveil ...` or `python FILE` in a process that has loaded the libraries already."""
    server = _start_server()
    assert server.stdin is not None
    assert server.stdout is not None
    request = {"words": words, "folder": str(folder), "data": os.environ.get("RECVEIL_DATA", "")}
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    return answer["status"], answer["output"]


def _environment() -> dict[str, str]:
    """Return the environment of a command: this recveil, this Python, and lines of a fixed width."""
    root = Path(__file__).resolve().parents[2]
    paths = os.pathsep.join([str(root / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {
        **os.environ,
        "PYTHONPATH": paths,
        "PATH": programs,
        "COLUMNS": WIDTH,
        "NO_COLOR": "1",
        "OMP_NUM_THREADS": "1",
    }
