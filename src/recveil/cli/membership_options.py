"""Options of the membership command (moved into its options class next)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
