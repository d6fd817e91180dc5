"""The command `recveil membership`: reads its arguments, calls one function, prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recveil.errors import UsageError
from recveil.options import (
    AttackOption,
    Device,
    FailIf,
    Histories,
    Inductive,
    ItemTexts,
    ItemVectors,
    Json,
    JsonOut,
    ListDefense,
    ListLength,
    Lists,
    Members,
    MembershipAttacks,
    MembershipMargin,
    ModelOption,
    Pool,
    Quiet,
    Report,
    ScoresOut,
    Seed,
    SeenItems,
    Serving,
    ShadowModel,
    ShadowOption,
    UserMinimum,
    names,
    options_of,
)
from recveil.terminal import emit, guarded, progress_bars, say

if TYPE_CHECKING:
    from recveil.staging import Seen, World

__all__ = ["membership"]


@guarded
def membership(
    data: Annotated[str | None, typer.Option(help="Data to train on: a name, a file, a folder, or `demo`.")] = None,
    model: Annotated[str, typer.Option(help="The target: see `recveil list models`.")] = "als",
    option: ModelOption = None,
    shadow_model: ShadowModel = None,
    shadow_option: ShadowOption = None,
    serving: Serving = "fold-in",
    seen: SeenItems = "excluded",
    k: ListLength = None,
    user_minimum: UserMinimum = None,
    defense: ListDefense = None,
    pool: Pool = 1000,
    target_histories: Histories = None,
    target_lists: Lists = None,
    target_members: Members = None,
    shadow_histories: Histories = None,
    shadow_lists: Lists = None,
    shadow_members: Members = None,
    item_vectors: ItemVectors = None,
    item_texts: ItemTexts = None,
    attacks: MembershipAttacks = "rules,biased,dlmia,shadowfree",
    attack_option: AttackOption = None,
    inductive: Inductive = False,
    margin: MembershipMargin = 0.05,
    report: Report = None,
    out: JsonOut = None,
    scores_out: ScoresOut = None,
    fail_if: FailIf = None,
    seed: Seed = 0,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Can an outsider who sees histories and lists tell whom a recommender was trained on?

    Simple rules run beside every attack; what no attack does better is called explained by the serving rule.

    On a model trained here: recveil membership --data ml-1m --model ncf --shadow-model lfm --report out.html

    On files: recveil membership --target-histories TH.csv --target-lists TL.csv --target-members TM.csv
    --shadow-histories SH.csv --shadow-lists SL.csv --shadow-members SM.csv --item-texts items.csv

    For CI: recveil membership --data demo --fail-if "dlmia.auc.low > 0.55"
    """
    from recveil.gates import Checks
    from recveil.staging import Items
    from recveil.watching import Outputs, Play, membership_audit

    checks = Checks.of(fail_if or [], None)
    files = [target_histories, target_lists, shadow_histories, shadow_lists, shadow_members]
    if data is None:
        if defense is not None:
            raise UsageError("--defense needs a model trained here, for it changes what is served. Add --data.")
        scene: World | Seen = _seen(files, target_members, k)
    elif any((*files, target_members)):
        raise UsageError("Give either --data or files of histories and lists, not both.")
    else:
        shadow = (model, options_of(option)) if shadow_model is None else (shadow_model, {})
        models = [(model, options_of(option)), (shadow[0], {**shadow[1], **options_of(shadow_option)})]
        scene = _world(data, models, (serving, seen, k), user_minimum, (defense, pool))
    play = Play(names(attacks), options_of(attack_option), inductive, margin, seed, device)
    outputs = Outputs(report, out, scores_out)
    with progress_bars(quiet=quiet):
        document = membership_audit(scene, Items(item_vectors, item_texts), play, outputs=outputs, checks=checks)
    emit(document, as_json=as_json)
    _print(document, quiet=quiet or as_json)
    checks.judge(document)


def _world(
    data: str,
    models: list[tuple[str, Mapping[str, Any]]],
    served: tuple[str, str, int | None],
    user_minimum: int | None,
    defended: tuple[str | None, int],
) -> World:
    from recveil.catalog import lookup
    from recveil.defenses.lists.popularity import Popularity
    from recveil.shadowing import Policy
    from recveil.staging import K, Model, World

    target, shadow = (Model(*given) for given in models)
    method, pool = defended
    defense = None if method is None else lookup("list defense", method, {"popularity": Popularity})(pool)
    serving, seen, k = served
    return World(data, target, shadow, Policy(serving, seen, k or K), user_minimum, defense)


def _seen(files: list[Path | None], members: Path | None, k: int | None) -> Seen:
    from recveil.staging import Seen

    wanted = ["target-histories", "target-lists", "shadow-histories", "shadow-lists", "shadow-members"]
    missing = [f"--{name}" for name, path in zip(wanted, files, strict=True) if path is None]
    if missing:
        raise UsageError(f"Give --data, or all files that an attack on files needs; missing: {', '.join(missing)}.")
    return Seen(*(path for path in files if path is not None), target_members=members, k=k)


def _print(document: Mapping[str, Any], *, quiet: bool) -> None:
    """A line for each attack and rule, the verdict, and what a defense changed."""
    if quiet:
        return
    if document["attacks"]:
        say(f"{'':16} {'AUC':>5} {'95 % interval':16} {'TPR at 1 % FPR'}", quiet=False)
    for name, found in document["attacks"].items():
        area, rate = found["auc"], found["tpr_at_fpr"]["0.01"]
        caught = "too few non-members" if rate is None else f"{rate['value']:.3f} [{rate['low']:.3f}, {rate['high']:.3f}]"
        span = f"[{area['low']:.3f}, {area['high']:.3f}]"
        flag = "  (rule)" if found["rule"] else f"  ({found['explained']})" if found["explained"] else ""
        say(f"{name:16} {area['value']:.3f} {span:16} {caught}{'  (inverted)' * found['inverted']}{flag}", quiet=False)
    for when, part in (("before", document.get("before")), ("static", document.get("static"))):
        if part:
            say(f"{when:7} {part['verdict']['sentence']}", quiet=False)
    say(f"{'after   ' if document.get('before') else ''}{document['verdict']['sentence']}", quiet=False)
    lost = document.get("utility", {}).get("others_lost")
    if lost:
        say(f"cost    Hit rate of non-members {lost['value']:+.3f} [{lost['low']:+.3f}, {lost['high']:+.3f}]", quiet=False)
    for warning in document["warnings"]:
        typer.echo(f"recveil: {warning}", err=True)
