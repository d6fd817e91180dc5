"""What there is, by name: plain dicts from a name to a constructor. A new method is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from recveil.attacks.attribute.panels import ATTACKS, PANELS, available
from recveil.attacks.attribute.tasks import Attack
from recveil.attacks.membership.biased import Biased
from recveil.attacks.membership.dlmia import DLMIA
from recveil.attacks.membership.lira import LiRA
from recveil.attacks.membership.rmia import RMIA
from recveil.attacks.membership.shadowfree import ShadowFree
from recveil.core.errors import RecveilError, UsageError, unknown_name
from recveil.core.protocols import (
    DataDefense,
    EmbeddingDefense,
    ListDefense,
    MembershipAttack,
    Recommender,
    TrainingDefense,
)
from recveil.defenses.data.blurme import BlurMe
from recveil.defenses.data.ldp import LDP
from recveil.defenses.data.retrain import Retrain
from recveil.defenses.embeddings.attrcloak import AttrCloak, AttrCloakDD, AttrCloakDF
from recveil.defenses.embeddings.au_pot import D2D, U2U
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.leace import Leace
from recveil.defenses.embeddings.noise import Noise
from recveil.defenses.embeddings.penalized import AdversarialPoT, RaidPoT
from recveil.defenses.embeddings.sliced import Sliced
from recveil.defenses.lists.popularity import Popularity
from recveil.defenses.training.adversarial import Adversarial
from recveil.defenses.training.au_int import D2DInT, U2UInT
from recveil.defenses.training.raid import Raid, RaidPaper
from recveil.defenses.training.rap import RAP
from recveil.models.als import ALS
from recveil.models.bert4rec import BERT4Rec
from recveil.models.bprmf import BPRMF
from recveil.models.caser import Caser
from recveil.models.construction import make_model
from recveil.models.dmf import DMF
from recveil.models.gru4rec import GRU4Rec
from recveil.models.itemknn import ItemKNN
from recveil.models.lfm import LFM
from recveil.models.lightgcn import LightGCN
from recveil.models.ncf import NCF
from recveil.models.puresvd import PureSVD

__all__ = [
    "ATTACKS",
    "DATA_DEFENSES",
    "DEFENSES",
    "EMBEDDING_DEFENSES",
    "LIST_DEFENSES",
    "MEMBERSHIP_ATTACKS",
    "MODELS",
    "NETWORKS",
    "PANELS",
    "REFERENCED",
    "TRAINING_DEFENSES",
    "described",
    "lookup",
    "make",
    "model_for",
    "panel",
    "place_of",
]

T = TypeVar("T")

MODELS: dict[str, Callable[..., Recommender]] = {
    "als": ALS,
    "bert4rec": BERT4Rec,
    "bprmf": BPRMF,
    "caser": Caser,
    "dmf": DMF,
    "gru4rec": GRU4Rec,
    "itemknn": ItemKNN,
    "lfm": LFM,
    "lightgcn": LightGCN,
    "ncf": NCF,
    "puresvd": PureSVD,
}

NETWORKS = {"ncf", "itemknn"}
"""Models whose scores are not products of user and item vectors."""

MEMBERSHIP_ATTACKS: dict[str, Callable[..., MembershipAttack]] = {
    "biased": Biased,
    "dlmia": DLMIA,
    "shadowfree": ShadowFree,
}
"""The rules are always run beside them. `REFERENCED` are those that also need reference models."""

REFERENCED: dict[str, Callable[..., MembershipAttack]] = {"lira": LiRA, "rmia": RMIA}

DATA_DEFENSES: dict[str, Callable[..., DataDefense]] = {"blurme": BlurMe, "ldp": LDP, "retrain": Retrain}

TRAINING_DEFENSES: dict[str, Callable[..., TrainingDefense]] = {
    "adversarial": Adversarial,
    "d2d-int": D2DInT,
    "raid": Raid,
    "raid-paper": RaidPaper,
    "rap": RAP,
    "u2u-int": U2UInT,
}

EMBEDDING_DEFENSES: dict[str, Callable[..., EmbeddingDefense]] = {
    "adversarial-pot": AdversarialPoT,
    "attrcloak": AttrCloak,
    "attrcloak-dd": AttrCloakDD,
    "attrcloak-df": AttrCloakDF,
    "d2d": D2D,
    "gaussian": Gaussian,
    "leace": Leace,
    "noise": Noise,
    "raid-pot": RaidPoT,
    "sliced": Sliced,
    "u2u": U2U,
}


LIST_DEFENSES: dict[str, Callable[..., ListDefense]] = {"popularity": Popularity}

DEFENSES: dict[str, Mapping[str, Callable[..., Any]]] = {
    "data": DATA_DEFENSES,
    "training": TRAINING_DEFENSES,
    "embeddings": EMBEDDING_DEFENSES,
    "lists": LIST_DEFENSES,
}
"""By the place where they act."""


def place_of(name: str) -> str:
    """Where the defense of this name acts: data, training, embeddings or lists."""
    known = {each: place for place, table in DEFENSES.items() for each in table}
    return lookup("defense", name, known)


def lookup(kind: str, name: str, table: Mapping[str, T]) -> T:
    """The entry of this name, or an error with the nearest match."""
    if name not in table:
        raise unknown_name(kind, name, table)
    return table[name]


def make(kind: str, name: str, table: Mapping[str, Callable[..., T]], **options: Any) -> T:
    """Construct the entry of this name; an unknown option is an error with the nearest match."""
    constructor = lookup(kind, name, table)
    known = [f.name for f in fields(constructor) if f.init] if is_dataclass(constructor) else []
    for option in options:
        if option not in known:
            raise unknown_name(f"option of {kind} '{name}'", option, known)
    try:
        return constructor(**options)
    except RecveilError:
        raise
    except (TypeError, ValueError) as error:
        raise UsageError(f"{kind} '{name}' cannot be made with {options}: {error}") from error


def model_for(data: str, name: str, options: Mapping[str, Any], device: str | None) -> Recommender:
    """The model of this name with the settings that were found for this data set, and these options over them."""
    return make_model(name, data, options, device)


def panel(name: str = "fast", device: str | None = None) -> dict[str, Attack]:
    """The attackers of a panel, ready to run; those whose package is missing are left out."""
    return {attack: ATTACKS[attack](device) for attack in available(lookup("panel", name, PANELS))}


def described(kind: str = "") -> dict[str, dict[str, str]]:
    """What there is, with the first line of each entry's documentation."""
    attacks = {
        name: _first_line(getattr(attack(None), "builder", None) or type(attack(None)))
        for name, attack in ATTACKS.items()
    }
    tables = {
        "models": {name: _first_line(entry) for name, entry in MODELS.items()},
        "attacks": {**attacks, **{f"panel {name}": ", ".join(members) for name, members in PANELS.items()}},
        "membership": {name: _first_line(entry) for name, entry in {**MEMBERSHIP_ATTACKS, **REFERENCED}.items()},
        "defenses": {
            name: f"{_first_line(entry)} ({place})"
            for place, table in DEFENSES.items()
            for name, entry in table.items()
        },
    }
    return {kind: lookup("kind", kind, tables)} if kind else tables


def _first_line(entry: object) -> str:
    return (getattr(entry, "__doc__", None) or "").strip().split("\n")[0]
