"""What a user hands in beside a trained model: ids of its rows, interactions, and options of one library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from recveil.core.errors import DataError, UsageError
from recveil.core.registry import check_options
from recveil.core.types import Dataset, IntArray
from recveil.data.io.ids import Ids, as_numpy, find_positions, normalize_ids, refuse_duplicates, unify_types
from recveil.data.io.tables import USER_NAMES, build_dataset, require_column, select_interactions
from recveil.data.io.vectors import ROW_NUMBER
from recveil.integrations.dataframes import is_dataframe, read_arrow

__all__ = ["ModelRequest", "name_model"]

MIN_KNOWN_SHARE = 0.5
"""Share of the interactions whose user and item the model must know."""


def name_model(model: object) -> str:
    """Return library and class of a model, for reports and errors."""
    return f"{type(model).__module__.split('.')[0]} {type(model).__name__}"


@dataclass(frozen=True, eq=False)
class ModelRequest:
    """A trained model with what its library does not keep.

    Attributes:
        model: the model.
        user_ids: raw ids of the users, by row; "row-number" if they are 0, 1, 2, ...
        item_ids: raw ids of the items, by row; "row-number" likewise.
        interactions: a DataFrame (user_id, item_id[, timestamp]), or a sparse matrix in the order of the rows.
        held_out: interactions that the model was not trained on, in the same form.
        options: options of the library.
    """

    model: Any
    user_ids: Any = None
    item_ids: Any = None
    interactions: Any = None
    held_out: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Library and class of the model."""
        return name_model(self.model)

    def take_options(self, *names: str) -> list[Any]:
        """Return these options of the library, None where one was left out; others are refused."""
        if self.options and not names:
            raise UsageError(f"A {self.name} takes no option '{next(iter(self.options))}'. Leave it out.")
        check_options(f"from_model for {self.name}", self.options, list(names))
        return [self.options.get(name) for name in names]

    def require_attribute(self, name: str) -> Any:
        """Return what training leaves in the model.

        Raises:
            UsageError: the model was not trained.
        """
        value = getattr(self.model, name, None)
        if value is None:
            raise UsageError(f"This {self.name} has no `{name}`, so it was not trained. Train it first.")
        return value

    def read_ids(self, owner: str, n: int) -> Ids:
        """Return the raw ids that were given for the rows of a library that keeps none.

        Args:
            owner: "user" or "item".
            n: number of rows.

        Raises:
            UsageError: none were given.
        """
        ids = self.user_ids if owner == "user" else self.item_ids
        if isinstance(ids, str) and ids == ROW_NUMBER:
            return np.arange(n)
        if ids is None:
            raise UsageError(
                f"A model of {self.name.split()[0]} keeps no ids of its {owner}s. Give `{owner}_ids`, one for each row "
                f'in the order of the rows, or `{owner}_ids="{ROW_NUMBER}"` if they are 0, 1, 2, ...'
            )
        return self.convert_ids(ids, owner)

    def read_history_ids(self) -> Ids:
        """Return the ids of the users of a model that knows users by their interactions alone."""
        if self.user_ids is None and is_dataframe(self.interactions):
            table = read_arrow(self.interactions)
            return normalize_ids(
                table.column(require_column(table, USER_NAMES, "`interactions`")).unique(), "`interactions`"
            )
        return self.read_ids("user", self.interactions.shape[0] if sparse.issparse(self.interactions) else 0)

    def convert_ids(self, ids: Any, owner: str) -> Ids:
        """Return ids as whole numbers or text, each once."""
        values = ids if isinstance(ids, pa.Array | pa.ChunkedArray | np.ndarray) else list(ids)
        array = normalize_ids(values if not isinstance(values, list) else pa.array(values), f"`{owner}_ids`")
        refuse_duplicates(array, f"`{owner}_ids`", owner)
        return array

    def read_interactions(self, user_ids: Ids, item_ids: Ids) -> Dataset | None:
        """Return the interactions in the order of these ids; None where none were given."""
        return self._read_pairs(self.interactions, "`interactions`", user_ids, item_ids)

    def read_held_out(self, user_ids: Ids, item_ids: Ids) -> Dataset | None:
        """Return the held-out interactions in the order of these ids; None where none were given."""
        if self.held_out is not None and self.interactions is None:
            raise UsageError("`held_out` needs `interactions`, the ones that the model was trained on. Give both.")
        return self._read_pairs(self.held_out, "`held_out`", user_ids, item_ids)

    def read_histories(self, user_ids: Ids, item_ids: Ids) -> sparse.csr_matrix:
        """Return the interactions as a user-by-item matrix with the weights of a matrix that was given.

        Raises:
            UsageError: no interactions were given.
        """
        if self.interactions is None:
            raise UsageError(f"A {self.name} scores items by the user's interactions. Give `interactions`.")
        if sparse.issparse(self.interactions):
            self._check_shape(self.interactions, "`interactions`", user_ids, item_ids)
            return sparse.csr_matrix(self.interactions)
        data = self.read_interactions(user_ids, item_ids)
        assert data is not None
        ones = np.ones(len(data), dtype=np.float32)
        return sparse.csr_matrix((ones, (data.user, data.item)), shape=(data.n_users, data.n_items))

    def _read_pairs(self, given: Any, source: str, user_ids: Ids, item_ids: Ids) -> Dataset | None:
        if given is None:
            return None
        if sparse.issparse(given):
            self._check_shape(given, source, user_ids, item_ids)
            pairs = sparse.coo_matrix(given)
            user, item = pairs.row.astype(np.int64), pairs.col.astype(np.int64)
            return Dataset(self.name, user, item, None, as_numpy(user_ids), as_numpy(item_ids))
        if not is_dataframe(given):
            raise UsageError(f"{source} is a {type(given).__name__}. Give a DataFrame or a sparse matrix.")
        path = Path(source.strip("`"))
        data = build_dataset(source, select_interactions(read_arrow(given), path))
        user, item = _locate(data.user_ids, user_ids)[data.user], _locate(data.item_ids, item_ids)[data.item]
        known = (user >= 0) & (item >= 0)
        if known.sum() < MIN_KNOWN_SHARE * len(known):
            raise DataError(
                f"The model knows user and item of only {int(known.sum()):,} of the {len(known):,} rows of {source} "
                f"(it knows user '{as_numpy(user_ids)[0]}' and item '{as_numpy(item_ids)[0]}'). Write the ids alike."
            )
        numbered = replace(data, user=user, item=item, user_ids=as_numpy(user_ids), item_ids=as_numpy(item_ids))
        return numbered.take(known)

    def _check_shape(self, matrix: Any, source: str, user_ids: Ids, item_ids: Ids) -> None:
        if matrix.shape != (len(user_ids), len(item_ids)):
            raise DataError(
                f"{source} is a matrix of shape {matrix.shape}, and the model has {len(user_ids):,} users and "
                f"{len(item_ids):,} items. Give users in rows and items in columns."
            )


def _locate(ids: Ids, known: Ids) -> IntArray:
    ours, theirs = unify_types(normalize_ids(ids, "the interactions"), normalize_ids(known, "the model"))
    return find_positions(ours, theirs)
