"""Parts of the result documents: the self-check of a defense, and whether its price is acceptable."""

from __future__ import annotations

from recveil.core.result_parts import EstimateField, Number, Part
from recveil.core.types import Estimate

__all__ = ["Price", "SelfCheck", "SelfCheckTarget"]


class SelfCheckTarget(Part):
    """The advantage of the strongest attack on one attribute before and after a defense, by cross-validation.

    Attributes:
        before: that of the strongest attack of the fast panel; of all attacks where the comparison decides.
        attack: attack that was strongest after the defense.
        surface: what it saw.
        passed: what is left is within the margin or within chance, and not more than before.
    """

    before: EstimateField
    after: EstimateField
    attack: str
    surface: str = "user_vectors"
    passed: bool

    @property
    def attacker(self) -> str:
        """The attack, and what it saw beside the vectors."""
        return self.attack if self.surface == "user_vectors" else f"{self.attack} on {self.surface.replace('_', ' ')}"


class Price(Part):
    """What a defense costs in recommendations, as a share of NDCG@10, where that is known.

    Attributes:
        limit: share that it may cost.
        share: share that it costs.
        least: share that equal class means and covariances by least displacement cost, which is about what hiding the
            attributes costs with any defense of the vectors; only measured above the limit.
        method: name of the defense.
    """

    limit: Number
    share: EstimateField
    least: EstimateField | None = None
    method: str

    @property
    def is_acceptable(self) -> bool:
        """Whether it is within the limit."""
        return self.share.value <= self.limit

    @property
    def sentence(self) -> str:
        """What it costs and why, in words; empty within the limit."""
        if self.is_acceptable:
            return ""
        words = f"The defense {self.method} costs {_format_share(self.share)} of NDCG@10, more than {self.limit:.0%}."
        if self.least is None:
            return words
        about = f"Equal class means and covariances alone, by least displacement, cost {_format_share(self.least)}"
        if self.least.value > self.limit:
            return f"{words} {about}: the recommendations rest on what is to be hidden, so expect no cheap defense."
        return f"{words} {about}; the rest hides what these do not."


class SelfCheck(Part):
    """What strong attacks find in a defended table, measured before it is handed over.

    Attributes:
        margin: advantage that may be left.
        targets: each attribute.
        tried: largest advantage that each tried defense left; the defense that was used is among them.
        price: what the defense costs in recommendations, where it is known how users are served.
    """

    margin: Number
    targets: dict[str, SelfCheckTarget]
    tried: dict[str, Number]
    price: Price | None = None

    @property
    def passed(self) -> bool:
        """Whether every attribute passed."""
        return all(target.passed for target in self.targets.values())

    @property
    def largest_advantage(self) -> float:
        """The largest advantage that is left on any attribute."""
        return max((target.after.value for target in self.targets.values()), default=0.0)

    @property
    def sentence(self) -> str:
        """What is left, in words; empty if the check passed."""
        failed = [
            f"{name} (advantage {target.before.value:.2f} before, {target.after.value:.2f} after, by {target.attacker})"
            for name, target in self.targets.items()
            if not target.passed
        ]
        if not failed:
            return ""
        tried = ", ".join(f"{method} {advantage:.2f}" for method, advantage in self.tried.items())
        return (
            f"The defended table still reveals {' and '.join(failed)}; the margin is {self.margin:g}. "
            f"Advantage left by each defense that was tried: {tried}."
        )

    @property
    def is_too_expensive(self) -> bool:
        """Whether the price is known and above its limit."""
        return self.price is not None and not self.price.is_acceptable

    @property
    def opening_sentences(self) -> list[str]:
        """What to read first: what is left or could be overlooked, and a price above its limit."""
        price = "" if self.price is None else self.price.sentence
        return [sentence for sentence in (self.sentence or self.caution, price) if sentence]

    @property
    def caution(self) -> str:
        """What a check that passed could not see, in words; empty if it failed or shows that the margin is kept."""
        wide = {name: target.after for name, target in self.targets.items() if target.after.high > self.margin}
        if not wide or not self.passed:
            return ""
        name, widest = max(wide.items(), key=lambda item: item[1].high)
        return (
            f"The self-check found no more than chance gives, but of {widest.n:,} users it could overlook an advantage "
            f"of up to {min(widest.high, 1.0):.2f} for {name}."
        )


def _format_share(share: Estimate) -> str:
    return f"{share.value:.0%} [{share.low:.0%}, {share.high:.0%}]"
