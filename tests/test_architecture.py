"""The shape of the code, guarded: layers, mirrored tests, public names, sizes."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import recveil

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "recveil"
MODULES = sorted(p for p in SRC.rglob("*.py"))

LAYERS = [
    {"core", "errors", "random", "device", "progress", "atomic", "clock"},
    {"ot", "metrics"},
    {"data", "models", "attacks", "defenses"},
    {
        *("catalog", "protect", "games", "audit", "verdict", "risk", "where", "activity", "regression"),
        *("membership", "shadowing", "referencing", "conclusion", "staging", "remarks"),
    },
    {"experiments", "report", "adapters", "scale"},
    {
        *("cli", "terminal", "inputs", "options", "workflow", "cloaking", "serving", "frontier", "training"),
        *(
            "__main__",
            "gates",
            "baseline",
            "demo",
            "doctor",
            "testing",
            "cli_membership",
            "watching",
            "cli_study",
            "cli_study_report",
            "cli_tune",
            "large",
        ),
    },
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
SIBLINGS_APART = LAYERS[2]
LIGHT = {"numpy", "scipy", "sklearn", "joblib", "torch", "pyarrow", "threadpoolctl", "recveil"}
WITHOUT_A_TEST_OF_THEIR_OWN = {"__init__.py", "__main__.py"}
PARAMETERS_MAX, FUNCTION_MAX, FILE_MAX = 8, 60, 350


def name_of(path: Path) -> str:
    return str(path.relative_to(SRC))


def room_of(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> list[str]:
    plain = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layer"
            whole = node.module == "recveil"
            plain += [f"recveil.{alias.name}" for alias in node.names] if whole else [node.module or ""]
    return plain


def functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_from_lower_layers(path: Path) -> None:
    if path == SRC / "__init__.py":
        pytest.skip("the front door may name every room")
    room = room_of(path)
    for name in imports(ast.parse(path.read_text())):
        other = name.split(".")[1] if name.startswith("recveil.") else None
        if other is None or other == room:
            continue
        assert LEVEL[other] <= LEVEL[room], f"{path.name} in layer '{room}' imports '{name}' from above"
        apart = room in SIBLINGS_APART and other in SIBLINGS_APART
        assert not apart, f"siblings do not import each other: {room} imports {name}"


@pytest.mark.parametrize("path", [p for p in MODULES if LEVEL.get(room_of(p), 9) <= 2], ids=name_of)
def test_computing_rooms_need_only_the_light_packages(path: Path) -> None:
    tree = ast.parse(path.read_text())
    top = ast.Module([n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)], [])
    foreign = {n.split(".")[0] for n in imports(top)} - LIGHT - set(sys.stdlib_module_names)
    assert not foreign


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_has_its_tests_in_the_mirrored_place(path: Path) -> None:
    if path.name in WITHOUT_A_TEST_OF_THEIR_OWN:
        return
    mirrored = ROOT / "tests" / path.relative_to(SRC).with_name(f"test_{path.name}")
    assert mirrored.is_file(), f"{name_of(path)} needs {mirrored.relative_to(ROOT)}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= FILE_MAX
    for f in functions(ast.parse(text)):
        assert f.end_lineno - f.lineno < FUNCTION_MAX, f"{f.name} is too long"
        given = [a for a in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs) if a.arg not in ("self", "cls")]
        if not path.name.startswith("cli"):  # there a parameter is an option of a command
            assert len(given) <= PARAMETERS_MAX, f"{f.name} has {len(given)} parameters"


def test_no_file_is_called_by_an_empty_word() -> None:
    empty = {"utils", "helpers", "base", "common", "manager", "misc"}
    assert not {p.stem for p in MODULES} & empty


def test_public_names_are_few_and_all_there() -> None:
    assert len(recveil.__all__) <= 20
    assert recveil.__all__ == sorted(recveil.__all__)
    assert [name for name in recveil.__all__ if getattr(recveil, name) is None] == []
    with pytest.raises(AttributeError, match="no attribute 'audti'"):
        _ = recveil.audti


def test_importing_recveil_costs_nothing() -> None:
    code = "import sys, recveil; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_rooms_have_a_word_for_the_newcomer() -> None:
    for package in SRC.rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(package.read_text())), f"{package} has no docstring"


def test_nothing_is_unpickled_or_evaluated() -> None:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {"eval", "exec", "pickle.load", "pickle.loads", "torch.load", "joblib.load"}
                if called == "np.load":
                    assert "allow_pickle=False" in ast.unparse(node)


def test_no_machine_path_in_the_tree() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in tracked:
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".txt"} and path.is_file():
            assert str(ROOT.parent) + "/" not in path.read_text(encoding="utf-8"), name
