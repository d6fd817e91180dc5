"""Exchange of places: users trade rows until the rows tell the classes no better than random labels.

Users of a class in excess at a place trade with users of classes in excess elsewhere, the nearest of them first. The
released table holds exactly the rows of the undefended one, so no row can be told from an undefended row: nothing is
injected, whatever the shape of the table (many users near one point, equal rows, discrete columns, heavy tails).

Limits: a user who trades gets the row of another user, which costs recommendations more than a small move does; use
`sliced` where the self-check passes it. There is no map for later users. What the learners of
`transport.class_evidence` cannot tell from random labels is left as it is. What attackers see beside the vectors, such
as which items score high, is hidden from a linear discriminant alone, and only where `defend_view` is told of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recveil.core.device import resolve_device
from recveil.core.option_types import Share
from recveil.core.protocols import TableView, UtilityLoss
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.cells import check_table, plan_cells
from recveil.defenses.embeddings.transformers import EmbeddingTransformer
from recveil.transport.place_exchange import exchange_places

__all__ = ["Exchange"]

METHODS = (
    DefenseTraits(
        "exchange",
        builder="Exchange",
        guarantee="the released rows are those of the undefended table; only their users change",
        blends=False,
        undisclosed_users="kept their vectors",
        auto_rank=20,
        search_space={"strength": Range(0.3, 1.0)},
    ),
)


@dataclass
class Exchange(EmbeddingTransformer):
    """Rows traded between classes until they tell no class; no row is new.

    Several attributes are hidden as joint cells. The order of the users does not matter.

    Args:
        strength: share of the trades that are made.
        device: where the regressions are computed.
        random_state: seed of the reference and of who trades.
    """

    strength: Share = 1.0

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: UtilityLoss | None = None
    ) -> FloatArray:
        """Return the same rows with users traded between them; `utility` is not used."""
        return self.defend_view(x, codes, None, rng=rng)

    def defend_view(
        self, x: FloatArray, codes: IntArray, view: TableView | None, *, rng: np.random.Generator
    ) -> FloatArray:
        """Return the same rows traded until they, and this view of them, tell the classes no better than chance.

        Args:
            x: the user vectors.
            codes: (n, n_attributes) classes, -1 = undisclosed.
            view: what attackers see of a table beside its vectors, where there is more.
            rng: source of who trades.
        """
        check_table(x, codes, self.strength)
        cells = plan_cells(codes, minimum=0)[0]
        if self.strength == 0 or cells.n_classes < 2:
            return np.asarray(x, dtype=np.float32).copy()
        exposed = None if view is None else view(np.asarray(x, dtype=np.float32))
        device = resolve_device(self.device)
        rows = exchange_places(x, cells.codes, rng, share=self.strength, device=device, exposed=exposed)
        return np.asarray(x[rows], dtype=np.float32)
