"""The sentence of a rehearsal holds all that was measured."""

from __future__ import annotations

from recveil.core.rehearsal_parts import Rehearsal, RehearsalTarget
from recveil.core.types import Estimate


def test_the_sentence_holds_the_three_advantages() -> None:
    found = RehearsalTarget(
        n_hidden=1_200,
        from_disclosed=Estimate(0.12, 0.08, 0.16, 1_200),
        knows_some=Estimate(0.52, 0.47, 0.57, 1_200),
        disclosure=Estimate(0.0, 0.0, 0.03, 4_000),
    )
    sentence = Rehearsal(method="sliced", share=0.3, targets={"gender": found}).describe_target("gender")
    for part in ("1,200", "sliced", "gender", "0.12 (0.08 to 0.16)", "0.52", "0.00 (0.00 to 0.03)"):
        assert part in sentence
