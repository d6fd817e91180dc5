"""The command that repeats a job on the command line, for people who continue there."""

from __future__ import annotations

import shlex

from recveil.service.documents import JobKind, JobOptions, TableRecord

__all__ = ["build_command"]


def build_command(kind: JobKind, table: TableRecord, options: JobOptions) -> str:
    """Return the command line that does with the same files what a job does with the uploaded ones."""
    words = ["recveil", kind, "--embeddings", table.label, "--attributes", table.attributes_label or table.label]
    if table.columns.id is not None:
        words += ["--id", table.columns.id]
    if table.columns.vectors:
        words += ["--vectors", ",".join(table.columns.vectors)]
    if table.columns.row_numbers:
        words += ["--ids", "row-number"]
    if options.target:
        words += ["--target", ",".join(options.target)]
    words += ["--panel", options.panel, "--repeats", str(options.repeats), "--seed", str(options.seed)]
    if kind == "cloak":
        words += ["--method", options.method, "--strength", f"{options.strength:g}"]
        words += ["--frontier"] if options.frontier else []
        words += ["--out", f"cloaked-{table.label}"]
    return shlex.join([*words, "--report", "report.html"])
