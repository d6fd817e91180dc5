"""The command line: reads arguments, calls one function, prints. Every command says what went wrong in one sentence."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from recveil.cli.membership import EXAMPLES, membership
from recveil.cli.options import (
    Address,
    Attributes,
    Baseline,
    Before,
    Bins,
    Curve,
    Device,
    Embeddings,
    EngineName,
    FailIf,
    Folds,
    Ids,
    Interactions,
    ItemEmbeddings,
    Joint,
    Json,
    JsonOut,
    Junit,
    LeakRatio,
    Margin,
    Numeric,
    Panel,
    Permutations,
    Quiet,
    Recommendations,
    Report,
    RiskOut,
    Run,
    Sarif,
    Seed,
    Seeds,
    Stream,
    Surface,
    Target,
    bins_of,
    names,
    options_of,
)
from recveil.cli.output import emit, guarded, print_summary, print_training, progress_bars, say
from recveil.cli.study_report import app as study_app
from recveil.cli.tune import tune

app = typer.Typer(
    help="Can an outsider guess who your users are, can they tell whose data you trained on, and what to do about it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
data_app = typer.Typer(help="The named data sets: what there is, where to get it, what is in it.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(study_app, name="study")


def main() -> None:
    """The entry point of the `recveil` command."""
    app()


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"recveil {version('recveil')}")
        raise typer.Exit


@app.callback()
def _before(
    told: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """What comes before the name of a command."""


@app.command()
@guarded
def demo(
    out: Annotated[Path, typer.Option(help="Folder to write into; made if need be.")] = Path("recveil-demo"),
    seed: Seed = 0,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train, attack, defend and report on an embedded world. No download, under a minute."""
    from recveil.workflows.demo import run_demo

    with progress_bars(quiet=quiet):
        document = run_demo(out, seed=seed, device=device)
    emit(document, as_json=as_json)
    print_summary(document, quiet=quiet or as_json)
    say(f"Open {out / 'report.html'} in a browser.", quiet=quiet or as_json)


@app.command()
@guarded
def audit(
    embeddings: Embeddings = None,
    attributes: Attributes = None,
    run: Run = None,
    ids: Ids = None,
    target: Target = "",
    numeric: Numeric = "",
    bins: Bins = None,
    panel: Panel = "fast",
    folds: Folds = 5,
    seeds: Seeds = 2,
    margin: Margin = 0.05,
    permutations: Permutations = 0,
    leak_ratio: LeakRatio = None,
    curve: Curve = False,
    surface: Surface = "user_vectors",
    item_embeddings: ItemEmbeddings = None,
    recommendations: Recommendations = None,
    interactions: Interactions = None,
    before: Before = None,
    joint: Joint = False,
    stream: Stream = False,
    report: Report = None,
    out: JsonOut = None,
    risk_out: RiskOut = None,
    junit: Junit = None,
    sarif: Sarif = None,
    baseline: Baseline = None,
    fail_if: FailIf = None,
    seed: Seed = 0,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Attack a table of user vectors: can an outsider guess these attributes?

    The attackers learn from most users and guess the others, several times over. The verdict is `leak`, `none` or
    `inconclusive`; without --fail-if or --baseline the command exits 0 whatever it found.

    Example: recveil audit --embeddings users.parquet --attributes attributes.parquet --target gender --report out.html
    """
    from recveil.audits.gates import Checks
    from recveil.workflows import audit as workflow
    from recveil.workflows.inputs import Files

    checks = Checks.of(fail_if or [], baseline)
    more = {"item_embeddings": item_embeddings, "recommendations": recommendations, "interactions": interactions}
    cut = names(numeric), bins_of(bins)
    files = Files(embeddings, attributes, ids, run, **more, numeric=cut[0], bins=cut[1], stream=stream)
    rules = workflow.Protocol(panel, folds, seeds, margin, permutations, leak_ratio, surface, seed, device, curve)
    outputs = workflow.Outputs(report, out, risk_out, junit, sarif, printed=as_json)
    with progress_bars(quiet=quiet):
        document = workflow.audit_files(files, names(target), rules, outputs=outputs, before=before, together=joint)
    emit(document, as_json=as_json)
    print_summary(document, quiet=quiet or as_json)
    checks.judge(document, junit=junit, sarif=sarif)


@app.command()
@guarded
def cloak(
    out: Annotated[Path, typer.Option(help="Where to write the cloaked table, in the form of the input.")],
    embeddings: Embeddings = None,
    attributes: Attributes = None,
    run: Run = None,
    ids: Ids = None,
    target: Target = "",
    numeric: Numeric = "",
    bins: Bins = None,
    method: Annotated[str, typer.Option(help="Which defense: see `recveil list defenses`.")] = "sliced",
    strength: Annotated[float, typer.Option(help="From 0 (nothing) to 1 (all of it).")] = 1.0,
    item_embeddings: ItemEmbeddings = None,
    interactions: Interactions = None,
    frontier: Annotated[
        bool, typer.Option("--frontier", help="Compare all methods at several strengths; the report marks the knee.")
    ] = False,
    panel: Panel = "fast",
    folds: Folds = 5,
    seeds: Seeds = 2,
    margin: Margin = 0.05,
    stream: Stream = False,
    engine: EngineName = "local",
    address: Address = None,
    report: Report = None,
    seed: Seed = 0,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Defend a table of user vectors, and with --report or --json audit it before and after.

    Rows, ids and other columns stay as they were; only the vectors move. With --run, or with --item-embeddings and
    --interactions, the report also says what the recommendations are worth before and after. A folder of Parquet files
    is read and written part by part; run again after an interruption, it goes on where it stopped.

    Example: recveil cloak --embeddings users.parquet --attributes attributes.parquet --target gender --out safe.parquet
    """
    from recveil.workflows.audit import Protocol
    from recveil.workflows.cloak import Defense, cloak_files
    from recveil.workflows.inputs import Files
    from recveil.workflows.large_inputs import engine_of

    more = {"item_embeddings": item_embeddings, "interactions": interactions}
    cut = names(numeric), bins_of(bins)
    files = Files(embeddings, attributes, ids, run, **more, numeric=cut[0], bins=cut[1], stream=stream)
    rules = Protocol(panel=panel, folds=folds, seeds=seeds, margin=margin, seed=seed, device=device)
    defense = Defense(method, strength, frontier)
    who = engine_of(engine, address)
    with progress_bars(quiet=quiet):
        document = cloak_files(
            files, names(target), defense, rules, out=out, report=report, audited=as_json, engine=who
        )
    emit(document, as_json=as_json)
    print_summary(document, quiet=quiet or as_json)
    say(f"Wrote {out}.", quiet=quiet or as_json)


@app.command()
@guarded
def train(
    data: Annotated[
        str, typer.Option(help="Name of a data set (see `recveil data list`), a file, a folder, or `demo`.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write into; made if need be.")],
    model: Annotated[str, typer.Option(help="See `recveil list models`.")] = "bprmf",
    option: Annotated[
        list[str] | None, typer.Option(help="Hyper-parameter of the model, as in epochs=50. May be repeated.")
    ] = None,
    k: Annotated[int, typer.Option(help="Length of the recommendation lists.", min=1)] = 100,
    defense: Annotated[str | None, typer.Option(help="Defend with this: see `recveil list defenses`.")] = None,
    strength: Annotated[float, typer.Option(help="From 0 (nothing) to 1 (all of it).")] = 1.0,
    defense_option: Annotated[
        list[str] | None, typer.Option(help="Hyper-parameter of the defense, as in eta=0.1. May be repeated.")
    ] = None,
    target: Target = "",
    seed: Seed = 0,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a recommender, with or without a defense; writes vectors, lists, metrics and configuration.

    Quality is measured on each user's last item, ranked against the whole catalog. Beside a defense, of whatever kind,
    the metrics hold the same model without it, the paired difference, and an audit of both.

    Example: recveil train --data ml-1m --model ncf --defense raid --target gender --out run
    """
    from recveil.workflows import train as training

    plan = training.Plan(data, model, options_of(option), k=k, seed=seed, device=device)
    chosen = training.Defense(defense, strength, names(target), options_of(defense_option)) if defense else None
    with progress_bars(quiet=quiet):
        document = training.train_run(plan, out, chosen)
    emit(document, as_json=as_json)
    print_training(document["utility"], quiet=quiet or as_json)
    say(f"Wrote {out}: {', '.join(sorted(p.name for p in out.iterdir()))}.", quiet=quiet or as_json)


app.command(epilog=EXAMPLES)(membership)
app.command()(tune)


@app.command("list")
@guarded
def list_(
    kind: Annotated[str, typer.Argument(help="models, attacks, membership or defenses; all if not given.")] = "",
    as_json: Json = False,
) -> None:
    """What there is by name: models, attacks on attributes and on membership, defenses."""
    from recveil.audits.catalog import described

    tables = described(kind)
    emit(tables, as_json=as_json)
    for title, rows in tables.items():
        say(title, quiet=as_json)
        for name, line in rows.items():
            say(f"  {name:16} {line}", quiet=as_json)


@app.command()
@guarded
def doctor(as_json: Json = False) -> None:
    """What this machine has and lacks: versions, device, optional packages, data folders, and what to do."""
    from recveil.workflows.doctor import examine

    findings = examine()
    emit(findings, as_json=as_json)
    for row in findings["checks"]:
        say(f"{'ok  ' if row['ok'] else 'miss'}  {row['name']:22} {row['found']}", quiet=as_json)
        if row["advice"]:
            say(f"      {'':22} {row['advice']}", quiet=as_json)


@data_app.command("list")
@guarded
def data_list(as_json: Json = False) -> None:
    """The data sets that are known by name, and which of them are at hand."""
    from recveil.data.sources.catalog import listing

    rows = listing()
    emit(rows, as_json=as_json)
    for row in rows:
        say(f"{row['name']:32} {'at hand' if row['at_hand'] else '-':8} {row['title']}", quiet=as_json)


@data_app.command("get")
@guarded
def data_get(
    name: Annotated[str, typer.Argument(help="Name of the data set; see `recveil data list`.")],
    source: Annotated[Path | None, typer.Option("--from", help="Take it from this archive, folder or file.")] = None,
    quiet: Quiet = False,
) -> None:
    """Bring a data set into the cache: from its official address, or from what you downloaded yourself."""
    from recveil.data.sources.download import get

    with progress_bars(quiet=quiet):
        where = get(name, source=source)
    say(f"{name} is in {where}.", quiet=quiet)


@data_app.command("describe")
@guarded
def data_describe(
    name: Annotated[str, typer.Argument(help="Name of a data set, a file, a folder, or `demo`.")], as_json: Json = False
) -> None:
    """What is in a data set: sizes, attributes and their classes, activity."""
    from recveil.data.sources.catalog import describe
    from recveil.workflows.train import load_data

    facts = describe(load_data(name, seed=0))
    emit(facts, as_json=as_json)
    for key, value in facts.items():
        say(f"{key:20} {value}", quiet=as_json)
