"""The commands `recveil list` and `recveil doctor`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from recveil.cli.options import Json
from recveil.cli.output import emit_json, guarded, print_line
from recveil.core.errors import unknown_name
from recveil.core.traits import Traits

__all__ = ["doctor", "list_methods"]


@guarded
def list_methods(
    kind: Annotated[str, typer.Argument(help="models, attacks, membership or defenses; all if not given.")] = "",
    as_json: Json = False,
) -> None:
    """List models, attacks and defenses by name.

    Example: recveil list defenses
    """
    tables = _build_tables()
    if kind and kind not in tables:
        raise unknown_name("kind", kind, tables)
    shown = {kind: tables[kind]} if kind else tables
    emit_json(shown, as_json=as_json)
    for title, rows in shown.items():
        print_line(title, silent=as_json)
        for name, line in rows.items():
            print_line(f"  {name:22} {line}", silent=as_json)


@guarded
def doctor(as_json: Json = False) -> None:
    """Show what this machine has and lacks, and what to do about it."""
    from recveil.workflows.doctor import examine_machine

    report = examine_machine()
    emit_json(report, as_json=as_json)
    for check in report.checks:
        print_line(f"{'ok  ' if check.ok else 'miss'}  {check.name:22} {check.found}", silent=as_json)
        if check.advice:
            print_line(f"      {'':22} {check.advice}", silent=as_json)


def _build_tables() -> dict[str, dict[str, str]]:
    """Build the lists from the traits of all methods; no method is imported."""
    from recveil.attacks.attribute import ATTRIBUTE_ATTACKS
    from recveil.attacks.attribute.panels import panel_members, panel_names
    from recveil.attacks.membership import MEMBERSHIP_ATTACKS
    from recveil.defenses import DEFENSES
    from recveil.models import MODELS

    panels = {f"panel {name}": ", ".join(panel_members(name)) for name in panel_names()}
    defenses = {traits.name: f"{traits.summary} ({traits.place})" for traits in DEFENSES.all_traits()}
    return {
        "models": _summarize(MODELS.all_traits()),
        "attacks": {**_summarize(ATTRIBUTE_ATTACKS.all_traits()), **panels},
        "membership": _summarize(MEMBERSHIP_ATTACKS.all_traits()),
        "defenses": defenses,
    }


def _summarize(traits: Iterable[Traits]) -> dict[str, str]:
    return {each.name: each.summary for each in traits}
