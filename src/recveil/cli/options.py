"""The options that commands share, and how what is typed becomes values. Nothing that is typed is evaluated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from recveil.core.errors import UsageError

Seed = Annotated[int, typer.Option(help="Same seed, same numbers (on the CPU, byte for byte).", min=0)]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N; the best there is if not given.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout; everything else goes to stderr.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary; errors are still said.")]
Report = Annotated[Path | None, typer.Option(help="Write a self-contained HTML report to this file.")]
Target = Annotated[str, typer.Option(help="Attributes, separated by commas, as in gender,age.")]
Numeric = Annotated[
    str,
    typer.Option(
        help="Columns that hold numbers, not classes, separated by commas: audited by regression, or cut by --bins."
    ),
]
Bins = Annotated[
    list[str] | None, typer.Option(help="Cut a numeric column into classes, as in age=35,45. May be repeated.")
]
Embeddings = Annotated[
    Path | None,
    typer.Option(
        help="Table of user vectors: user_id + embedding, or emb_0..; .parquet .csv .npy .safetensors, or a folder of "
        "Parquet files, which may be larger than memory."
    ),
]
Attributes = Annotated[
    Path | None,
    typer.Option(
        help="Table with user_id and one column for each attribute; empty = undisclosed. A large table may hold them."
    ),
]
Stream = Annotated[
    bool,
    typer.Option("--stream", help="Read and write in blocks, as is done for folders and files of more than 1 GiB."),
]
EngineName = Annotated[str, typer.Option("--engine", help="Who works on a large table: local, or ray.")]
Address = Annotated[str | None, typer.Option(help="Ray cluster to join, as in ray://host:10001 or auto.")]
Run = Annotated[Path | None, typer.Option(help="Folder written by `recveil train`, instead of the two files.")]
Ids = Annotated[Path | None, typer.Option(help="Ids of the rows, for a .npy or safetensors file without any.")]
Panel = Annotated[str, typer.Option(help="Which attackers: see `recveil list attacks`.")]
Folds = Annotated[int, typer.Option(help="Parts the users are dealt into; each is attacked in turn.", min=2)]
Seeds = Annotated[int, typer.Option(help="How often the users are dealt anew.", min=1)]
Permutations = Annotated[
    int,
    typer.Option(
        help="Shuffle the labels this often and run all again, for the p-value; 0 takes that of the corrected t.", min=0
    ),
]
LeakRatio = Annotated[
    float | None, typer.Option(help="Share of the users whose attribute the attacker knows, as in 0.2, 0.4, 0.6, 0.8.")
]
Curve = Annotated[
    bool, typer.Option("--curve", help="Also attack when 20, 40, 60 and 80 % of the users are known (takes longer).")
]
Surface = Annotated[str, typer.Option(help="What is looked at: user_vectors, scores, lists, list_means, interactions.")]
ItemEmbeddings = Annotated[Path | None, typer.Option(help="Table of item vectors: item_id + embedding.")]
Recommendations = Annotated[Path | None, typer.Option(help="Lists: user_id, item_id, rank[, score].")]
Interactions = Annotated[Path | None, typer.Option(help="Histories: user_id, item_id.")]
Before = Annotated[
    Path | None, typer.Option(help="The same users' table from before a defense: adds attackers who hold it too.")
]
Joint = Annotated[bool, typer.Option("--joint", help="Also audit all targets together, as joint classes.")]
JsonOut = Annotated[Path | None, typer.Option(help="Write the JSON document to this file too.")]
RiskOut = Annotated[
    Path | None, typer.Option(help="Write how exposed each user is (.parquet). It names users: keep it safe.")
]
Junit = Annotated[Path | None, typer.Option(help="Write the verdicts as JUnit XML, for CI.")]
Sarif = Annotated[Path | None, typer.Option(help="Write the leaks as SARIF, for code hosts.")]
Baseline = Annotated[Path | None, typer.Option(help="JSON of the last release's audit: exit 1 if this one is worse.")]
FailIf = Annotated[
    list[str] | None,
    typer.Option(help='Exit 1 if this holds, as in "gender.advantage.low > 0.05". May be repeated.'),
]
Margin = Annotated[float, typer.Option(help="An advantage under this is called no leak.", min=0.0, max=1.0)]

Serving = Annotated[str, typer.Option(help="How non-members are served: fold-in (the model), or popular (the charts).")]
SeenItems = Annotated[
    str, typer.Option(help="Items already touched are: excluded, kept, or, by the flawed rule of the papers, paper.")
]
ListLength = Annotated[int | None, typer.Option("--k", help="Places of a list; 100, or as in the files.", min=1)]
ModelOption = Annotated[list[str] | None, typer.Option(help="Hyper-parameter of the target, as in epochs=50.")]
ShadowModel = Annotated[
    str | None, typer.Option(help="What the attacker trains; the target's model and options if not given.")
]
ShadowOption = Annotated[list[str] | None, typer.Option(help="Hyper-parameter of the shadow model.")]
MembershipAttacks = Annotated[
    str,
    typer.Option(
        help="Attacks, separated by commas: biased, dlmia, shadowfree; lira, rmia (reference models); rules always run."
    ),
]
ReferenceModels = Annotated[int, typer.Option(help="Models that lira and rmia compare with, an even number.", min=4)]
ReferenceSignal = Annotated[
    str, typer.Option(help="What lira and rmia take of scores: rank-percentile, log-odds or bpr-margin.")
]
AttackOption = Annotated[
    list[str] | None, typer.Option(help="Option of an attack, as in dlmia.encoder=beta-vae. May be repeated.")
]
ItemVectors = Annotated[Path | None, typer.Option(help="What the attacker knows of items: item_id + embedding.")]
ItemTexts = Annotated[Path | None, typer.Option(help="Or their texts: item_id, text. Words are hashed.")]
ListDefense = Annotated[str | None, typer.Option("--defense", help="Defend the lists: popularity.")]
Pool = Annotated[int, typer.Option(help="Popular items that the defense draws from.", min=1)]
Inductive = Annotated[
    bool, typer.Option("--inductive", help="Attacks look at half of the target's users and judge the others.")
]
UserMinimum = Annotated[
    int | None, typer.Option(help="Interactions a user must have: 20, or 5 with a sequential model.", min=1)
]
Histories = Annotated[Path | None, typer.Option(help="Histories: user_id, item_id[, timestamp].")]
Lists = Annotated[Path | None, typer.Option(help="Lists: user_id, item_id, rank.")]
Members = Annotated[
    Path | None, typer.Option(help="Members: user_id, member (0 or 1), or the ids of the members alone.")
]
ScoresOut = Annotated[
    Path | None, typer.Option(help="Write what each attack says of each user. It names users: keep it safe.")
]
MembershipMargin = Annotated[
    float, typer.Option("--margin", help="An AUC closer than this to 0.5 is called no leak.", min=0.0, max=0.5)
]


def names(text: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def bins_of(given: list[str] | None) -> dict[str, list[float]]:
    """Edges by column, from texts like age=35,45."""
    bins = {}
    for text in given or []:
        name, _, edges = text.partition("=")
        try:
            bins[name.strip()] = [float(edge) for edge in edges.split(",")]
        except ValueError:
            raise UsageError(f"Cannot read --bins {text}. Write name=edge,edge, as in age=35,45.") from None
    return bins


def options_of(given: list[str] | None) -> dict[str, Any]:
    """Hyper-parameters written name=value; numbers are read as numbers, nothing is evaluated."""
    options: dict[str, Any] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"Cannot read --option {text}. Write name=value, as in epochs=50.")
        try:
            options[name.strip()] = json.loads(value)
        except json.JSONDecodeError:
            options[name.strip()] = value
    return options
