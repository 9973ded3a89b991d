#!/usr/bin/env python3
"""Writes what libprism_device.so (a real GPU) and tests have for the names of the replaced libraries.
The virtual device gets the same from launch/process/facades.h, when a program starts.

  generate_stubs.py stubs OUT.S LIBRARY=CODE=PATH...
      Reads the exported functions of the real libraries and writes a weak function for each, which
      does what virtual_device/library_calls.txt says, or refuses by name and returns the library's own
      "not supported" code; an implementation in the shim is a strong symbol and wins at link time.
  generate_stubs.py passes OUT.S LIBRARY=CODE=PATH...
      Writes a weak function for each name, which jumps to the real library's (gpu/pass.S), or
      tells of it first where it is an op of virtual_device/library_calls.txt
      (gpu/library_call.S); a
      function of the shim that sees the call first is a strong symbol and wins at link time.
  generate_stubs.py echoes OUT.S LIBRARY=CODE=PATH...
      Writes a function for each name that tells it to tests/support/echo.S.
  generate_stubs.py renames OUT.txt OBJECT...
      Writes "name prism_twin_name" for each call of the replaced libraries that objects define,
      for objcopy.

Standard library and nm only.
"""

import pathlib
import re
import subprocess
import sys

# Functions that return a pointer: a code would be mistaken for an address. cuFileRead and
# cuFileWrite return a negative error in a count of bytes.
NULL_NAMES = re.compile(r"^nvshmem(x)?_(malloc|calloc|align|ptr|mc_ptr|buffer_register_symmetric)$")
TEXT_NAMES = re.compile(r"(Get(Error|Status|Result|Last)\w*(String|Name|Error)|op_status_error)$")
NEGATIVE_NAMES = re.compile(r"^cuFile(Read|Write)$")
SKIPPED_NAMES = re.compile(r"^_Z|^_init$|^_fini$")

# Names that later versions of a library added and that extensions in use link against, so that they
# load: cuBLASLt 13.2, Transformer Engine 2.14.
LATER_NAMES = {"libcublasLt": {"cublasLtGroupedMatrixLayoutInit_internal"}}


# virtual_device/library_call.h: LibraryAction, by number, and HandleKind of libraries whose handles are not
# separate objects.
ACTIONS = ("done", "create", "number", "destroy", "stream", "run", "workspace", "elements", "vector",
           "scalar", "column", "product")
ISSUING = ("run", "vector", "scalar", "column", "product")
HANDLE_KINDS = {"libcufft": 1, "libcublas": 2, "libcudnn": 3}
PRECISION = re.compile(r"^cublas([SDCZH])[a-z]")
OWN_OBJECT = re.compile(r"Descriptor(Ex|_v9)?$")  # of a cuDNN call's first argument
NO_ARGUMENT = 255


def described_calls():
    """(library, regular expression, bytes of library_call.h's LibraryCall as a number)."""
    table = pathlib.Path(__file__).parent / "virtual_device" / "library_calls.txt"
    for line in table.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        library, action, *arguments, pattern = line.split()
        numbers = [NO_ARGUMENT if argument == "-" else int(argument) for argument in arguments]
        numbers += [NO_ARGUMENT] * (4 - len(numbers))
        what = bytes([ACTIONS.index(action), 0, 0, *numbers, 0])
        yield library, re.compile(pattern), int.from_bytes(what, "little")


def stem_of(library):
    return library.split(".so")[0]


def described(library, name, calls):
    """What library_calls.txt says about the name, None if nothing."""
    library = stem_of(library)
    for its_library, pattern, what in calls:
        if its_library == library and pattern.fullmatch(name):
            kind = 0 if OWN_OBJECT.search(name) else HANDLE_KINDS.get(library, 0)
            precision = PRECISION.search(name)
            return what | kind << 8 | (ord(precision[1]) if precision else 0) << 16
    return None


def symbols(path):
    """(type, name) of the dynamic symbols that a library defines."""
    out = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True,
                         text=True).stdout
    for line in out.splitlines():
        kind, name = line.split()[-2:]
        yield kind, name.partition("@")[0]


def functions(library, path):
    names = {name for kind, name in symbols(path)
             if kind in "TWi" and not SKIPPED_NAMES.search(name)}
    return sorted(names | LATER_NAMES.get(stem_of(library), set()))


def stub(name, code, what, index):
    start = f".weak {name}\n.type {name}, @function\n{name}:\n  endbr64\n"
    end = f".size {name}, . - {name}\n"
    if what is not None:
        return (f"{start}  lea .Lname{index}(%rip), %r10\n  movabs ${what}, %r11\n"
                f"  jmp prism_shim_library_call\n{end}")
    if NULL_NAMES.search(name):
        code, target = 0, "prism_shim_refuse"
    elif NEGATIVE_NAMES.search(name):
        code, target = -code, "prism_shim_refuse"
    elif TEXT_NAMES.search(name):
        target = "prism_shim_refuse_text"
    else:
        target = "prism_shim_refuse"
    return f"{start}  lea .Lname{index}(%rip), %rdi\n  mov ${code}, %rsi\n  jmp {target}\n{end}"


def write_stubs(out, libraries):
    calls = list(described_calls())
    seen = {}
    for library, code, path in libraries:
        for name in functions(library, path):
            seen.setdefault(name, (code, described(library, name, calls)))
    code_lines = []
    names = []
    for index, (name, (code, what)) in enumerate(sorted(seen.items())):
        code_lines.append(stub(name, code, what, index))
        names.append(f'.Lname{index}: .string "{name}"\n')
    pathlib.Path(out).write_text(
        ".hidden prism_shim_refuse\n.hidden prism_shim_refuse_text\n"
        ".hidden prism_shim_library_call\n.text\n" + "".join(code_lines)
        + ".section .rodata\n" + "".join(names) + '.section .note.GNU-stack,"",@progbits\n')


def is_told(what):
    """Whether a real device's call is an op, or says where ops of its plan go."""
    action = None if what is None else ACTIONS[what & 255]
    kind = None if what is None else what >> 8 & 255
    return action in ISSUING or (action == "stream" and kind == HANDLE_KINDS["libcufft"])


def own_functions(library, path):
    """Without the private functions of other libraries that it has a copy of."""
    first = library.removeprefix("lib").split(".")[0]
    prefix = {"cudart": ("cuda", "__cuda"), "cuda": "cu"}.get(first, first)
    return [name for name in functions(library, path) if name.startswith(prefix)]


def write_passes(out, libraries):
    calls = list(described_calls())
    whats = {name: described(library, name, calls)
             for library, _, path in libraries for name in own_functions(library, path)}
    names = sorted(whats)
    code = []
    for i, name in enumerate(names):
        code.append(f".weak {name}\n.type {name}, @function\n{name}:\n  endbr64\n")
        if is_told(whats[name]):
            code.append(f"  lea .Lname{i}(%rip), %r10\n  movabs ${whats[name]}, %r11\n"
                        f"  lea .Lreal{i}(%rip), %rax\n  jmp prism_device_library_call\n"
                        f".size {name}, . - {name}\n")
            continue
        code.append(f"  jmp *.Lreal{i}(%rip)\n.size {name}, . - {name}\n"
                    f".Lfind{i}:\n  lea .Lname{i}(%rip), %r10\n  lea .Lreal{i}(%rip), %r11\n"
                    "  jmp prism_device_find\n")
    slots = [f".Lreal{i}: .quad {0 if is_told(whats[name]) else f'.Lfind{i}'}\n"
             for i, name in enumerate(names)]
    texts = [f'.Lname{i}: .string "{name}"\n' for i, name in enumerate(names)]
    pathlib.Path(out).write_text(
        ".hidden prism_device_find\n.hidden prism_device_library_call\n.text\n" + "".join(code) + ".data\n.balign 8\n"
        + "".join(slots) + ".section .rodata\n" + "".join(texts)
        + '.section .note.GNU-stack,"",@progbits\n')


def write_echoes(out, libraries):
    names = sorted({name for library, _, path in libraries for name in functions(library, path)})
    code = [f".globl {name}\n.type {name}, @function\n{name}:\n  lea .Lname{i}(%rip), %rax\n"
            f"  jmp prism_echo_call\n.size {name}, . - {name}\n" for i, name in enumerate(names)]
    texts = [f'.Lname{i}: .string "{name}"\n' for i, name in enumerate(names)]
    pathlib.Path(out).write_text(
        ".hidden prism_echo_call\n.text\n" + "".join(code) + ".section .rodata\n" + "".join(texts)
        + '.section .note.GNU-stack,"",@progbits\n')


def write_renames(out, objects):
    listing = subprocess.run(["nm", "--defined-only", "-g", *objects], check=True,
                             capture_output=True, text=True).stdout
    names = sorted(set(re.findall(r" T ((?:cu|__cuda)\w+)$", listing, re.MULTILINE)))
    pathlib.Path(out).write_text("".join(f"{name} prism_twin_{name}\n" for name in names))


def main():
    verb, out = sys.argv[1:3]
    if verb == "renames":
        write_renames(out, sys.argv[3:])
        return
    libraries = []
    for argument in sys.argv[3:]:
        library, code, path = argument.split("=", 2)
        libraries.append((library, int(code), path))
    if verb == "stubs":
        write_stubs(out, libraries)
    elif verb == "passes":
        write_passes(out, libraries)
    else:
        write_echoes(out, libraries)


main()
