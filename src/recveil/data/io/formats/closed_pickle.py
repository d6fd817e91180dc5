"""The structure of a file that `torch.save` wrote, read without unpickling anything.

A pickle is a program. This module reads its instructions one by one and builds only plain containers, numbers, text and
descriptions of tensors. No class is imported and no function is called: whatever else the file names (the configuration
object of a RecBole checkpoint, for instance) becomes an `Opaque` value. A file that names a function which runs code is
refused as well, since no honest checkpoint does.
"""

from __future__ import annotations

import pickletools  # nosec B403 (it lists instructions and runs none)
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Opaque", "StoredTensor", "UnsafePickle", "read_structure"]

MAX_INSTRUCTIONS = 20_000_000

_RUNNING_MODULES = frozenset(
    (
        *("os", "posix", "nt", "subprocess", "sys", "shutil", "socket", "importlib", "runpy", "ctypes", "pty", "code"),
        *("commands", "pickle", "marshal"),
    )
)
_RUNNING_BUILTINS = frozenset(("eval", "exec", "compile", "open", "input", "breakpoint", "__import__", "globals"))
_MARK = object()


class UnsafePickle(ValueError):
    """A pickle that names a function which runs code."""


@dataclass(frozen=True)
class Opaque:
    """Stands for a class, a function or an object that is not looked into."""

    name: str


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as the file describes it.

    Attributes:
        storage: name of its block of numbers.
        kind: type of the storage, such as "FloatStorage".
        offset: place of its first number in the block.
        shape: its shape.
        stride: numbers from one entry to the next, in each dimension.
    """

    storage: str
    kind: str
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def read_structure(program: bytes) -> Any:
    """Read the object that a pickle describes.

    Raises:
        UnsafePickle: it names a function which runs code.
        ValueError: it is damaged, or uses an instruction that `torch.save` never writes. Other errors that a damaged
            program leads to are IndexError, KeyError and TypeError.
    """
    machine = _Machine()
    for number, (instruction, argument, _) in enumerate(pickletools.genops(program)):
        if instruction.name == "STOP":
            if not machine.stack or machine.stack[-1] is _MARK:
                raise ValueError("no value")
            return machine.stack[-1]
        if number > MAX_INSTRUCTIONS:
            raise ValueError("too many instructions")
        machine.run(instruction.name, argument)
    raise ValueError("no end")


class _Machine:
    """The stack and the memo of a pickle program."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, name: str, argument: Any) -> None:
        """Run one instruction."""
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _PUSHES:
            self.stack.append(argument)
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self._memo[int(argument)] = self.stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self._memo[int(argument)])
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self.stack[-1]
        elif name in ("GLOBAL", "INST"):
            arguments = self._pop_to_mark() if name == "INST" else None
            described = _describe_global(*str(argument).split(" ", 1))
            self.stack.append(described if arguments is None else _describe_call(described, tuple(arguments)))
        elif name not in ("PROTO", "FRAME"):
            self._run_on_stack(name)

    def _run_on_stack(self, name: str) -> None:
        stack = self.stack
        if name in _TUPLE_SIZES:
            members = [stack.pop() for _ in range(_TUPLE_SIZES[name])]
            stack.append(tuple(reversed(members)))
        elif name in _COLLECTIONS:
            stack.append(_COLLECTIONS[name](self._pop_to_mark()))
        elif name in ("APPEND", "APPENDS", "ADDITEMS"):
            values = [stack.pop()] if name == "APPEND" else self._pop_to_mark()
            if isinstance(stack[-1], list):
                stack[-1].extend(values)
        elif name in ("SETITEM", "SETITEMS"):
            pairs = [stack.pop(-2), stack.pop()] if name == "SETITEM" else self._pop_to_mark()
            if isinstance(stack[-1], dict):
                stack[-1].update(_pair(pairs))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            stack.append(_describe_global(str(module), str(attribute)))
        elif name in ("REDUCE", "NEWOBJ", "NEWOBJ_EX"):
            if name == "NEWOBJ_EX":
                stack.pop()
            arguments = stack.pop()
            stack.append(_describe_call(stack.pop(), arguments))
        elif name == "BINPERSID":
            stack.append(_describe_storage(stack.pop()))
        elif name in ("BUILD", "POP"):
            stack.pop()  # the state of an object is not looked into
        elif name == "POP_MARK":
            self._pop_to_mark()
        elif name == "DUP":
            stack.append(stack[-1])
        else:
            raise ValueError(f"instruction {name}")

    def _pop_to_mark(self) -> list[Any]:
        place = max(place for place, value in enumerate(self.stack) if value is _MARK)
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values


@dataclass(frozen=True)
class _Storage:
    key: str
    kind: str


def _pair(values: list[Any]) -> dict[Any, Any]:
    """Make a dict of keys and values in turn; keys that a dict cannot hold are left out."""
    pairs = zip(values[::2], values[1::2], strict=True)
    return {key: value for key, value in pairs if isinstance(key, str | int | float | bytes | type(None))}


def _describe_global(module: str, name: str) -> Opaque:
    root = module.split(".")[0]
    is_builtin = root in ("builtins", "__builtin__")
    if root in _RUNNING_MODULES or (is_builtin and name.split(".")[0] in _RUNNING_BUILTINS):
        raise UnsafePickle(f"{module}.{name}")
    return Opaque(f"{module}.{name}")


def _describe_call(called: Any, arguments: Any) -> Any:
    """Return what a call would have made where it is a tensor or a dict, and an opaque value else."""
    name = called.name if isinstance(called, Opaque) else ""
    if name in ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor"):
        storage, offset, shape, stride = arguments[:4]
        if not isinstance(storage, _Storage):
            return Opaque(name)
        numbers = [int(offset), *map(int, shape), *map(int, stride)]
        if min(numbers) < 0 or len(shape) != len(stride):
            raise ValueError("a tensor with impossible sizes")
        return StoredTensor(storage.key, storage.kind, numbers[0], tuple(map(int, shape)), tuple(map(int, stride)))
    if name in ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state"):
        return arguments[0]
    if name in ("collections.OrderedDict", "collections.defaultdict"):
        return {}
    return Opaque(name)


def _describe_storage(description: Any) -> Any:
    """Return the block of numbers that torch names by ("storage", type, key, device, size)."""
    if not isinstance(description, tuple) or len(description) < 3 or description[0] != "storage":
        raise ValueError("an unknown storage")
    kind = description[1].name if isinstance(description[1], Opaque) else ""
    return _Storage(str(description[2]), kind.rsplit(".", 1)[-1])


_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": list,
    "MARK": lambda: _MARK,
}
_PUSHES = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    )
)
_TUPLE_SIZES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_COLLECTIONS: dict[str, Callable[[list[Any]], Any]] = {"TUPLE": tuple, "LIST": list, "FROZENSET": list, "DICT": _pair}
