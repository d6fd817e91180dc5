"""The functions behind the public door: `audit`, `cloak`, `train` and `membership` on arrays, DataFrames and names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from recveil.attacks.attribute.surfaces import build_view
from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.core.registry import check_options
from recveil.core.result_parts import InputSummary
from recveil.core.results import AuditResult, CloakResult, MembershipResult, TrainResult
from recveil.core.types import Attribute, Dataset
from recveil.data.io.attributes import make_attributes, select_auditable
from recveil.data.io.ids import find_positions, normalize_ids, unify_types
from recveil.data.io.tables import USER_NAMES, build_dataset, require_column, select_interactions
from recveil.integrations.dataframes import SOURCE, TableInput, is_dataframe, read_arrow, read_table_input
from recveil.integrations.model_release import ModelRelease
from recveil.workflows.audit import AuditedTable, audit_table
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak_table import ClearTable, cloak_table
from recveil.workflows.defended_release import ChosenDefense, select_targets
from recveil.workflows.self_check import AUTO
from recveil.workflows.train import TrainRequest, train_dataset, train_run

__all__ = ["audit", "cloak", "membership", "train"]

Names = str | Sequence[str]


def audit(
    data: Any,
    y: Any = None,
    *,
    target: Names | None = None,
    vectors: Names | None = None,
    numeric: Sequence[str] = (),
    keep_label: Sequence[str] = (),
    details: bool = True,
    **rules: Any,
) -> AuditResult:
    """Audit a table of user vectors: can an attacker infer these attributes?

    Args:
        data: a DataFrame of any library with vectors and attributes, an (n, d) array of user vectors, or a trained
            model as `from_model` returns it.
        y: labels of the users where `data` is an array; -1 among integers, None and NaN are undisclosed. For a model
            a DataFrame with `user_id` and the attributes.
        target: attributes to audit (all in the DataFrame if None), or the name of `y`.
        vectors: column of lists, or numeric columns, that hold the vectors of a DataFrame.
        numeric: attributes that hold numbers; they are audited by regression.
        keep_label: labels to keep as classes though they look undisclosed, such as "none".
        details: add leak maps, which the report draws.
        **rules: rules of the audit: panel, attacks, folds, repeats, margin, permutations, leak_ratio, seed, device,
            and for a model surface ("user_vectors", "lists", "scores", ...).

    Returns:
        The result; in a notebook it shows the report.

    Example:
        >>> import numpy as np, recveil as rv
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(2, size=200)
        >>> X = rng.normal(size=(200, 4)) + 2 * y[:, None]
        >>> rv.audit(X, y, target="gender", repeats=1).verdict
        <Verdict.LEAK: 'leak'>
    """
    table = read_table_input(data, y, target=target, vectors=vectors, numeric=numeric, keep_label=keep_label)
    names, left_out = _choose_names(table.attributes, target)
    targets = select_targets(table.attributes, names, "the table", numbers=True)
    protocol = _make_protocol(rules)
    audited = AuditedTable(_summarize(table), table.x, targets)
    if table.model is not None:
        protocol = _choose_surface(table.model, protocol, is_named="surface" in rules)
        audited = _view_model(audited, table.model, protocol)
    elif protocol.surface != "user_vectors":
        raise UsageError("A table holds user vectors only. Audit another surface of a model by `from_model`.")
    result, _ = audit_table(audited, protocol, details=details)
    return result.model_copy(update={"warnings": [*table.notes, *left_out, *result.warnings]})


def cloak(
    data: Any,
    y: Any = None,
    *,
    target: Names | None = None,
    vectors: Names | None = None,
    method: str = AUTO,
    options: Mapping[str, Any] | None = None,
    keep_label: Sequence[str] = (),
    **rules: Any,
) -> CloakResult:
    """Defend a table of user vectors, and audit it before and after.

    Args:
        data: a DataFrame of any library with vectors and attributes, an (n, d) array of user vectors, or a trained
            model as `from_model` returns it; with its interactions utility and lists are measured too.
        y: labels of the users where `data` is an array; for a model a DataFrame with `user_id` and the attributes.
        target: attributes to protect (all with classes in the DataFrame if None), or the name of `y`.
        vectors: column of lists, or numeric columns, that hold the vectors of a DataFrame.
        method: name of the defense; "auto" takes the cheapest that passes its self-check (`result.self_check`).
        options: options of the defense, such as strength.
        keep_label: labels to keep as classes though they look undisclosed, such as "none".
        **rules: rules of the audits, as for `audit`.

    Returns:
        The result; `result.table` is the defended table, of the same kind: an array, a DataFrame of the same
        library, or the release of the model with defended user vectors.

    Example:
        >>> import numpy as np, recveil as rv
        >>> y = np.arange(200) % 2
        >>> X = np.random.default_rng(0).normal(size=(200, 4)) + 2 * y[:, None]
        >>> result = rv.cloak(X, y, target="gender", method="noise", panel="logistic", repeats=1)
        >>> result.table.shape, result.before["gender"].verdict.value
        ((200, 4), 'leak')
    """
    table = read_table_input(data, y, target=target, vectors=vectors, keep_label=keep_label)
    classes = {name: attribute for name, attribute in table.attributes.items() if not attribute.is_numeric}
    names, left_out = _choose_names(classes, target)
    targets = select_targets(table.attributes, names, "the table")
    defense = ChosenDefense(method, dict(options or {}))
    protocol = _make_protocol(rules)
    clear = ClearTable(_summarize(table), table.x, targets, notes=[*table.notes, *left_out])
    if table.model is not None:
        clear = _serve_model(clear, table.model, protocol)
    cloaked, result = cloak_table(clear, defense, protocol)
    return result.with_table(table.replace_vectors(cloaked))


def train(
    data: Any,
    *,
    users: Any = None,
    model: str = "bprmf",
    options: Mapping[str, Any] | None = None,
    defense: str | None = None,
    target: Names | None = None,
    out: str | Path | None = None,
    **settings: Any,
) -> TrainResult:
    """Train a recommender, with or without a defense.

    Args:
        data: a data set by name, a path, a `Dataset`, or a DataFrame of interactions (user_id, item_id[, timestamp]).
        users: a DataFrame of attributes (user_id and one column each), where `data` is a DataFrame.
        model: name of the recommender.
        options: options of the model.
        defense: name of a defense that protects the target.
        target: attributes to protect.
        out: folder to write vectors, lists, metrics and the model into; nothing is written if None.
        **settings: k, seed, device, and `defense_options`.

    Example:
        >>> import numpy as np, recveil as rv
        >>> sizes = {"n_users": 100, "n_items": 50, "n_interactions": 2_000}
        >>> world = rv.make_world(**sizes, leaks={"gender": 1.0}, rng=np.random.default_rng(0))
        >>> rv.train(world.dataset, model="puresvd", options={"embedding_size": 8}).config.model
        'puresvd'
    """
    check_options("train", settings, ["k", "seed", "device", "defense_options"])
    chosen = None if defense is None else ChosenDefense(defense, dict(settings.pop("defense_options", None) or {}))
    names = [target] if isinstance(target, str) else list(target or [])
    name = str(data) if isinstance(data, str | Path) else "the data"
    request = TrainRequest(name, model, dict(options or {}), defense=chosen, targets=names, **settings)
    if isinstance(data, str | Path) and out is not None:
        return train_run(request, Path(out))
    return train_dataset(_read_dataset(data, users, request), request, out=None if out is None else Path(out))[0]


def membership(data: str, **settings: Any) -> MembershipResult:
    """Tell whether the users that a recommender was trained on can be recognized.

    Args:
        data: a data set by name, a file, a folder, or `demo`.
        **settings: fields of `MembershipRequest`: model, options, shadow_model, attacks, serving, k, seed, ...
    """
    from recveil.workflows.membership import MembershipRequest, run_membership_on_data

    check_options("membership", settings, [f.name for f in fields(MembershipRequest)])
    return run_membership_on_data(MembershipRequest(data=data, **settings))


def _choose_names(attributes: Mapping[str, Attribute], target: Names | None) -> tuple[list[str], list[str]]:
    """Return the attributes to audit, and a sentence on each that was left out because it cannot be guessed."""
    chosen, notes = ([], []) if target is not None else select_auditable(attributes)
    return (chosen, notes) if chosen else (list(attributes), [])


def _make_protocol(rules: Mapping[str, Any]) -> AuditProtocol:
    check_options("audit", rules, [f.name for f in fields(AuditProtocol)])
    return replace(AuditProtocol(), **rules)


def _summarize(table: TableInput) -> InputSummary:
    name = "this table" if table.model is None else table.model.name
    return InputSummary(name=name, n_users=len(table.x), d=table.x.shape[1] or None)


def _choose_surface(model: ModelRelease, protocol: AuditProtocol, *, is_named: bool) -> AuditProtocol:
    """Return the rules with the surface to audit: the lists of a model without user vectors, unless one was named."""
    return protocol if model.has_vectors or is_named else replace(protocol, surface="lists")


def _view_model(table: AuditedTable, model: ModelRelease, protocol: AuditProtocol) -> AuditedTable:
    """Return what the attacker sees of a model."""
    if protocol.surface == "user_vectors" and model.has_vectors:
        x = table.x
    else:
        rng = make_generator(protocol.seed, "view")
        x = build_view(model.make_release(), protocol.surface, history=model.interactions, rng=rng)
    return replace(table, x=x, activity=model.count_interactions(), ids=model.user_ids)


def _serve_model(table: ClearTable, model: ModelRelease, protocol: AuditProtocol) -> ClearTable:
    """Return the table with how the model serves it."""
    if not model.has_vectors:
        raise UsageError(
            f"A {model.name} holds no user vectors, so there is no table to defend. Audit its lists, and defend the "
            "data that it is trained on or the lists themselves."
        )
    served, activity = model.make_recommendations(protocol.seed), model.count_interactions()
    return replace(table, recommendations=served, activity=activity, ids=model.user_ids)


def _read_dataset(data: Any, users: Any, request: TrainRequest) -> Dataset:
    if isinstance(data, Dataset):
        return data
    if not is_dataframe(data):
        from recveil.data.sources.catalog import load_dataset_or_demo

        return load_dataset_or_demo(str(data), seed=request.seed)
    dataset = build_dataset(str(SOURCE), select_interactions(read_arrow(data), SOURCE))
    return dataset if users is None else replace(dataset, attributes=_read_attributes(users, dataset, request))


def _read_attributes(users: Any, dataset: Dataset, request: TrainRequest) -> dict[str, Attribute]:
    """Read the attributes of the users of a data set; users without a row are undisclosed."""
    import pyarrow as pa

    table = read_arrow(users)
    key = require_column(table, USER_NAMES, SOURCE)
    wanted, given = unify_types(
        normalize_ids(pa.array(dataset.user_ids), SOURCE), normalize_ids(table.column(key), SOURCE)
    )
    rows = find_positions(wanted, given)
    aligned = table.drop_columns([key]).take(pa.array(rows, mask=rows < 0))
    return make_attributes(aligned, bins={}, keep=list(request.targets))
