"""Registries: declarations are read from the source as they would be imported, and other packages cannot break them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace
from importlib import import_module, invalidate_caches
from pathlib import Path

import pytest

from recveil.attacks.attribute import ATTRIBUTE_ATTACKS
from recveil.attacks.membership import MEMBERSHIP_ATTACKS
from recveil.core.errors import UsageError
from recveil.core.registry import Registry, check_options
from recveil.core.traits import DefenseTraits, Traits
from recveil.defenses import DEFENSES
from recveil.models import MODELS

REGISTRIES = {each.kind: each for each in (ATTRIBUTE_ATTACKS, MEMBERSHIP_ATTACKS, DEFENSES, MODELS)}


@pytest.mark.parametrize("kind", REGISTRIES)
def test_what_is_read_from_the_source_is_what_would_be_imported(kind: str) -> None:
    registry = REGISTRIES[kind]
    names = list(registry)
    assert names == sorted(names)
    assert names == [traits.name for traits in registry.all_traits()]
    for name in names:
        module = import_module(registry.load(name).__module__)
        # One builder may serve several methods; a builder imported from elsewhere is declared where it is offered.
        declared = [t for t in getattr(module, "METHODS", ()) if t.name == name] or _find_declarations(registry, name)
        assert [replace(t, summary="") for t in declared] == [replace(registry.traits(name), summary="")], name
        assert registry.traits(name).summary, f"{kind} '{name}' has no summary"


def _find_declarations(registry: Registry[Traits], name: str) -> list[Traits]:
    source = registry._entries[name][1]
    assert isinstance(source, str)
    return [traits for traits in import_module(source).METHODS if traits.name == name]


def test_listing_all_methods_imports_nothing_heavy() -> None:
    code = """
    import sys
    from recveil.attacks.attribute import ATTRIBUTE_ATTACKS
    from recveil.attacks.membership import MEMBERSHIP_ATTACKS
    from recveil.defenses import DEFENSES
    from recveil.models import MODELS
    assert all(each.all_traits() for each in (ATTRIBUTE_ATTACKS, MEMBERSHIP_ATTACKS, DEFENSES, MODELS))
    print(sorted({"torch", "sklearn", "scipy"} & sys.modules.keys()))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_unknown_names_and_options_are_errors_with_the_nearest_match() -> None:
    assert "sliced" in DEFENSES
    with pytest.raises(UsageError, match=r"No defense is called 'slced'\. Did you mean 'sliced'"):
        DEFENSES.make("slced")
    with pytest.raises(UsageError, match="'stength'. Did you mean 'strength'"):
        DEFENSES.make("sliced", stength=1)
    check_options("audit", {"folds": 3}, ["folds"])
    with pytest.raises(UsageError, match="No option of audit is called 'fold'"):
        check_options("audit", {"fold": 3}, ["folds"])


MODULES = {
    "shelf/own.py": """
        from dataclasses import dataclass
        from recveil.core.traits import DefenseTraits, ModelTraits

        METHODS = (DefenseTraits("own", builder="Own", place="data"), ModelTraits("other", builder="Own"))

        @dataclass
        class Own:
            "Our own."

            size: int = 1

            def __post_init__(self):
                if self.size < 0:
                    raise ValueError("too small")
        """,
    "stranger/good.py": """
        import a_package_that_nobody_wrote
        from recveil.core.traits import DefenseTraits

        METHODS = (DefenseTraits("good", builder="make", streams=True),)

        def make(size, device=None):
            return size, device
        """,
    "stranger/plain.py": "class Plain:\n    'A class without traits.'\n",
    "stranger/evil.py": "METHODS = (__import__('os').system('true'),)\n",
}


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[DefenseTraits]:
    """A registry of an empty package, and a package `stranger` with good and bad entry points for it."""
    for name in ("shelf", "stranger"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    for path, text in MODULES.items():
        (tmp_path / path).write_text(textwrap.dedent(text))
    points = (
        "good = stranger.good\nplain = stranger.plain:Plain\nown = stranger.plain:Plain\n"
        "missing = stranger.missing\nbroken = stranger.good:make\nevil = stranger.evil\n"
    )
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[shelf.defenses]\n{points}")
    monkeypatch.syspath_prepend(tmp_path)
    invalidate_caches()
    for name in [name for name in sys.modules if name.split(".")[0] in ("shelf", "stranger")]:
        monkeypatch.delitem(sys.modules, name)
    return Registry("defense", "shelf", "shelf.defenses", DefenseTraits)


def test_entry_points_add_methods_and_bad_ones_are_named_and_skipped(shelf: Registry[DefenseTraits]) -> None:
    with pytest.warns(UserWarning, match="skipped") as warned:
        assert list(shelf) == ["good", "own", "plain"]
    messages = [str(warning.message) for warning in warned]
    assert len(messages) == 4
    for name, reason in (("missing", "ModuleNotFoundError"), ("broken", "a_package"), ("evil", ""), ("own", "exists")):
        assert any(f"'{name}'" in message and reason in message for message in messages), name
    assert shelf.traits("good").streams  # read without importing its module, which cannot be imported here
    assert shelf.traits("plain").summary == "A class without traits."
    assert shelf.load("plain").__name__ == "Plain"
    assert shelf.traits("own").place == "data"  # ours, not the one of the same name from elsewhere


@pytest.mark.filterwarnings("ignore:The entry point")
def test_methods_are_made_with_the_options_they_have(shelf: Registry[DefenseTraits], tmp_path: Path) -> None:
    assert shelf.make("own", size=3, device="cpu").size == 3  # it takes no device, so none is passed on
    with pytest.raises(UsageError, match="'sise'. Did you mean 'size'"):
        shelf.make("own", sise=3)
    with pytest.raises(UsageError, match=r"cannot be made with \{'size': -1\}: too small"):
        shelf.make("own", size=-1)
    module = tmp_path / "stranger" / "good.py"
    module.write_text(module.read_text().replace("import a_package_that_nobody_wrote\n", ""))
    assert shelf.make("good", size=2, device="cpu") == (2, "cpu")
