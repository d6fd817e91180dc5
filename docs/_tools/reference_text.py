"""Reference text in MyST, made from commands, traits, catalogs, schemas and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

YES = {True: "yes", False: "no"}
NO_PAPER = "ours"


def make_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def describe_cli() -> str:
    """Return each command with its arguments, options and examples, as the command itself knows them."""
    import typer

    from recveil.cli.app import app

    parts = []
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        children = getattr(command, "commands", {})
        if children:
            parts.append(f"## recveil {name}\n\n{command.help}")
        for path, leaf in {f"{name} {child}": each for child, each in children.items()}.items() or [(name, command)]:
            parts.append(_describe_command(path, leaf, "###" if children else "##"))
    return "\n\n".join(parts)


def _describe_command(path: str, command: Any, mark: str) -> str:
    from typer._click.core import Context  # the copy of Click that Typer ships

    context = Context(command, info_name=f"recveil {path}")
    usage = command.get_usage(context).removeprefix("Usage: ")
    prose, examples = _split_examples(f"{command.help or ''}\n\n{command.epilog or ''}")
    records = [param.get_help_record(context) for param in command.params]
    rows = [(f"`{left}`", _escape_prose(right)) for left, right in filter(None, records)]
    parts = [
        f"{mark} recveil {path}",
        f"```text\n{usage}\n```",
        _escape_prose(prose),
        make_table(("option", "meaning"), rows),
    ]
    return "\n\n".join([*parts, *(f"```sh\n{example}\n```" for example in examples)])


def _split_examples(text: str) -> tuple[str, list[str]]:
    """Split the help of a command into its prose and the commands it shows."""
    prose, examples = [], []
    for paragraph in text.replace("\b", "").strip().split("\n\n"):
        lines = [
            line.strip().removeprefix("Example: ").removeprefix("Examples:").strip() for line in paragraph.split("\n")
        ]
        commands = [line for line in lines if line.startswith("recveil ")]
        examples += commands
        prose += [] if commands else [paragraph]
    return "\n\n".join(prose), examples


def _escape_prose(text: str) -> str:
    """Keep options, brackets and stars of a help text as they are."""
    for sign in "[]*<>":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("--", "\\-\\-")


def describe_defenses() -> str:
    """Return the table of defenses and the options of each."""
    from recveil.defenses import DEFENSES

    header = (
        "defense",
        "acts on",
        "needs labels when applied",
        "protects undisclosed users",
        "keeps a map",
        "streams",
        "cost",
    )
    rows = [
        (
            f"[`{each.name}`](#{each.name})",
            each.place,
            YES[each.needs_labels],
            YES[each.protects_undisclosed],
            YES[each.keeps_map],
            YES[each.streams],
            _describe_cost(each),
        )
        for each in DEFENSES.all_traits()
    ]
    return f"## All defenses\n\n{make_table(header, rows)}\n\n{_describe_methods(DEFENSES, _describe_defense)}"


def _describe_cost(traits: Any) -> str:
    if traits.quadratic:
        return "grows with the square of the users"
    return {"training": "trains the model again", "data": "trains the model again"}.get(
        traits.place, "grows with the users"
    )


def _describe_defense(traits: Any) -> list[str]:
    facts = [f"Users whose attribute is unknown {traits.undisclosed_users}."]
    facts += [f"Vectors of up to {traits.max_dimensions:,} numbers."] if traits.place == "embeddings" else []
    facts += ["Hides membership, not an attribute."] if traits.hides_members else []
    facts += ["A baseline for comparison."] if traits.for_comparison else []
    facts += ["Tried by `--method auto`."] if traits.auto_rank else []
    return facts


def describe_models() -> str:
    """Return the table of recommenders and the options of each."""
    from recveil.models import MODELS

    header = ("model", "summary", "user vectors", "by dot product", "sequential", "guarantee for members")
    rows = [
        (
            f"[`{each.name}`](#{each.name})",
            each.summary,
            YES[each.has_user_vectors],
            YES[each.dot_product],
            YES[each.is_sequential],
            YES[bool(each.guarantee)],
        )
        for each in MODELS.all_traits()
    ]
    return f"## All models\n\n{make_table(header, rows)}\n\n{_describe_methods(MODELS, lambda traits: [])}"


def describe_attacks() -> str:
    """Return attribute attacks with their panels."""
    from recveil.attacks.attribute import ATTRIBUTE_ATTACKS
    from recveil.attacks.attribute.panels import panel_members, panel_names

    rows = [
        (f"`{each.name}`", each.summary, ", ".join(each.panels), each.paper) for each in ATTRIBUTE_ATTACKS.all_traits()
    ]
    panels = [(f"`{name}`", ", ".join(f"`{each}`" for each in panel_members(name))) for name in panel_names()]
    return (
        f"## Panels\n\n{make_table(('panel', 'attacks'), panels)}\n\n"
        f"## Attribute attacks\n\n{make_table(('attack', 'summary', 'panels', 'paper'), rows)}"
    )


def describe_membership_attacks() -> str:
    """Return membership attacks."""
    from recveil.attacks.membership import MEMBERSHIP_ATTACKS

    rows = [
        (f"`{each.name}`", each.summary, YES[each.is_default], YES[each.needs_references], each.paper)
        for each in MEMBERSHIP_ATTACKS.all_traits()
    ]
    return make_table(("attack", "summary", "by default", "needs reference models", "paper"), rows)


def _describe_methods(registry: Any, describe_facts: Any) -> str:
    parts = []
    for traits in registry.all_traits():
        builder = registry.load(traits.name)
        facts = [f"**Guarantee:** {traits.guarantee}."] if traits.guarantee else []
        facts += [*describe_facts(traits), f"Paper: {traits.paper or NO_PAPER}."]
        options = [(f"`{name}`", f"`{default}`") for name, default in _list_options(builder)]
        table = make_table(("option", "default"), options) if options else ""
        parts.append(
            f"## {traits.name}\n\n{traits.summary}\n\n" + "\n".join(f"- {fact}" for fact in facts) + f"\n\n{table}"
        )
    return "\n\n".join(parts)


def _list_options(builder: Any) -> list[tuple[str, str]]:
    """List the options of a method with their defaults."""
    if is_dataclass(builder):
        listed = [
            (f.name, repr(f.default) if f.default is not MISSING else repr(f.default_factory()))  # type: ignore[misc]
            for f in fields(builder)
            if f.init and (f.default is not MISSING or f.default_factory is not MISSING)
        ]
    else:
        parameters = inspect.signature(builder).parameters.values()
        listed = [(p.name, repr(p.default)) for p in parameters if p.default is not p.empty]
    return [(name, default) for name, default in listed if name not in ("device", "seed")]


def describe_data_sets() -> str:
    """Return the catalog of public data sets."""
    from recveil.data.sources.catalog import SOURCES

    parts = []
    for name, source in SOURCES.items():
        arrives = f"`recveil data get {name}`" if source.url else "by hand, from its page"
        facts = [
            f"Page: <{source.page}>",
            f"Terms: {source.license}",
            f"Cite: {source.citation}",
            f"Arrives: {arrives}",
        ]
        facts += [f"Cleaning by default: {_describe_cleaning(source.cleaning)}"]
        parts.append(f"## {name}\n\n{source.title}.\n\n" + "\n".join(f"- {fact}" for fact in facts))
    return "\n\n".join(parts)


def _describe_cleaning(cleaning: Any) -> str:
    return ", ".join(f"{f.name} {getattr(cleaning, f.name)}" for f in fields(cleaning)) or "none"


def describe_results() -> str:
    """Return the fields of every result document, from their JSON schema."""
    from recveil.core.results import json_schema

    schemas: dict[str, Any] = dict(json_schema())
    parts = [_describe_schema(name, schema) for name, schema in schemas.items()]
    shared: dict[str, Any] = {}
    for schema in schemas.values():
        shared |= schema.get("$defs", {})
    parts += ["## Parts of documents", *(_describe_schema(name, shared[name], "###") for name in sorted(shared))]
    return "\n\n".join(parts)


def _describe_schema(name: str, schema: dict[str, Any], mark: str = "##") -> str:
    required = set(schema.get("required", []))
    rows = [
        (f"`{key}`", _name_type(value), "" if key in required else "optional")
        for key, value in schema.get("properties", {}).items()
    ]
    values = ", ".join(f"`{value}`" for value in schema.get("enum", []))
    table = make_table(("key", "type", ""), rows) if rows else f"One of {values}." if values else ""
    return f"{mark} {name}\n\n{_escape_prose(schema.get('description', ''))}\n\n{table}"


def _name_type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[-1]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_name_type(each) for each in schema["anyOf"]))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = str(schema.get("type", "any"))
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"list of {_name_type(schema['items'])}"
    values = schema.get("additionalProperties")
    return f"object of {_name_type(values)}" if kind == "object" and isinstance(values, dict) else kind


def describe_exit_codes() -> str:
    """Return the exit codes, as gates and errors define them."""
    from recveil.audits.gates import GateReport
    from recveil.cli.terminal import Terminated
    from recveil.core import errors

    meanings: dict[int, list[str]] = {}
    meanings.setdefault(GateReport().exit_code, []).append("The command did its work, and every gate passed.")
    meanings.setdefault(GateReport(failed=("gate",)).exit_code, []).append(
        "A gate failed, the release is worse than its baseline, or `cloak` failed its self-check or costs too much."
    )
    meanings.setdefault(GateReport(inconclusive=("gate",)).exit_code, []).append(
        "No gate failed, but the audit cannot decide one."
    )
    for name in errors.__all__:
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, errors.RecveilError) and kind is not errors.RecveilError:
            meanings.setdefault(kind.exit_code, []).append(str(kind.__doc__).strip())
    meanings.setdefault(errors.RecveilError.exit_code, []).append("An internal error, which is a fault of recveil.")
    meanings.setdefault(130, []).append("Interrupted by Ctrl-C; temporary files were removed.")
    meanings.setdefault(Terminated(15).exit_code, []).append("Ended by the system; temporary files were removed.")
    return make_table(("code", "meaning"), [(str(code), " ".join(texts)) for code, texts in sorted(meanings.items())])


def describe_api() -> str:
    """Return the directives that document every public name from its docstring."""
    import recveil

    groups: dict[str, list[str]] = {"Functions": [], "Transformers": [], "Results": [], "Types": []}
    for name in recveil.__all__:
        groups[_choose_group(name, getattr(recveil, name))].append(name)
    parts = []
    for title, names in groups.items():
        parts += [f"## {title}", *(_document_name(name, getattr(recveil, name)) for name in names)]
    return "\n\n".join(parts)


def _choose_group(name: str, value: Any) -> str:
    if not isinstance(value, type):
        return "Functions"
    if hasattr(value, "transform"):
        return "Transformers"
    return "Results" if name.endswith("Result") or name == "Verdict" else "Types"


def _document_name(name: str, value: Any) -> str:
    home = f"{value.__module__}.{value.__qualname__}"
    if not isinstance(value, type):
        return f"### {name}\n\n```{{eval-rst}}\n.. autofunction:: {home}\n   :no-index-entry:\n```"
    members = [key for key, each in inspect.getmembers(value, inspect.isfunction) if _is_documented(key, each)]
    listed = f"\n   :members: {', '.join(members)}" if members else ""
    return f"### {name}\n\n```{{eval-rst}}\n.. autoclass:: {home}\n   :no-index-entry:{listed}\n```"


def _is_documented(name: str, value: Any) -> bool:
    return not name.startswith("_") and str(value.__module__).startswith("recveil.") and bool(value.__doc__)


def describe_privacy_budgets() -> str:
    """Return what a budget allows an attack on membership, for delta 1e-5."""
    from recveil.metrics.gaussian_privacy import bound_attack_auc, bound_attack_tpr, calibrate_mu

    rows = []
    for epsilon in (0.5, 0.75, 1.0, 2.0, 4.0, 5.0, 10.0):
        mu = calibrate_mu(epsilon, 1e-5)
        rows.append((f"{epsilon:g}", f"{bound_attack_auc(mu):.3f}", f"{bound_attack_tpr(0.01, mu):.1%}"))
    return make_table(
        ("epsilon", "no attack has an AUC above", "found at most while 1 % of the others are accused"), rows
    )


def describe_power() -> str:
    """Return what audits of several sizes detect with 95 % power, by the functions of the audit."""
    from recveil.audits.attribute.audit import _compute_detectable, _compute_resolution
    from recveil.audits.attribute.folds import CrossValidation

    rules = CrossValidation(folds=5, repeats=10)
    rows = []
    for n in (200, 500, 1_000, 2_000, 5_000, 10_000, 50_000):
        counts = [n // 2, n // 2]
        resolution = _compute_resolution(counts, 0.05, rules)
        rows.append((f"{n:,}", *(f"{_compute_detectable(resolution, counts, d, rules):.2f}" for d in (8, 64))))
    return make_table(("users", "detects, 8 dimensions", "detects, 64 dimensions"), rows)
