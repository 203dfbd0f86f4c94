"""Gives a program another dynamic linker, and so another glibc than the system's.

In: an ELF program (64 bit, little-endian). Out: a copy of it that names another interpreter; all else is the same.
Never: changes the program it was given.

The kernel reads the interpreter's name at an offset in the file, so a longer name at the file's end needs no room to be
made before it: one program header is changed, and no section moves.
"""

import shutil
import struct
from pathlib import Path

MAGIC = b"\x7fELF"
_CLASS_64_LITTLE_ENDIAN = b"\x02\x01"
_PT_INTERP = 3


class NotPatched(Exception):
    """The file is no program whose interpreter could be named; the text says why."""


def is_program(path: Path) -> bool:
    """Whether it is an ELF file that names an interpreter: a program, not a library or a script."""
    try:
        with path.open("rb") as file:
            return _interpreter_header(file.read(4096), path) is not None
    except (OSError, NotPatched):
        return False


def with_interpreter(source: Path, target: Path, interpreter: Path) -> None:
    """Copies `source` to `target`, which will be started through `interpreter`. Raises NotPatched."""
    shutil.copyfile(source, target)
    shutil.copymode(source, target)
    name = str(interpreter).encode() + b"\0"
    with target.open("r+b") as file:
        header = _interpreter_header(file.read(4096), source)
        if header is None:
            raise NotPatched(f"{source} names no interpreter: it is no dynamically linked program.")
        end = file.seek(0, 2)
        file.write(name)
        file.seek(header + 8)  # p_offset
        file.write(struct.pack("<Q", end))
        file.seek(header + 32)  # p_filesz, p_memsz
        file.write(struct.pack("<QQ", len(name), len(name)))


def _interpreter_header(start: bytes, path: Path) -> int | None:
    """Where the program header of the interpreter stands, by the file's first bytes; None if it has none."""
    if not start.startswith(MAGIC + _CLASS_64_LITTLE_ENDIAN):
        raise NotPatched(f"{path} is no 64-bit little-endian ELF file.")
    first, size, count = (*struct.unpack_from("<Q", start, 32), *struct.unpack_from("<HH", start, 54))
    for offset in range(first, first + size * count, size):
        if offset + size > len(start):
            break
        if struct.unpack_from("<I", start, offset)[0] == _PT_INTERP:
            return int(offset)
    return None
