"""Lists that keep the promise of a cloaked table: made, measured, audited and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import sparse

from recveil.attacks.attribute.surfaces import build_view
from recveil.audits.attribute.user_order import hash_rows
from recveil.core.errors import UsageError
from recveil.core.list_parts import DefendedLists
from recveil.core.option_types import Count, Share, check_fields
from recveil.core.protocols import OmissionDefense
from recveil.core.random import PairDraws, make_generator
from recveil.core.result_parts import Utility
from recveil.core.types import Attribute, FloatArray, IntArray, Release, ServedVectors
from recveil.data.io.ids import Ids
from recveil.data.io.release_files import write_lists
from recveil.defenses import DEFENSES
from recveil.workflows.audit_protocol import AuditProtocol, Results, collect_results
from recveil.workflows.defended_release import stack_codes
from recveil.workflows.notes import merge_small_classes
from recveil.workflows.utility import Recommendations, compare_rankings

__all__ = ["ListMaker", "ListRequest", "describe_lists", "release_lists"]

HEAD_LISTS = 40
"""Part of a ranking in which decoys are drawn, in lengths of a list."""


@dataclass(frozen=True)
class ListRequest:
    """Lists to write.

    Attributes:
        out: Parquet file of user_id, item_id and rank.
        length: places of a list.
        strength: strength of the list defense.
        method: name of the list defense.
    """

    out: Path
    length: Count = 10
    strength: Share = 1.0
    method: str = "decoys"

    def __post_init__(self) -> None:
        check_fields(self, "")
        if self.out.suffix != ".parquet":
            raise UsageError(f"`lists_out` is {self.out.name}. Lists are written as Parquet: end the name in .parquet.")
        traits = DEFENSES.traits(self.method)
        if traits.place != "lists" or traits.hides_members:
            raise UsageError(f"'{self.method}' does not hide an attribute in lists. Use decoys.")


@dataclass(frozen=True, eq=False)
class ListMaker:
    """How lists are made of a cloaked table.

    Attributes:
        recommendations: how users are served.
        x: the cloaked vectors.
        targets: attributes to protect.
        request: the lists to write.
        seed: draws the decoys.
        undefended: the vectors before the cloak, in the same order; None if they are not known.
    """

    recommendations: Recommendations
    x: FloatArray
    targets: Sequence[Attribute]
    request: ListRequest
    seed: int
    undefended: FloatArray | None = None

    def omit_items(self, seen: sparse.csr_array) -> sparse.csr_array:
        """Return what the lists omit: the seen items, and decoys."""
        served, k = self.recommendations, self.request.length
        nothing = sparse.csr_array(seen.shape, dtype=np.int32)
        head = served.list_items(self.x, min(seen.shape[1], HEAD_LISTS * k), nothing)
        codes = stack_codes(self.targets)[served.rows]
        train = served.split.train
        draw_pairs = PairDraws.from_ids(self.seed, train.user_ids.tolist(), train.item_ids.tolist())
        defense: OmissionDefense = DEFENSES.make(self.request.method, strength=self.request.strength)
        rng = make_generator(self.seed, "decoys")
        return defense(head, seen, codes, k=k, rng=rng, draw_pairs=draw_pairs, vectors=self._serve_vectors(head))

    def _serve_vectors(self, head: IntArray) -> ServedVectors:
        """Return the vectors that these heads come from, in the order of the split."""
        served = self.recommendations
        undefended = None if self.undefended is None else self.undefended[served.rows]
        return ServedVectors(self.x[served.rows], lambda x: served.score_lists(x, head), undefended)

    def make_release(self, omitted: sparse.csr_array) -> Release:
        """Release the vectors and the lists that omit these items."""
        return self.recommendations.make_release(self.x, self.request.length, omitted=omitted)


def release_lists(
    recommendations: Recommendations,
    x: FloatArray,
    targets: Sequence[Attribute],
    protocol: AuditProtocol,
    request: ListRequest,
    *,
    audit: bool,
    undefended: FloatArray | None = None,
    ids: Ids | None = None,
) -> DefendedLists | None:
    """Write lists of a cloaked table that hide what they omit, and audit them where asked to.

    Args:
        recommendations: how users are served.
        x: the cloaked vectors.
        targets: attributes to protect, with classes.
        protocol: the rules of the audits; its seed draws the decoys.
        request: the lists to write.
        audit: run the audits and measure what the lists are worth.
        undefended: the vectors before the cloak, where they are known; decoys then hide more.
        ids: ids of the users, from which the folds are derived.
    """
    targets = merge_small_classes(targets)[0]
    maker = ListMaker(recommendations, x, targets, request, protocol.draw_seed, undefended)
    seen = recommendations.collect_seen_items(everything=True)
    omitted, train = maker.omit_items(seen), recommendations.split.train
    lists = recommendations.list_items(x, request.length, omitted)
    write_lists(request.out, lists, train.user_ids, train.item_ids)
    if not audit:
        return None
    ids = hash_rows(x) if ids is None else ids
    before, after = maker.make_release(seen), maker.make_release(omitted)

    def attack(release: Release, surface: str) -> Results:
        view = build_view(release, surface, rng=make_generator(protocol.seed, "view"))
        return collect_results(replace(protocol, permutations=0).audit_classes(view, targets, ids=ids))

    return DefendedLists(
        method=request.method,
        strength=request.strength,
        length=request.length,
        decoys=(omitted.nnz - seen.nnz) / max(1, seen.shape[0]),
        lists=attack(after, "lists"),
        omissions=attack(after, "omissions"),
        together=attack(after, "vectors_and_lists"),
        undefended_omissions=attack(before, "omissions"),
        undefended_together=attack(before, "vectors_and_lists"),
        utility=_measure_lists(maker, omitted),
    )


def _measure_lists(maker: ListMaker, omitted: sparse.csr_array) -> Utility:
    """Compare what lists are worth without and with the defense, with the newest item unknown as everywhere else."""
    served = maker.recommendations
    known = served.collect_seen_items()
    measured = omitted if served.history is None else maker.omit_items(known)
    undefended, defended = (served.rank_test_items(maker.x, each) for each in (known, measured))
    in_split_order = [replace(target, codes=target.codes[served.rows]) for target in maker.targets]
    return compare_rankings(undefended, defended, in_split_order, note=served.note)


def describe_lists(lists: DefendedLists) -> list[str]:
    """Say what attackers find in the lists, before and after, and what the defense costs."""
    before, change = lists.utility.before["ndcg@10"], lists.utility.difference["ndcg@10"]
    price = f" NDCG@10 {before.value:.4f} {change.value:+.4f} [{change.low:+.4f}, {change.high:+.4f}]."
    return [
        f"Lists and {name}: an attacker who holds vectors and lists has an advantage of "
        f"{_format_advantage(lists.undefended_together[name])} without {lists.method} and "
        f"{_format_advantage(target)} with it ({_format_advantage(lists.lists[name])} from the lists alone, "
        f"{_format_advantage(lists.omissions[name])} from what they omit).{price}"
        for name, target in lists.together.items()
    ]


def _format_advantage(target: object) -> str:
    advantage = target.headline.advantage  # type: ignore[attr-defined]
    return f"{advantage.value:.2f} [{advantage.low:.2f}, {advantage.high:.2f}]"
