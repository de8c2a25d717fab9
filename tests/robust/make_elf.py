#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""make_elf.py KIND FILE: a shared object that is nothing but its symbol table.

huge: sparse, some KB on the disk; symbols and strings of 384 and 512 MB
slow: within all limits, but each of its symbols has a name of 4 KB, which they share
"""
import struct
import sys

PAGE = 4096
VADDR = 0x1000
NAME = 4000

kind, path = sys.argv[1:]
if kind == "huge":
    n_symbols, strings, symbols = (16 << 20), 512 << 20, b""
else:
    n_symbols, strings = 180000, 46 << 20
    symbols = b"".join(struct.pack("<IBBHQQ", 1, 0x12, 0, 1, VADDR + i % PAGE, 1) for i in range(n_symbols))

sections = 64 + 56
text = PAGE
symtab = 2 * PAGE
strtab = symtab + n_symbols * 24
with open(path, "wb") as f:
    f.write(b"\x7fELF\2\1\1" + bytes(9))
    f.write(struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, sections, 0, 64, 56, 1, 64, 3, 0))
    f.write(struct.pack("<IIQQQQQQ", 1, 5, text, VADDR, VADDR, PAGE, PAGE, PAGE))
    f.write(bytes(64))
    f.write(struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, symtab, n_symbols * 24, 2, 0, 8, 24))
    f.write(struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, strtab, strings, 0, 0, 1, 0))
    f.seek(symtab)
    f.write(symbols)
    f.seek(strtab + 1)
    f.write(b"a" * NAME)
    f.truncate(strtab + strings)
