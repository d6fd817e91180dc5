"""The command `recveil membership`: reads its arguments, calls one function, prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recveil.cli.membership_options import (
    AttackOption,
    Histories,
    Inductive,
    ItemTexts,
    ItemVectors,
    ListDefense,
    ListLength,
    Lists,
    Members,
    MembershipAttacks,
    MembershipMargin,
    ModelOption,
    Pool,
    ReferenceModels,
    ReferenceSignal,
    ScoresOut,
    SeenItems,
    Serving,
    ShadowModel,
    ShadowOption,
    UserMinimum,
)
from recveil.cli.options import Device, FailIf, Json, JsonOut, Quiet, Report, Seed, parse_names, parse_options
from recveil.cli.output import emit_json, guarded, print_line, show_progress
from recveil.core.errors import UsageError

if TYPE_CHECKING:
    from recveil.audits.membership.scenarios import ModelConfig, ObservedScenario, TrainedScenario

__all__ = ["EXAMPLES", "membership"]

EXAMPLES = """On a model trained here: recveil membership --data ml-1m --model ncf --shadow-model lfm --report out.html

On files: recveil membership --target-histories TH.csv --target-lists TL.csv --target-members TM.csv
--shadow-histories SH.csv --shadow-lists SL.csv --shadow-members SM.csv --item-texts items.csv

What the defense is worth: recveil membership --data demo --serving popular --defense popularity --pool 400

With reference models: recveil membership --data demo --attacks lira,rmia --references 16

For CI: recveil membership --data demo --fail-if "dlmia.auc.low > 0.55"
"""


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
    references: ReferenceModels = 16,
    signal: ReferenceSignal = "rank-percentile",
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
    """
    from recveil.audits.gates import Checks
    from recveil.audits.membership.references import ReferenceModels
    from recveil.audits.membership.scenarios import ItemSource
    from recveil.workflows.membership import MembershipConfig, MembershipOutputs, run_membership

    checks, outputs = Checks.of(fail_if or [], None), MembershipOutputs(report, out, scores_out)
    files = [target_histories, target_lists, shadow_histories, shadow_lists, shadow_members, target_members]
    play = MembershipConfig(parse_names(attacks), parse_options(attack_option), inductive, margin, seed, device)
    if data is None:
        scene: TrainedScenario | ObservedScenario = _seen(files, k, defense)
    else:
        models = _models((model, option), (shadow_model, shadow_option))
        scene = _world(data, models, (serving, seen, k), user_minimum, (defense, pool), files)
        scene = replace(scene, references=ReferenceModels(references, signal) if play.referenced else None)
    with show_progress(quiet=quiet):
        document = run_membership(scene, ItemSource(item_vectors, item_texts), play, outputs=outputs, checks=checks)
    emit_json(document, as_json=as_json)
    _print(document, quiet=quiet or as_json)
    checks.judge(document)


def _models(
    target: tuple[str, list[str] | None], shadow: tuple[str | None, list[str] | None]
) -> tuple[ModelConfig, ModelConfig]:
    """Target and shadow; a shadow without a name is the target's model with its options."""
    from recveil.audits.membership.scenarios import ModelConfig

    of_target, of_shadow = parse_options(target[1]), parse_options(shadow[1])
    if shadow[0] is None:
        return ModelConfig(target[0], of_target), ModelConfig(target[0], {**of_target, **of_shadow})
    return ModelConfig(target[0], of_target), ModelConfig(shadow[0], of_shadow)


def _world(
    data: str,
    models: tuple[ModelConfig, ModelConfig],
    served: tuple[str, str, int | None],
    user_minimum: int | None,
    defended: tuple[str | None, int],
    files: list[Path | None],
) -> TrainedScenario:
    from recveil.audits.catalog import lookup
    from recveil.audits.membership.platforms import ServingPolicy
    from recveil.audits.membership.scenarios import DEFAULT_LIST_LENGTH, TrainedScenario
    from recveil.defenses.lists.popularity import Popularity

    if any(files):
        raise UsageError("Give either --data or files of histories and lists, not both.")
    method, pool = defended
    defense = None if method is None else lookup("list defense", method, {"popularity": Popularity})(pool)
    serving, seen, k = served
    return TrainedScenario(data, *models, ServingPolicy(serving, seen, k or DEFAULT_LIST_LENGTH), user_minimum, defense)


def _seen(files: list[Path | None], k: int | None, defense: str | None) -> ObservedScenario:
    from recveil.audits.membership.scenarios import ObservedScenario

    if defense is not None:
        raise UsageError("--defense needs a model trained here, for it changes what is served. Add --data.")
    *needed, truth = files
    wanted = ["target_histories", "target_lists", "shadow_histories", "shadow_lists", "shadow_members"]
    given = {name: path for name, path in zip(wanted, needed, strict=True) if path is not None}
    missing = [f"--{name.replace('_', '-')}" for name in wanted if name not in given]
    if missing:
        raise UsageError(f"Give --data, or all files that an attack on files needs; missing: {', '.join(missing)}.")
    return ObservedScenario(**given, target_members=truth, k=k)


def _print(document: Mapping[str, Any], *, quiet: bool) -> None:
    """A line for each attack and rule, the verdict, and what a defense changed."""
    if quiet:
        return
    if document["attacks"]:
        print_line(f"{'':16} {'AUC':>5} {'95 % interval':16} {'TPR at 1 % FPR'}", silent=False)
    for name, found in document["attacks"].items():
        area, rate = found["auc"], found["tpr_at_fpr"]["0.01"]
        caught = "too few non-members" if rate is None else f"{rate['value']:.3f} {_span(rate)}"
        flag = "  (rule)" if found["rule"] else f"  ({found['explained']})" if found["explained"] else ""
        turned = "  (inverted)" if found["inverted"] else ""
        print_line(f"{name:16} {area['value']:.3f} {_span(area):16} {caught}{turned}{flag}", silent=False)
    for when, part in (("before", document.get("before")), ("static", document.get("static"))):
        if part:
            print_line(f"{when:7} {part['verdict']['sentence']}", silent=False)
    print_line(f"{'after   ' if document.get('before') else ''}{document['verdict']['sentence']}", silent=False)
    lost = document.get("utility", {}).get("others_lost")
    if lost:
        print_line(f"cost    Hit rate of non-members {lost['value']:+.3f} {_span(lost, '+')}", silent=False)
    for warning in document["warnings"]:
        typer.echo(f"recveil: {warning}", err=True)


def _span(estimate: Mapping[str, Any], sign: str = "") -> str:
    return f"[{estimate['low']:{sign}.3f}, {estimate['high']:{sign}.3f}]"
