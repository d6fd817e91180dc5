"""The shape of the code, guarded: layers, mirrored tests, sizes, safe calls. Each test lists all offenders."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import recveil

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "recveil"
TREES = {path: ast.parse(path.read_text()) for path in sorted(SRC.rglob("*.py"))}

LAYERS = (
    {"core"},
    {"metrics", "transport", "report"},
    {"data", "models", "attacks", "defenses"},
    {"audits"},
    {"streaming"},
    {"workflows"},
    {"studies", "integrations"},
    {"service", "cli", "testing"},
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
LIGHT = {"numpy", "scipy", "sklearn", "joblib", "torch", "pyarrow", "threadpoolctl", "pydantic", "recveil"}
MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_PARAMETERS = 350, 50, 8
DECLARATIONS = {
    "core/list_parts.py": "workflows/test_defended_lists.py",
    "core/membership_parts.py": "core/test_results.py",
    "core/protocols.py": "testing/test_contracts.py",
    "core/result_parts.py": "core/test_results.py",
    "core/self_check_parts.py": "workflows/test_self_check.py",
    "core/study_parts.py": "core/test_results.py",
}
"""Modules that only declare types, and the tests that use all of them."""

FORBIDDEN_CALLS = {"eval", "exec", "pickle.load", "pickle.loads", "pickle.Unpickler", "joblib.load"}
SAFE_ARGUMENTS = {"np.load": "allow_pickle=False", "torch.load": "weights_only=True"}


def name_of(path: Path) -> str:
    return str(path.relative_to(SRC))


def room_of(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imported_modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            whole = node.module == "recveil"
            yield from (
                (f"recveil.{alias.name}" for alias in node.names) if whole else ("." * node.level + str(node.module),)
            )


def imported_at_top(tree: ast.Module) -> Iterator[str]:
    return imported_modules(ast.Module([n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)], []))


def called_functions(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def test_the_package_shows_rooms_and_the_door() -> None:
    entries = [path.name for path in SRC.iterdir() if path.name != "__pycache__"]
    files = {name for name in entries if (SRC / name).is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}
    assert len(entries) <= 19
    assert {name for name in entries if name not in files} <= LEVEL.keys()


def test_rooms_import_only_from_strictly_lower_layers() -> None:
    offenders = []
    for path, tree in TREES.items():
        room = room_of(path)
        for module in imported_modules(tree) if room in LEVEL else ():
            other = module.split(".")[1] if module.startswith("recveil.") else room
            if module.startswith(".") or (other != room and LEVEL[other] >= LEVEL[room]):
                offenders.append(f"{name_of(path)} imports {module}")
    assert not offenders, "\n".join(offenders)


def test_computing_rooms_need_only_the_light_packages() -> None:
    known = LIGHT | set(sys.stdlib_module_names)
    offenders = [
        f"{name_of(path)} imports {module}"
        for path, tree in TREES.items()
        if LEVEL.get(room_of(path), 9) <= 2 and room_of(path) != "report"
        for module in imported_at_top(tree)
        if module.split(".")[0] not in known
    ]
    assert not offenders, "\n".join(offenders)


def test_every_module_has_its_tests_in_the_mirrored_place() -> None:
    mirrored = {
        path: ROOT / "tests" / DECLARATIONS.get(name_of(path), path.relative_to(SRC).with_name(f"test_{path.name}"))
        for path in TREES
        if not path.name.startswith("__")
    }
    offenders = [f"{name_of(path)} needs {test}" for path, test in mirrored.items() if not test.is_file()]
    assert not offenders, "\n".join(offenders)


def test_files_functions_and_signatures_stay_small() -> None:
    offenders = []
    for path, tree in TREES.items():
        lines = path.read_text().count("\n")
        offenders += [f"{name_of(path)} has {lines} lines"] if lines > MAX_FILE_LINES else []
        for f in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            length = f.end_lineno - f.lineno + 1
            given = [
                a.arg for a in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs) if a.arg not in ("self", "cls")
            ]
            if length > MAX_FUNCTION_LINES:
                offenders.append(f"{name_of(path)}: {f.name} has {length} lines")
            if len(given) > MAX_PARAMETERS:
                offenders.append(f"{name_of(path)}: {f.name} has {len(given)} parameters")
    assert not offenders, "\n".join(offenders)


@pytest.mark.thorough
def test_nothing_is_unpickled_or_evaluated() -> None:
    offenders = []
    for path, tree in TREES.items():
        for call in called_functions(tree):
            name, text = ast.unparse(call.func), ast.unparse(call)
            if name in FORBIDDEN_CALLS or SAFE_ARGUMENTS.get(name, "") not in text:
                offenders.append(f"{name_of(path)}:{call.lineno} calls {name}")
    assert not offenders, "\n".join(offenders)


def test_public_names_are_sorted_and_all_there() -> None:
    assert recveil.__all__ == sorted(recveil.__all__)
    assert [name for name in recveil.__all__ if getattr(recveil, name) is None] == []
    with pytest.raises(AttributeError, match="no attribute 'audti'"):
        _ = recveil.audti


def test_importing_recveil_imports_nothing_heavy() -> None:
    code = "import sys, recveil; print(sorted({'torch', 'numpy', 'pyarrow', 'sklearn'} & sys.modules.keys()))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_no_machine_path_in_the_tree() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    texts = [ROOT / name for name in tracked if name.endswith((".py", ".md", ".toml", ".txt"))]
    offenders = [str(path) for path in texts if path.is_file() and str(ROOT.parent) + "/" in path.read_text()]
    assert not offenders
