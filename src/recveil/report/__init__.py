"""The report: a result document in, one self-contained HTML page out.

Three steps, each of which can be used and tested alone: `summary` turns the document that `--json` prints into plain
formatted parts, `charts` draws the figures as static SVG, `html` lays both out on one page that needs no network and
runs no script. The page speaks of classes and of the whole table, never of a single user.
"""

from recveil.report.html import render, write_report
from recveil.report.summary import summarize

__all__ = ["render", "summarize", "write_report"]
