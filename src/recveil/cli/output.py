"""Output of the command line: progress and messages on stderr, results on stdout, exit codes."""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from recveil.cli.terminal import Terminated, end_on_signals, escape_text, has_terminal, settle_output, write_text
from recveil.core.errors import DataError, RecveilError, RecveilWarning
from recveil.core.path_names import hide_folders, shorten_document
from recveil.core.progress import RowCount, report_progress

if TYPE_CHECKING:
    from recveil.audits.gates import GateReport
    from recveil.core.result_parts import Utility
    from recveil.core.results import AuditResult, CloakResult, Document, TrainResult
    from recveil.core.self_check_parts import SelfCheck

__all__ = [
    "check_inputs_exist",
    "emit_json",
    "guard",
    "guarded",
    "print_gates",
    "print_knee",
    "print_line",
    "print_next_step",
    "print_notes",
    "print_page",
    "print_self_check",
    "print_summary",
    "print_training",
    "read_command_line",
    "show_progress",
]

T = TypeVar("T")

_OPTION_NAME = re.compile(r"`([a-z_]+)`")

SECONDS_BEFORE_BAR = 2.0
"""Shorter work needs no progress bar."""


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command so that it ends with one sentence and the right exit code, whatever goes wrong."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        guard(lambda: command(*args, **kwargs))

    return run


def guard(
    command: Callable[[], None], *, flags: Mapping[str, str] | None = None, addresses: Mapping[str, str] | None = None
) -> None:
    """Run a command; turn what goes wrong into one sentence on stderr and the right exit code.

    Args:
        command: what to run.
        flags: options by the name of the argument; names that an error puts in backticks are shown as options.
        addresses: addresses by the local path that stands for them; errors show the address.
    """
    logging.basicConfig(level=logging.WARNING, handlers=[_OwnLogHandler()])
    try:
        with end_on_signals(), warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            command()
            if sys.stdout is not None:
                sys.stdout.flush()
    except RecveilError as error:
        message = _add_notes(_name_options(str(error), flags or {}), error)
        for path, address in (addresses or {}).items():
            message = message.replace(path, address)
        _stop(message, error.exit_code)
    except typer.Exit:
        raise
    except Terminated as error:
        _stop(_add_notes("terminated; temporary files were removed.", error), error.exit_code)
    except KeyboardInterrupt as error:
        _stop(_add_notes("interrupted; temporary files were removed.", error), 130)
    except BrokenPipeError:  # whoever reads our output has seen enough, as in `recveil list | head`
        settle_output()
        raise typer.Exit(0) from None
    except UnicodeEncodeError as error:
        name = error.object if isinstance(error.object, str) else "A name"
        _stop(f"{name} is not UTF-8, and cannot be used. Rename the file or correct the text.", 3)
    except OSError as error:
        settle_output()  # it may have been stdout that is full
        place = f" {error.filename}" if error.filename else ""
        _stop(_add_notes(f"The system refused{place}: {error.strerror or error}.", error), 3)
    except Exception as error:  # noqa: BLE001 - the last guard: users get a sentence, developers the traceback
        if _is_out_of_memory(error):
            _stop(_add_notes("Not enough memory. Use fewer users, a smaller panel, or a larger machine.", error), 3)
        if os.environ.get("RECVEIL_DEBUG"):
            traceback.print_exc()
        sentence = (
            f"Internal error, which is a fault of recveil: {type(error).__name__}: {error}. "
            "Run again with RECVEIL_DEBUG=1 for the details, and please report them."
        )
        _stop(_add_notes(sentence, error), 70)


def _is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out; torch has no error of its own for that on a CPU."""
    said = str(error) if isinstance(error, RuntimeError) else ""
    return isinstance(error, MemoryError) or "can't allocate memory" in said or "out of memory" in said


def check_inputs_exist(*paths: Path | None) -> None:
    """Refuse input paths that do not exist, before anything heavy is imported."""
    for path in paths:
        if path is not None and not path.exists():
            raise DataError(f"There is no file {path}. Check the path.")


def print_line(text: str, *, silent: bool) -> None:
    """Print a line for people on stdout."""
    if not silent:
        write_text(sys.stdout, escape_text(text) + "\n")


def print_page(text: str) -> None:
    """Print a document of several lines on stdout."""
    write_text(sys.stdout, text)


def print_notes(notes: Iterable[str], *, silent: bool) -> None:
    """Print notes on stderr; the names of arguments in them are shown as options."""
    for note in notes if not silent else ():
        _print_error_line(_OPTION_NAME.sub(lambda match: f"--{match.group(1).replace('_', '-')}", note))


def print_gates(report: GateReport) -> None:
    """Print on stderr the gates that failed and those that cannot be decided."""
    print_notes([f"gate failed: {text}" for text in report.failed], silent=False)
    print_notes([f"gate inconclusive: {text}" for text in report.inconclusive], silent=False)


def emit_json(document: Document | Any, *, as_json: bool) -> None:
    """Print the document on stdout if JSON was asked for."""
    if as_json:
        plain = document.model_dump(mode="json") if hasattr(document, "model_dump") else document
        write_text(sys.stdout, json.dumps(shorten_document(plain), indent=2, allow_nan=False) + "\n")


def read_command_line() -> list[str]:
    """Return the command as it was typed; absolute paths are cut to their last component."""
    return [hide_folders(argument) for argument in sys.argv]


def show_progress(*, quiet: bool) -> AbstractContextManager[None]:
    """Show a bar on stderr for work in this block that takes longer than two seconds."""

    def report(items: Iterable[T], label: str, total: int | None) -> Iterable[T]:
        return items if quiet or not has_terminal() else _draw_bar(items, label, total)

    return report_progress(report)


def print_summary(result: AuditResult | CloakResult, *, silent: bool) -> None:
    """Print the verdicts in words, before and after where there are both, the cost, and notes."""
    before = result.before if hasattr(result, "before") else {}
    for name, target in result.targets.items():
        if name in before:
            print_line(f"before  {before[name].sentence}", silent=silent)
        print_line(f"{'after   ' if name in before else ''}{target.sentence}", silent=silent)
        if target.kind == "classes" and target.curve:
            steps = [f"{point.advantage.value:.3f} with {point.ratio:.0%}" for point in target.curve]
            print_line(f"curve   Advantage by share of known users: {', '.join(steps)}.", silent=silent)
    for name, target in result.two_releases.items():
        if target.verdict == "leak" and target.kind == "classes":
            accuracy = target.headline.balanced_accuracy.value
            print_line(
                f"both    An attacker who holds the earlier table too can infer {name}: "
                f"balanced accuracy {accuracy:.1%}.",
                silent=silent,
            )
    notes = list(result.warnings)
    if result.command != "audit":
        _print_cost(result.utility, silent=silent)
        notes = [*result.defense.notes, *notes]
    print_notes(notes, silent=silent)


def print_self_check(result: CloakResult, *, silent: bool) -> None:
    """Print what strong attacks found before and after, and how far the vectors were moved."""
    targets = {} if result.self_check is None else result.self_check.targets
    for name, target in targets.items():
        after = f"{target.after.value:.3f} [{target.after.low:.3f}, {target.after.high:.3f}]"
        verdict = "passed" if target.passed else "failed"
        print_line(
            f"check   {name}: {verdict}. Strongest advantage {target.before.value:.3f} before, {after} after, by "
            f"{target.attacker}.",
            silent=silent,
        )
    moved = f"vectors moved by {result.defense.displacement:.0%} of their distance from the mean"
    print_line(f"cost    {result.defense.name}: {moved}.", silent=silent)


def print_knee(result: CloakResult, *, silent: bool) -> None:
    """Print the best bargain of a frontier of all methods, with the options that choose it."""
    if result.frontier is not None and result.frontier.points and result.frontier.has_all_methods:
        knee, measure = result.frontier.points[result.frontier.knee], result.frontier.cost_measure
        print_line(
            f"knee    --method {knee.method} --strength {knee.strength:g} leaves an advantage of {knee.advantage:.3f} "
            f"({measure} {knee.cost:.3f}).",
            silent=silent,
        )


def print_next_step(result: AuditResult | CloakResult, *, silent: bool) -> None:
    """Print the recommendation that a report has at its top; a cloak without audits is judged by its self-check."""
    from recveil.report.recommendation import recommend_release

    if result.targets:
        step = recommend_release(result)
        print_line(f"next    {step.headline}", silent=silent)
        if step.command:
            print_line(f"        {step.command}", silent=silent)
    elif result.command == "cloak" and result.self_check is not None:
        print_line(
            f"next    {_advise_release(result.self_check)}; --report measures what it costs and what is left.",
            silent=silent,
        )


def _advise_release(check: SelfCheck) -> str:
    """Say what a self-check allows: nothing yet where it could overlook more than the margin, as a report says too."""
    if not check.passed:
        return "Do not release this table"
    if check.is_too_expensive:
        return "Release this table only, and only if its price is acceptable"
    return "Do not release yet" if check.caution else "Release this table only"


def print_training(result: TrainResult, *, silent: bool) -> None:
    """Print how well the trained model ranks and, of a defended one, verdicts, cost and notes."""
    for name in ("hit_rate@10", "ndcg@10"):
        estimate = result.utility.after[name]
        print_line(f"{name:12}{estimate.value:.4f}  [{estimate.low:.4f}, {estimate.high:.4f}]", silent=silent)
    for label, targets in (("before", result.before), ("after", result.targets)):
        for target in targets.values():
            print_line(f"{label:8}{target.sentence}", silent=silent)
    _print_cost(result.utility, silent=silent)
    if result.privacy is not None:
        print_line(f"privacy {result.privacy.sentence}", silent=silent)
    defense = result.config.defense
    leaking = [name for name, target in result.targets.items() if target.verdict == "leak"]
    if defense is not None and leaking:
        advice = "`recveil tune` searches the options of a defense, `recveil cloak` hides attributes after training"
        print_line(f"next    Do not release this model yet: it leaks {', '.join(leaking)}; {advice}.", silent=silent)
    print_notes([*(defense.notes if defense else []), *result.warnings], silent=silent)


def _print_cost(utility: Utility | None, *, silent: bool) -> None:
    if utility is None or "ndcg@10" not in utility.difference:
        return
    before, change = utility.before["ndcg@10"], utility.difference["ndcg@10"]
    share = f", {100 * change.value / before.value:+.1f} %" if before.value else ""
    interval = f"[{change.low:+.4f}, {change.high:+.4f}]"
    print_line(f"cost    NDCG@10 {before.value:.4f} {change.value:+.4f} {interval}{share}", silent=silent)


def _name_options(message: str, flags: Mapping[str, str]) -> str:
    """Show argument names in backticks as options of the command."""
    return _OPTION_NAME.sub(lambda match: flags.get(match.group(1), match.group(0)), message)


def _add_notes(message: str, error: BaseException) -> str:
    """Add what remains of the work, where the error says so."""
    return " ".join([message, *vars(error).get("__notes__", ())])


class _OwnLogHandler(logging.Handler):
    """Shows what recveil logs; what libraries log is not for the user."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record as one line on stderr."""
        if record.name.split(".")[0] == "recveil":
            _print_error_line(record.getMessage())


def _stop(message: str, code: int) -> NoReturn:
    _print_error_line(message)
    raise typer.Exit(code)


def _print_error_line(message: object) -> None:
    write_text(sys.stderr, f"recveil: {escape_text(str(message))}\n")


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    """Show a warning of recveil in one line; those of libraries are not for the user."""
    if issubclass(category, RecveilWarning) or os.environ.get("RECVEIL_DEBUG"):
        _print_error_line(message)


def _draw_bar(items: Iterable[T], label: str, total: int | None) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import Progress

    start, count = time.monotonic(), 0
    bar: Progress | None = None
    try:
        for item in items:
            yield item
            count += item if isinstance(item, RowCount) else 1
            seconds = time.monotonic() - start
            if bar is None and seconds > SECONDS_BEFORE_BAR:
                bar = Progress(console=Console(stderr=True), transient=True)
                task = bar.add_task(label, total=total)
                bar.start()
            if bar is not None:
                pace = f"{label}, {count / seconds:,.0f} rows/s" if isinstance(item, RowCount) else label
                bar.update(task, completed=count, description=pace)
    finally:
        if bar is not None:
            bar.stop()
