"""The directive `run`: a block of a page that is executed when the site is built, with its output below it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sessions import Session, SnippetFailure
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

LOGGER = logging.getLogger(__name__)
OUTPUT_WIDTH = 110
SESSIONS: dict[str, Session] = {}


class Run(SphinxDirective):
    """Execute a block of `sh` or `python`; blocks of one page share a folder and Python names.

    Options: `exit-code` (0 by default), `background` for a command that goes on until the page ends, `quiet` to leave
    the output out.
    """

    has_content = True
    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "exit-code": directives.nonnegative_int,
        "background": directives.flag,
        "quiet": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        language, code = self.arguments[0], "\n".join(self.content)
        block = nodes.literal_block(code, code, language=language)
        if not self.config.run_blocks:
            return [block]
        output = self._execute(language, code)
        if "quiet" in self.options or not output.strip():
            return [block]
        shown = "\n".join(_wrap(line) for line in output.rstrip().splitlines())
        return [block, nodes.container("", nodes.literal_block(shown, shown, language="text"), classes=["output"])]

    def _execute(self, language: str, code: str) -> str:
        session = SESSIONS.get(self.env.docname)
        if session is None:
            folder = Path(self.env.srcdir) / "tutorials"
            session = SESSIONS[self.env.docname] = Session(sorted(folder.glob("*.py")))
        try:
            if "background" in self.options:
                return session.start(code)
            return session.run(language, code, exit_code=self.options.get("exit-code", 0))
        except SnippetFailure as failure:
            LOGGER.warning("a block failed: %s", failure, location=self.get_location())
            return str(failure)


def _wrap(line: str) -> str:
    indent = " " * 8 if line[:8].rstrip().isalpha() else ""
    return textwrap.fill(line, OUTPUT_WIDTH, subsequent_indent=indent) if len(line) > OUTPUT_WIDTH else line


def _close_sessions(*_: object) -> None:
    for session in SESSIONS.values():
        session.close()
    SESSIONS.clear()


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive, and the setting `run_blocks` that shows blocks without running them."""
    app.add_config_value("run_blocks", True, "env")
    app.add_directive("run", Run)
    app.connect("env-updated", _close_sessions)
    app.connect("build-finished", _close_sessions)
    return {"parallel_read_safe": False}
