"""Registries of methods, built from the method files and from the entry points of other packages.

A method is one file. The module declares what it offers in `METHODS`, a tuple of traits written as literals:

    METHODS = (DefenseTraits("sliced", builder="Sliced", place="embeddings", streams=True, paper="..."),)

A registry reads these declarations from the source text, so that listing methods imports nothing heavy. The module is
imported when a method is made. A package adds methods by an entry point in the registry's group that names such a
module (`my_package.my_defense`), or a class or function with a `traits` attribute (`my_package.my_defense:MyDefense`).
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

from recveil.core.errors import RecveilError, RecveilWarning, UsageError, unknown_name
from recveil.core.traits import (
    AttackTraits,
    Choice,
    DefenseTraits,
    MembershipAttackTraits,
    ModelTraits,
    Range,
    Traits,
)

__all__ = ["Registry", "check_options"]


T = TypeVar("T", bound=Traits)
_LITERALS: Mapping[str, type] = {
    kind.__name__: kind for kind in (AttackTraits, Choice, DefenseTraits, MembershipAttackTraits, ModelTraits, Range)
}


@dataclass
class Registry(Generic[T]):
    """Methods of one kind by name.

    Args:
        kind: what a method is called in errors, such as "model".
        package: package whose modules are read for `METHODS`, subpackages included.
        group: entry-point group that other packages add methods to.
        traits_type: the traits that this registry takes; declarations of other types are left to other registries.
    """

    kind: str
    package: str
    group: str
    traits_type: type[T]

    @cached_property
    def _entries(self) -> dict[str, tuple[T, str | Callable[..., Any]]]:
        """Traits by name, each with its module's name or with the builder itself."""
        found: dict[str, tuple[T, str | Callable[..., Any]]] = {
            traits.name: (traits, module) for module, traits in self._read_package(self.package)
        }
        for entry_point in entry_points(group=self.group):
            for traits, source in self._read_entry_point(entry_point):
                if traits.name in found:
                    warnings.warn(
                        f"The entry point '{entry_point.name}' of {self.group} offers '{traits.name}', "
                        "which exists already; it was skipped.",
                        RecveilWarning,
                        stacklevel=2,
                    )
                    continue
                found[traits.name] = (traits, source)
        return dict(sorted(found.items()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def traits(self, name: str) -> T:
        """Return the traits of a method; an unknown name is an error with the nearest match."""
        if name not in self._entries:
            raise unknown_name(self.kind, name, self._entries)
        return self._entries[name][0]

    def all_traits(self) -> list[T]:
        """Return the traits of all methods, by name."""
        return [traits for traits, _ in self._entries.values()]

    def load(self, name: str) -> Callable[..., Any]:
        """Import the class or function that makes the method."""
        traits = self.traits(name)
        source = self._entries[name][1]
        builder: Callable[..., Any] = (
            getattr(import_module(source), traits.builder) if isinstance(source, str) else source
        )
        return builder

    def make(self, name: str, **options: Any) -> Any:
        """Make the method with these options; an unknown option is an error with the nearest match.

        Values are checked against the annotations of the builder. `device` is passed on only to builders that take one.
        """
        from recveil.core.option_types import describe_value, parse_option_values  # pydantic, which lists do not need

        builder = self.load(name)
        known = _option_names(builder)
        if "device" not in known:
            options.pop("device", None)
        owner = f"{self.kind} '{name}'"
        check_options(owner, options, known)
        options = parse_option_values(owner, builder, options)
        try:
            return builder(**options)
        except RecveilError:
            raise
        except (TypeError, ValueError) as error:
            raise UsageError(f"{owner} cannot be made with {describe_value(options)}: {error}") from error

    def _read_package(self, package: str) -> Iterator[tuple[str, T]]:
        for folder in import_module(package).__path__:
            for module in pkgutil.walk_packages([folder], f"{package}."):
                path = Path(folder, *module.name.removeprefix(f"{package}.").split(".")).with_suffix(".py")
                if path.is_file():
                    yield from ((module.name, traits) for traits in self._read_source(path))

    def _read_source(self, path: Path) -> list[T]:
        text = path.read_text(encoding="utf-8")
        if "METHODS" not in text:
            return []
        return [traits for traits in _read_declarations(ast.parse(text)) if isinstance(traits, self.traits_type)]

    def _read_entry_point(self, entry_point: EntryPoint) -> Iterator[tuple[T, str | Callable[..., Any]]]:
        """Yield what an entry point offers; one that cannot be read is named in a warning and skipped."""
        try:
            if entry_point.attr:
                builder = entry_point.load()
                default = self.traits_type(entry_point.name, builder=builder.__name__)
                traits = replace(getattr(builder, "traits", default), name=entry_point.name)
                found: list[tuple[Traits, str | Callable[..., Any]]] = [
                    (_with_summary(traits, builder.__doc__), builder)
                ]
            else:
                spec = find_spec(entry_point.module)
                if spec is None or spec.origin is None:
                    raise ModuleNotFoundError(f"no module '{entry_point.module}'")
                tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
                found = [(traits, entry_point.module) for traits in _read_declarations(tree)]
        except Exception as error:  # noqa: BLE001 - somebody else's package must not stop ours
            warnings.warn(
                f"The entry point '{entry_point.name}' of {self.group} could not be loaded and was skipped "
                f"({type(error).__name__}: {error}).",
                RecveilWarning,
                stacklevel=2,
            )
            return
        yield from ((traits, source) for traits, source in found if isinstance(traits, self.traits_type))


def check_options(owner: str, options: Mapping[str, Any], known: list[str]) -> None:
    """Refuse options that the owner does not have."""
    for option in options:
        if option not in known:
            raise unknown_name(f"option of {owner}", option, known)


def _option_names(builder: Callable[..., Any]) -> list[str]:
    if is_dataclass(builder):
        return [f.name for f in fields(builder) if f.init]
    return list(inspect.signature(builder).parameters)


def _read_declarations(tree: ast.Module) -> list[Traits]:
    """Read `METHODS` of a module from its source text."""
    docs = {
        node.name: ast.get_docstring(node) for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == "METHODS" for target in targets) and node.value:  # type: ignore[attr-defined]
            declared = _evaluate(node.value)  # type: ignore[attr-defined]
            return [_with_summary(traits, docs.get(traits.builder)) for traits in declared]
    return []


def _with_summary(traits: Any, docstring: str | None) -> Any:
    if traits.summary or not docstring:
        return traits
    return replace(traits, summary=docstring.strip().split("\n")[0])


def _evaluate(node: ast.expr) -> Any:
    """Evaluate literals and calls of the traits types; anything else is an error."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _LITERALS:
        arguments = [_evaluate(argument) for argument in node.args]
        options = {str(keyword.arg): _evaluate(keyword.value) for keyword in node.keywords}
        return _LITERALS[node.func.id](*arguments, **options)
    if isinstance(node, ast.Tuple):
        return tuple(_evaluate(element) for element in node.elts)
    if isinstance(node, ast.Dict):
        return {_evaluate(k): _evaluate(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}
    return ast.literal_eval(node)
