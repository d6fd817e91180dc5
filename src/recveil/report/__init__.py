"""The report: a result document in, one self-contained page out; also JUnit, SARIF and tables as text.

The `..._page` and `..._section` modules turn a document into formatted parts, `figures` describes the figures, `charts`
draws them as static SVG, and `html` lays everything out on one page that needs no network and runs no script. The
report computes nothing, and it speaks of classes and of the whole table, never of a single user.
"""

from recveil.report.html import render, write_report

__all__ = ["render", "write_report"]
